//! WASI sockets behind the same allow-list as `net/tcp@v1`: the name first, then every address.
//!
//! wasmtime-wasi asks about addresses only and has one switch for all names. So names pass through
//! a view that knows the rules, and what an allowed name resolved to is remembered: only those
//! addresses, on ports that the name is allowed on, may be connected to on its behalf.

use crate::guest::context::GuestContext;
use crate::guest::stats::SharedRefusals;
use crate::limits::Limit;
use crate::limits::denial::Denial;
use crate::limits::policy::NetworkPolicy;
use mainspring_zcl::cap::TcpOpen;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{
    Host, HostResolveAddressStream, ResolveAddressStream,
};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddress, Network};
use wasmtime_wasi::p2::bindings::sockets::tcp_create_socket;
use wasmtime_wasi::p2::{DynPollable, SocketError, TcpSocket};
use wasmtime_wasi::sockets::{SocketAddrUse, WasiSocketsCtxView};

/// How many addresses of names one guest may have in mind; then the names have to be looked up
/// again.
const RESOLVED_MAX: usize = 1024;

/// The allow-list of one guest, and what its lookups brought.
#[derive(Debug)]
pub(super) struct Rules {
    /// Whether the guest may use sockets at all; wasmtime-wasi refuses them if not.
    sockets: bool,
    policy: NetworkPolicy,
    lookups_max: usize,
    resolved: Mutex<HashMap<IpAddr, Vec<String>>>,
    refusals: SharedRefusals,
}

impl Rules {
    pub(super) fn of(guest: &GuestContext, sockets: bool) -> Arc<Rules> {
        let (policy, refusals) = (guest.network().clone(), guest.shared_refusals());
        Arc::new(Rules { sockets, ..Rules::new(policy, guest.limits().lookups, refusals) })
    }

    fn new(policy: NetworkPolicy, lookups_max: usize, refusals: SharedRefusals) -> Rules {
        Rules { sockets: true, policy, lookups_max, resolved: Mutex::default(), refusals }
    }

    /// What wasmtime-wasi asks before each use of an address.
    pub(super) fn admits(&self, address: SocketAddr, purpose: SocketAddrUse) -> bool {
        let allowed = self.allows(address, purpose);
        if !allowed {
            self.refusals.deny(match purpose {
                SocketAddrUse::TcpBind | SocketAddrUse::TcpListen => Denial::Listen(address.to_string()),
                _ => Denial::Connect(address.to_string()),
            });
        }
        allowed
    }

    fn allows(&self, address: SocketAddr, purpose: SocketAddrUse) -> bool {
        match purpose {
            // Whoever connects is first bound to an address that the system chooses; whoever
            // listens is asked again, with the real one.
            SocketAddrUse::TcpBind => {
                (address.ip().is_unspecified() && address.port() == 0) || self.policy.may_listen(address)
            }
            SocketAddrUse::TcpListen => self.policy.may_listen(address),
            SocketAddrUse::TcpAccept => true,
            SocketAddrUse::TcpConnect => self.may_connect(address),
            // There is no UDP.
            SocketAddrUse::UdpBind | SocketAddrUse::UdpSend | SocketAddrUse::UdpReceive => false,
        }
    }

    fn may_connect(&self, address: SocketAddr) -> bool {
        if self.policy.may_connect(address) {
            return true;
        }
        let resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let names = resolved.get(&address.ip().to_canonical());
        let by_name = names.into_iter().flatten().any(|name| self.policy.may_look_up(name, address.port()));
        by_name && self.policy.may_connect_resolved(address)
    }

    fn remember(&self, address: IpAddr, name: &str) {
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        if resolved.len() >= RESOLVED_MAX {
            resolved.clear();
        }
        let names = resolved.entry(address.to_canonical()).or_default();
        if !names.iter().any(|known| known == name) && names.len() < RESOLVED_MAX {
            names.push(name.into());
        }
    }
}

fn number_of(address: IpAddress) -> IpAddr {
    match address {
        IpAddress::Ipv4((a, b, c, d)) => Ipv4Addr::new(a, b, c, d).into(),
        IpAddress::Ipv6((a, b, c, d, e, f, g, h)) => Ipv6Addr::new(a, b, c, d, e, f, g, h).into(),
    }
}

/// The names being looked up.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// By resource.
    names: HashMap<u32, String>,
    /// Given up by the guest before their end. Each still occupies a thread, so it counts until
    /// that is free again.
    abandoned: Vec<Resource<ResolveAddressStream>>,
}

/// wasmtime-wasi's view of the sockets, and ours of the names.
pub(crate) struct NamesView<'a> {
    pub(super) sockets: WasiSocketsCtxView<'a>,
    pub(super) rules: &'a Rules,
    pub(super) lookups: &'a mut Lookups,
}

/// Names the view's type for the linker.
pub(super) struct Names;

impl HasData for Names {
    type Data<'a> = NamesView<'a>;
}

impl Host for NamesView<'_> {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> Result<Resource<ResolveAddressStream>, SocketError> {
        if name.len() > TcpOpen::HOST_BYTES_MAX as usize {
            return Err(ErrorCode::InvalidArgument.into());
        }
        let is_name = name.parse::<IpAddr>().is_err();
        let denial = match self.rules.sockets {
            false => Some(Denial::WasiSockets),
            true => (is_name && !self.rules.policy.may_look_up_somewhere(&name))
                .then(|| Denial::Connect(format!("{name}:*"))),
        };
        if let Some(denial) = denial {
            self.rules.refusals.deny(denial);
            return Err(ErrorCode::AccessDenied.into());
        }
        self.forget_finished()?;
        if self.lookups.names.len() + self.lookups.abandoned.len() >= self.rules.lookups_max {
            self.rules.refusals.count(Limit::Lookups);
            return Err(ErrorCode::TemporaryResolverFailure.into());
        }
        let stream = self.sockets.resolve_addresses(network, name.clone())?;
        self.lookups.names.insert(stream.rep(), name);
        Ok(stream)
    }
}

impl tcp_create_socket::Host for NamesView<'_> {
    fn create_tcp_socket(
        &mut self,
        family: network::IpAddressFamily,
    ) -> Result<Resource<TcpSocket>, SocketError> {
        if !self.rules.sockets {
            self.rules.refusals.deny(Denial::WasiSockets);
        }
        self.sockets.create_tcp_socket(family)
    }
}

impl NamesView<'_> {
    /// Frees those of the abandoned lookups that are over by now.
    fn forget_finished(&mut self) -> Result<(), SocketError> {
        for stream in std::mem::take(&mut self.lookups.abandoned) {
            if self.is_under_way(&stream) {
                self.lookups.abandoned.push(stream);
            } else {
                HostResolveAddressStream::drop(&mut self.sockets, stream).map_err(SocketError::trap)?;
            }
        }
        Ok(())
    }

    fn is_under_way(&mut self, stream: &Resource<ResolveAddressStream>) -> bool {
        let next = self.sockets.resolve_next_address(Resource::new_borrow(stream.rep()));
        next.is_err_and(|error| matches!(error.downcast_ref(), Some(ErrorCode::WouldBlock)))
    }
}

// Asked for by the linker, because lookups return these types; whatever concerns them is
// wasmtime-wasi's own.
impl network::Host for NamesView<'_> {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        self.sockets.convert_error_code(error)
    }

    fn network_error_code(
        &mut self,
        error: Resource<wasmtime_wasi::p2::bindings::io::error::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.sockets.network_error_code(error)
    }
}

impl network::HostNetwork for NamesView<'_> {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        network::HostNetwork::drop(&mut self.sockets, network)
    }
}

impl HostResolveAddressStream for NamesView<'_> {
    fn resolve_next_address(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> Result<Option<IpAddress>, SocketError> {
        let name = self.lookups.names.get(&stream.rep());
        let address = self.sockets.resolve_next_address(stream)?;
        if let (Some(address), Some(name)) = (&address, name) {
            self.rules.remember(number_of(*address), name);
        }
        Ok(address)
    }

    fn subscribe(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        HostResolveAddressStream::subscribe(&mut self.sockets, stream)
    }

    fn drop(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<()> {
        self.lookups.names.remove(&stream.rep());
        if self.is_under_way(&stream) {
            self.lookups.abandoned.push(stream);
            return Ok(());
        }
        HostResolveAddressStream::drop(&mut self.sockets, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::stats::Counters;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn rules() -> Rules {
        let mut policy = NetworkPolicy::new();
        policy.allow_connect("db.example.com:5432").unwrap();
        policy.allow_connect("10.0.0.0/8:80").unwrap();
        policy.allow_listen("127.0.0.1:*").unwrap();
        Rules::new(policy, 1, SharedRefusals::new(&Counters::default(), &Arc::default(), &None))
    }

    #[test]
    fn an_address_of_an_allowed_name_is_allowed_only_after_the_lookup_and_on_its_port() {
        let rules = rules();
        assert!(!rules.allows(at("93.184.216.34:5432"), SocketAddrUse::TcpConnect));
        rules.remember("93.184.216.34".parse().unwrap(), "db.example.com");
        assert!(rules.allows(at("93.184.216.34:5432"), SocketAddrUse::TcpConnect));
        assert!(!rules.allows(at("93.184.216.34:22"), SocketAddrUse::TcpConnect));
    }

    #[test]
    fn a_name_that_resolves_to_this_machine_opens_nothing() {
        let rules = rules();
        rules.remember("127.0.0.1".parse().unwrap(), "db.example.com");
        assert!(!rules.allows(at("127.0.0.1:5432"), SocketAddrUse::TcpConnect));
    }

    #[test]
    fn addresses_have_rules_of_their_own() {
        let rules = rules();
        assert!(rules.allows(at("10.1.2.3:80"), SocketAddrUse::TcpConnect));
        assert!(!rules.allows(at("10.1.2.3:81"), SocketAddrUse::TcpConnect));
        assert!(rules.allows(at("127.0.0.1:8080"), SocketAddrUse::TcpListen));
        assert!(!rules.allows(at("0.0.0.0:8080"), SocketAddrUse::TcpBind));
        assert!(rules.allows(at("0.0.0.0:0"), SocketAddrUse::TcpBind));
        assert!(!rules.allows(at("10.1.2.3:80"), SocketAddrUse::UdpSend));
    }

    #[test]
    fn what_is_remembered_of_names_is_bounded() {
        let rules = rules();
        for number in 0..10_000_u32 {
            rules.remember(Ipv4Addr::from(number).into(), "db.example.com");
        }
        assert!(rules.resolved.lock().unwrap().len() <= RESOLVED_MAX);
    }
}
