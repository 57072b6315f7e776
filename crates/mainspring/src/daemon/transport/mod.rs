//! Where clients connect: listeners, each one of the kernel's adapters, and lines on the wire.

mod http;
mod listener;
pub(super) mod outgoing;
pub(super) mod outlet;
mod passed;
mod stdio;
mod tcp;
mod unix;
pub(super) mod wire;

use crate::daemon::clients::Clients;
use crate::daemon::clients::http_bus::HttpBus;
use crate::daemon::operator::limits::Allowance;
use crate::settings::Listener;
use listener::{ListeningSocket, Room};
use mainspring_reactor::Handle;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The listeners of a daemon, by their place in the boot plan.
pub(crate) struct Listeners {
    reactor: Handle,
    clients: Rc<Clients>,
    http_bus: Rc<HttpBus>,
    settings: Vec<Listener>,
    allowance: Allowance,
    /// What the service manager passed, by listener.
    passed: Vec<Option<OwnedFd>>,
    open: Vec<Option<OpenListener>>,
}

/// A listener that is open. Dropping it closes it, and removes what it left in the file system.
enum OpenListener {
    Unix { socket: ListeningSocket, _place: Option<unix::SocketPlace> },
    Tcp { socket: ListeningSocket },
    Http(http::OpenHttp),
    Stdio,
}

impl Listeners {
    /// The listeners of a daemon with so many capabilities.
    pub(crate) fn new(
        reactor: Handle,
        clients: Rc<Clients>,
        http_bus: Rc<HttpBus>,
        settings: Vec<Listener>,
        capabilities: usize,
    ) -> Listeners {
        let open = settings.iter().map(|_| None).collect();
        let passed = passed::passed_sockets(&settings);
        let allowance = Allowance::new(capabilities);
        Listeners { reactor, clients, http_bus, settings, allowance, passed, open }
    }

    /// The names that the kernel knows them by.
    pub(crate) fn names(settings: &[Listener]) -> Vec<String> {
        let name = |listener: &Listener| match listener {
            Listener::Unix { .. } => "unix",
            Listener::Tcp { .. } => "tcp",
            Listener::Http(_) | Listener::HttpUnix { .. } => "http",
            Listener::Stdio => "stdio",
        };
        settings.iter().map(|listener| name(listener).to_owned()).collect()
    }

    /// Opens a listener, and says where.
    pub(crate) fn start(&mut self, adapter: u32) -> Result<String, String> {
        let at = adapter as usize;
        let settings = self.settings.get(at).ok_or("there is no such listener")?;
        let passed = self.passed.get_mut(at).and_then(Option::take);
        let room = |gated| Room { clients: Rc::clone(&self.clients), allowance: self.allowance, gated };
        let (opened, address) = match settings {
            Listener::Unix { path } => {
                let (socket, place) = unix::open(&self.reactor, room(false), adapter, path, passed)?;
                (OpenListener::Unix { socket, _place: place }, path.display().to_string())
            }
            Listener::Tcp { address, tokens } => {
                let (socket, bound) =
                    tcp::open(&self.reactor, room(true), adapter, *address, tokens, passed)?;
                (OpenListener::Tcp { socket }, bound.to_string())
            }
            Listener::Http(listener) => {
                let (open, bound) = http::open(&self.reactor, room(false), &self.http_bus, listener, passed)?;
                let scheme = if listener.tls.is_some() { "https" } else { "http" };
                (OpenListener::Http(open), format!("{scheme}://{bound}"))
            }
            Listener::HttpUnix { path } => {
                let open = http::open_unix(&self.reactor, room(false), &self.http_bus, path, passed)?;
                (OpenListener::Http(open), format!("http+unix://{}", path.display()))
            }
            Listener::Stdio => {
                stdio::open(&self.clients, adapter)?;
                (OpenListener::Stdio, "standard input and output".to_owned())
            }
        };
        self.open[at] = Some(opened);
        Ok(address)
    }

    /// Accepts no more connections, and reads no more from those that there are.
    pub(crate) fn stop(&mut self, adapter: u32) {
        match self.open.get_mut(adapter as usize).and_then(Option::as_mut) {
            Some(OpenListener::Unix { socket, .. } | OpenListener::Tcp { socket }) => socket.close(),
            Some(OpenListener::Http(http)) => http.stop(),
            Some(OpenListener::Stdio) | None => {}
        }
        self.clients.stop_reading(adapter);
    }
}
