//! How a host is made.

use super::engine::{check_map_count, engine_config};
use super::{Host, HostShared};
use crate::abi::imports;
use crate::capabilities::{self, AnyCapability, Capability, CapabilityId};
use crate::guest::state::GuestState;
use crate::limits::ticker::Ticker;
use crate::{Error, Result};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
#[cfg(feature = "wasi")]
use std::sync::OnceLock;
use wasmtime::{Engine, Linker};

type Link = Box<dyn FnOnce(&mut Linker<GuestState>) -> wasmtime::Result<()>>;

/// Adds imports to a component's linker, once for each component.
#[cfg(feature = "wasi")]
pub(super) type ComponentLink =
    Box<dyn Fn(&mut wasmtime::component::Linker<GuestState>) -> wasmtime::Result<()> + Send + Sync>;

/// How a host is made.
///
/// # Examples
/// ```
/// use mainspring_host::HostConfig;
///
/// let mut config = HostConfig::default();
/// config.guests_max = 10;
/// let host = config.build()?;
/// assert_eq!(host.stats().guests, 0);
/// # Ok::<(), mainspring_host::Error>(())
/// ```
#[non_exhaustive]
pub struct HostConfig {
    /// Most guests at a time. Address space is set aside for them, memory is not. 1,000.
    pub guests_max: u32,
    /// The largest memory that any guest may have, whatever its own limit. 4 GiB, or less if there
    /// are many guests.
    pub memory_bytes_max: usize,
    /// Most descriptors that all guests together may hold: connections and listeners, by
    /// `net/tcp@v1` and `mainspring:sockets`. Beyond, a guest is told that there is no room. Half
    /// of what the process may open.
    pub descriptors_max: u64,
    /// Whether slots for guests are made beforehand. Without, starting a guest is slower, and only
    /// limits bound their number.
    pub pooling: bool,
    /// How long a component that wakes itself is made to wait when a socket of `mainspring:sockets`
    /// would block. What [`SocketWait::from_environment`](crate::SocketWait::from_environment)
    /// says.
    #[cfg(feature = "wasi")]
    pub socket_wait: crate::SocketWait,
    capabilities: Vec<Box<dyn AnyCapability>>,
    links: Vec<Link>,
    #[cfg(feature = "wasi")]
    component_links: Vec<ComponentLink>,
    exit_code: Option<ExitCode>,
    resolver: Resolver,
}

/// Looks a name up, and may block.
pub(crate) type Resolver = Arc<dyn Fn(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Asks the system.
fn system_resolver(name: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    Ok((name, port).to_socket_addrs()?.collect())
}

/// Finds the exit code in an error that is none.
pub(crate) type ExitCode = fn(&wasmtime::Error) -> Option<i32>;

impl Default for HostConfig {
    fn default() -> HostConfig {
        HostConfig {
            guests_max: 1000,
            memory_bytes_max: 4 << 30,
            descriptors_max: half_of_the_descriptors(),
            pooling: true,
            #[cfg(feature = "wasi")]
            socket_wait: crate::SocketWait::from_environment(),
            capabilities: capabilities::built_in(),
            links: Vec::new(),
            #[cfg(feature = "wasi")]
            component_links: Vec::new(),
            #[cfg(feature = "wasi")]
            exit_code: Some(crate::wasi::exit_code),
            #[cfg(not(feature = "wasi"))]
            exit_code: None,
            resolver: Arc::new(system_resolver),
        }
    }
}

impl HostConfig {
    /// The defaults.
    pub fn new() -> HostConfig {
        HostConfig::default()
    }

    /// Adds a capability. One of the same kind and name is replaced.
    pub fn capability<C: Capability>(&mut self, capability: C) -> &mut HostConfig {
        let place = |id: CapabilityId| (id.kind(), id.name());
        self.capabilities.retain(|known| place(known.id()) != place(C::ID));
        self.capabilities.push(Box::new(capability));
        self
    }

    /// Adds imports, such as WASI's. What they need per guest goes into
    /// [`GuestConfig::extension`](crate::GuestConfig::extension).
    pub fn link(
        &mut self,
        link: impl FnOnce(&mut Linker<GuestState>) -> wasmtime::Result<()> + 'static,
    ) -> &mut HostConfig {
        self.links.push(Box::new(link));
        self
    }

    /// Adds imports for components. One of the same name replaces the host's own.
    #[cfg(feature = "wasi")]
    pub fn link_component(
        &mut self,
        link: impl Fn(&mut wasmtime::component::Linker<GuestState>) -> wasmtime::Result<()>
        + Send
        + Sync
        + 'static,
    ) -> &mut HostConfig {
        self.component_links.push(Box::new(link));
        self
    }

    /// Tells guests that asked to exit, by an error that an added import returns, from those that
    /// trapped.
    pub fn exit_code(&mut self, exit_code: fn(&wasmtime::Error) -> Option<i32>) -> &mut HostConfig {
        self.exit_code = Some(exit_code);
        self
    }

    /// Looks names up in another way than the system's, for `net/tcp@v1` and `mainspring:sockets`.
    /// It runs on other threads, and may block: a guest that waits for it holds up no other.
    pub fn resolver(
        &mut self,
        resolver: impl Fn(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> &mut HostConfig {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Makes the host.
    ///
    /// # Errors
    /// [`Error::MapCount`], [`Error::Engine`], [`Error::Thread`], [`Error::Link`].
    pub fn build(mut self) -> Result<Host> {
        check_map_count(self.guests_max)?;
        let engine = Engine::new(&engine_config(&self))
            .map_err(|source| Error::Engine { guests_max: self.guests_max, source })?;
        let ticker = Ticker::start(&engine).map_err(Error::Thread)?;
        let mut linker = Linker::new(&engine);
        imports::add_to(&mut linker).map_err(Error::Link)?;
        #[cfg(feature = "wasi")]
        crate::wasi::add_to_linker(&mut linker).map_err(Error::Link)?;
        for capability in &self.capabilities {
            capability.link(&mut linker).map_err(Error::Link)?;
        }
        for link in self.links {
            link(&mut linker).map_err(Error::Link)?;
        }
        self.capabilities.sort_by_key(|capability| (capability.id().kind(), capability.id().name()));
        Ok(Host {
            linker: Arc::new(linker),
            shared: Arc::new(HostShared {
                engine,
                ticker,
                counters: Arc::default(),
                capabilities: self.capabilities,
                exit_code: self.exit_code,
                #[cfg(feature = "wasi")]
                socket_wait: self.socket_wait,
                #[cfg(feature = "wasi")]
                component_links: self.component_links,
                #[cfg(feature = "wasi")]
                async_engine: OnceLock::new(),
                resolver: self.resolver,
                guests_max: self.guests_max,
                memory_bytes_max: self.memory_bytes_max,
                descriptors_max: self.descriptors_max,
            }),
        })
    }
}

impl fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConfig")
            .field("guests_max", &self.guests_max)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("pooling", &self.pooling)
            .finish_non_exhaustive()
    }
}

/// Half of the descriptors that the process may open: the rest is for whatever else it does.
fn half_of_the_descriptors() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(u64::MAX, |limit| limit / 2)
}
