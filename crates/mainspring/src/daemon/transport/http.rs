//! HTTP: on loopback, further with TLS, or on a Unix socket; what it means is in the crate
//! `mainspring-http`.

use crate::daemon::clients::console_sessions::ConsoleSessions;
use crate::daemon::clients::http_bus::HttpBus;
use crate::daemon::transport::listener::{HTTP, ListeningSocket, Room};
use crate::daemon::transport::unix;
use crate::settings::{HttpListener, is_reserved_peer};
use mainspring_http::tls::Tls;
use mainspring_http::{Access, Limits, Options, Server, Token};
use mainspring_kernel::Rights;
use mainspring_reactor::Handle;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Where the console listens if no listener serves HTTP: loopback, on the usual port or, if
/// somebody has that, on any.
const CONSOLE_PORT: u16 = 7780;

/// What every server of the daemon is made with.
#[derive(Clone, Copy)]
pub(in crate::daemon::transport) struct Behind<'a> {
    pub(in crate::daemon::transport) reactor: &'a Handle,
    pub(in crate::daemon::transport) bus: &'a Rc<HttpBus>,
    pub(in crate::daemon::transport) sessions: &'a Rc<ConsoleSessions>,
}

/// A listener for HTTP that is open.
pub(in crate::daemon::transport) struct OpenHttp {
    socket: ListeningSocket,
    server: Rc<Server>,
    /// The path of a Unix socket, while it is ours.
    _place: Option<unix::SocketPlace>,
    /// What the commands of this user are told, while it holds.
    run_file: Option<RunFile>,
}

impl OpenHttp {
    /// Accepts no more; what is being answered is answered.
    pub(in crate::daemon::transport) fn stop(&mut self) {
        self.socket.close();
        self.server.stop();
        self.run_file = None;
    }
}

/// Listens on a TCP address; port 0 means any that is free. Says which it is.
pub(in crate::daemon::transport) fn open(
    behind: Behind<'_>,
    room: Room,
    listener: &HttpListener,
    passed: Option<OwnedFd>,
) -> Result<(OpenHttp, SocketAddr), String> {
    let address = listener.address;
    if !address.ip().is_loopback() && listener.tls.is_none() {
        return Err(format!(
            "{address} is not loopback, so it needs `tls`: tokens would be readable on their way"
        ));
    }
    if listener.tokens.is_empty() {
        return Err(format!("{address} has no tokens, so nobody could ask anything"));
    }
    if let Some(token) = listener.tokens.iter().find(|token| is_reserved_peer(&token.name)) {
        let name = &token.name;
        return Err(format!("{address} has a token named {name:?}, and that is another peer's name"));
    }
    let tls = match &listener.tls {
        None => None,
        Some(files) => {
            let client_ca = files.client_ca.as_deref();
            Some(Tls::read(&files.certificate, &files.key, client_ca).map_err(|error| error.to_string())?)
        }
    };
    let token = |token: &crate::settings::Token| {
        Token::new(behind.bus.peer(token.name.clone(), token.rights.clone()), &token.secret)
    };
    let tokens = listener.tokens.iter().map(token).collect();
    let mut hosts = listener.hosts.clone();
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    let access = Access::Tokens { tokens, hosts };
    let socket = match passed {
        Some(socket) => TcpListener::from(socket),
        None => TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?,
    };
    let (mut open, bound) = serve_tcp(behind, room, socket, access, tls)?;
    if let Some(path) = &listener.run_file {
        open.run_file = Some(RunFile::write(path, bound, listener)?);
    }
    Ok((open, bound))
}

/// Listens on loopback for consoles alone: there are no tokens, so nobody but whoever has a session
/// can ask anything.
pub(in crate::daemon::transport) fn open_console(
    behind: Behind<'_>,
    room: Room,
) -> Result<(OpenHttp, SocketAddr), String> {
    let bind = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let socket = bind(CONSOLE_PORT).or_else(|_| bind(0)).map_err(|error| format!("127.0.0.1: {error}"))?;
    let access = Access::Tokens { tokens: Vec::new(), hosts: Vec::new() };
    serve_tcp(behind, room, socket, access, None)
}

fn serve_tcp(
    behind: Behind<'_>,
    room: Room,
    socket: TcpListener,
    access: Access,
    tls: Option<Tls>,
) -> Result<(OpenHttp, SocketAddr), String> {
    socket.set_nonblocking(true).map_err(|error| error.to_string())?;
    let bound = socket.local_addr().map_err(|error| error.to_string())?;
    let server = server(behind, access, tls);
    let welcoming = Rc::clone(&server);
    let socket = ListeningSocket::start(behind.reactor, HTTP, OwnedFd::from(socket), room, move |socket| {
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        welcome(&welcoming, socket);
    })?;
    Ok((OpenHttp { socket, server, _place: None, run_file: None }, bound))
}

/// Listens on a Unix socket, for its owner alone: whoever can connect needs no token.
pub(in crate::daemon::transport) fn open_unix(
    behind: Behind<'_>,
    room: Room,
    path: &Path,
    passed: Option<OwnedFd>,
) -> Result<OpenHttp, String> {
    let owner = rustix::process::geteuid();
    let peer = behind.bus.peer(format!("user:{}", owner.as_raw()), Rights::of_operator());
    let server = server(behind, Access::Everybody(peer), None);
    let welcoming = Rc::clone(&server);
    let (socket, place) = unix::listen(behind.reactor, HTTP, room, path, passed, move |socket, _| {
        welcome(&welcoming, socket);
    })?;
    Ok(OpenHttp { socket, server, _place: place, run_file: None })
}

fn server(behind: Behind<'_>, access: Access, tls: Option<Tls>) -> Rc<Server> {
    let Behind { reactor, bus, sessions } = behind;
    let limits = Limits { body_bytes_max: bus.line_bytes_max(), ..Limits::default() };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let sessions = Some(Rc::clone(sessions) as Rc<dyn mainspring_http::Sessions>);
    let options = Options { access, limits, tls, version, sessions };
    Rc::new(Server::new(reactor, Rc::clone(bus) as Rc<dyn mainspring_http::Bus>, options))
}

fn welcome(server: &Server, socket: OwnedFd) {
    if let Err(error) = server.welcome(socket) {
        tracing::warn!("an HTTP client cannot be served: {error}");
    }
}

/// A file for this run, readable by its owner alone, that tells the address and a token; removed at
/// the end.
struct RunFile(PathBuf);

impl RunFile {
    fn write(path: &Path, bound: SocketAddr, listener: &HttpListener) -> Result<RunFile, String> {
        let scheme = if listener.tls.is_some() { "https" } else { "http" };
        let token = listener.tokens.first().map(|token| &token.secret);
        let text = serde_json::json!({ "url": format!("{scheme}://{bound}"), "token": token }).to_string();
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        // Another daemon's, which ended without its last moments; the socket's lock says that it is
        // gone.
        let _ = std::fs::remove_file(path);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(RunFile(path.to_owned()))
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
