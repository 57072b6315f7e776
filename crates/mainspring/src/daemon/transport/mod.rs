//! Where clients connect: listeners, each one of the kernel's adapters, and lines on the wire.
//!
//! `unix`, `tcp`, `stdio` and `http` are the kinds of listeners, `listener` what they share,
//! `passed` those of a service manager; `wire` reads and writes one client, `outgoing` and `outlet`
//! are what waits to be written. The pump opens and closes them; `clients/` gets whoever connects.

mod http;
mod listener;
pub(super) mod outgoing;
pub(super) mod outlet;
mod passed;
mod stdio;
mod tcp;
mod tls;
mod unix;
pub(super) mod wire;

use crate::daemon::clients::Clients;
use crate::daemon::clients::console_sessions::{ConsoleSessions, ONCE_MS};
use crate::daemon::clients::http_bus::HttpBus;
use crate::daemon::operator::limits::Allowance;
use crate::settings::Listener;
use http::Behind;
use listener::{ListeningSocket, Room};
use mainspring_kernel::ConsoleRefused;
use mainspring_message::Json;
use mainspring_reactor::Handle;
use serde_json::json;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The listeners of a daemon, by their place in the boot plan.
pub(crate) struct Listeners {
    reactor: Handle,
    clients: Rc<Clients>,
    http_bus: Rc<HttpBus>,
    sessions: Rc<ConsoleSessions>,
    settings: Vec<Listener>,
    /// Where HTTP is served by TCP, with its scheme.
    http_urls: Vec<String>,
    /// A listener for consoles alone, opened when one is asked for and no other serves HTTP.
    console: Option<http::OpenHttp>,
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
        let socket = settings.iter().find_map(|listener| match listener {
            Listener::Unix { path } => Some(path.as_path()),
            _ => None,
        });
        let sessions = ConsoleSessions::new(&http_bus, socket);
        let (http_urls, console) = (Vec::new(), None);
        Listeners {
            reactor,
            clients,
            http_bus,
            sessions,
            settings,
            http_urls,
            console,
            allowance,
            passed,
            open,
        }
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
        let behind = Behind { reactor: &self.reactor, bus: &self.http_bus, sessions: &self.sessions };
        let room = |gated| Room { clients: Rc::clone(&self.clients), allowance: self.allowance, gated };
        let (opened, address) = match settings {
            Listener::Unix { path } => {
                let (socket, place) = unix::open(&self.reactor, room(false), adapter, path, passed)?;
                (OpenListener::Unix { socket, _place: place }, path.display().to_string())
            }
            Listener::Tcp { address, tokens, tls } => {
                let place = tcp::TcpPlace { address: *address, tokens, tls: tls.as_ref() };
                let (socket, bound) = tcp::open(&self.reactor, room(true), adapter, place, passed)?;
                (OpenListener::Tcp { socket }, bound.to_string())
            }
            Listener::Http(listener) => {
                let (open, bound) = http::open(behind, room(false), listener, passed)?;
                let scheme = if listener.tls.is_some() { "https" } else { "http" };
                let url = format!("{scheme}://{bound}");
                // Nobody connects to "any address"; the listener knows the name that it is called
                // by.
                self.http_urls.push(match bound.ip().is_unspecified() {
                    true => {
                        let host = listener.hosts.first().map_or("localhost", String::as_str);
                        format!("{scheme}://{host}:{}", bound.port())
                    }
                    false => url.clone(),
                });
                (OpenListener::Http(open), url)
            }
            Listener::HttpUnix { path } => {
                let open = http::open_unix(behind, room(false), path, passed)?;
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

    /// An address that opens the console once, for the owner of the daemon's socket.
    pub(crate) fn open_console(&mut self, peer: &str) -> Result<Json, ConsoleRefused> {
        if peer != ConsoleSessions::owner_name() {
            let text = "only the user whose daemon this is opens a console by its socket; \
                        with a token, open the address of the HTTP listener and sign in";
            return Err(ConsoleRefused::Stranger(text.to_owned()));
        }
        let url = self.console_url().map_err(ConsoleRefused::Nowhere)?;
        let once = self.sessions.new_once().map_err(ConsoleRefused::Nowhere)?;
        Ok(json!({ "url": format!("{url}/#t={once}"), "expiresInMs": ONCE_MS }).into())
    }

    /// Where the console is served. If nothing serves HTTP by TCP, something does from now on.
    fn console_url(&mut self) -> Result<String, String> {
        if let Some(url) = self.http_urls.first() {
            return Ok(url.clone());
        }
        let room = Room { clients: Rc::clone(&self.clients), allowance: self.allowance, gated: false };
        let behind = Behind { reactor: &self.reactor, bus: &self.http_bus, sessions: &self.sessions };
        let (open, bound) = http::open_console(behind, room)?;
        let url = format!("http://{bound}");
        tracing::info!("the console is at {url} until the daemon ends");
        self.console = Some(open);
        self.http_urls.push(url.clone());
        Ok(url)
    }

    /// Accepts no more connections, and reads no more from those that there are.
    pub(crate) fn stop(&mut self, adapter: u32) {
        match self.open.get_mut(adapter as usize).and_then(Option::as_mut) {
            Some(OpenListener::Unix { socket, .. } | OpenListener::Tcp { socket }) => socket.close(),
            Some(OpenListener::Http(http)) => http.stop(),
            Some(OpenListener::Stdio) | None => {}
        }
        if let Some(mut console) = self.console.take() {
            console.stop();
        }
        self.clients.stop_reading(adapter);
    }
}
