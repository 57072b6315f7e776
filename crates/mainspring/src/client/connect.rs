//! How a connection begins: by TCP, with the token.

use crate::client::{Address, Client, ClientError, Lines, ReplyTimeout, Stream, ping, tls};
use crate::system::trust::{self, Distrust};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// How long whoever listens on a TCP port may take to let us in.
const ADMISSION_MAX: Duration = Duration::from_secs(10);

impl Client {
    /// Connects to the daemon at an address. By TCP, returns when the daemon has taken the token.
    ///
    /// # Errors
    /// Nobody listens there, or lets us in.
    pub fn connect(address: &Address, reply_timeout: ReplyTimeout) -> Result<Client, ClientError> {
        match address {
            Address::Unix(path) => {
                let stream = connect_unix(path, address, reply_timeout)?;
                Ok(Client::new(Stream::Unix(stream), reply_timeout))
            }
            Address::Tcp { place, token, tls } => {
                let admission = reply_timeout.at_most(ADMISSION_MAX);
                let stream = connect_tcp(place, address, tls.is_some(), admission.longest())?;
                let (stream, ending) = match tls {
                    None => (Stream::Tcp(stream), None),
                    Some(trust) => {
                        let (stream, ending) = tls::encrypt(stream, place, trust, admission.longest())?;
                        (Stream::Tls(stream), Some(ending))
                    }
                };
                let mut client = Client::new(stream, admission);
                client.show(token).map_err(|error| match ending.as_deref().and_then(OnceLock::get) {
                    Some(reason) => ClientError::Tls { place: place.clone(), reason: reason.clone() },
                    None => not_let_in(error, place),
                })?;
                client.reply_timeout = reply_timeout;
                Ok(client)
            }
        }
    }

    pub(super) fn new(stream: Stream, reply_timeout: ReplyTimeout) -> Client {
        Client { stream, lines: Lines::default(), scratch: String::new(), reply_timeout }
    }

    /// Shows the token. A right one is not answered, so something is asked that every daemon
    /// answers.
    fn show(&mut self, token: &str) -> Result<(), ClientError> {
        self.send_lines(format!("{}\n", serde_json::json!({ "token": token })).as_bytes())?;
        self.request(&ping()).map(drop)
    }
}

/// Connects; a daemon that does not accept is not waited for longer than one that does
/// not read.
fn connect_unix(
    path: &Path,
    address: &Address,
    reply_timeout: ReplyTimeout,
) -> Result<UnixStream, ClientError> {
    let failed = |errno: Errno| match errno {
        Errno::AGAIN => reply_timeout.gave_up(),
        Errno::ACCESS => denied(path, address),
        other => no_daemon(address, other.into()),
    };
    let place = SocketAddrUnix::new(path).map_err(|errno| no_daemon(address, errno.into()))?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(io::Error::from)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(reply_timeout.longest()))
        .map_err(io::Error::from)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &place)).map_err(failed)?;
    let stream = UnixStream::from(socket);
    check_listener(&stream, path)?;
    Ok(stream)
}

/// Makes sure before anything is said that a process of this user listens, and that nobody else led
/// us there. A daemon serves nobody but its user, so whoever else listens could only want to hear
/// what we say, or to make up an answer.
fn check_listener(stream: &UnixStream, path: &Path) -> Result<(), ClientError> {
    let user = rustix::process::geteuid().as_raw();
    let owner = sockopt::socket_peercred(stream).map_err(io::Error::from)?.uid.as_raw();
    if owner != user {
        return Err(ClientError::OfAnotherUser { owner, user });
    }
    match trust::check_path(path) {
        Err(Distrust::Owner { place, owner }) => {
            Err(ClientError::ForeignPlace { place: place.display().to_string(), owner, user })
        }
        // It is connected: whatever cannot be looked at is gone by now.
        _ => Ok(()),
    }
}

/// Who owns what refuses us: the socket, or a folder on the way to it.
fn denied(path: &Path, address: &Address) -> ClientError {
    let seen = path.ancestors().find_map(|place| {
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        std::fs::metadata(place).ok().map(|metadata| (place, metadata.uid()))
    });
    let (place, owner) = seen.unwrap_or((Path::new("/"), 0));
    let (address, place) = (address.clone(), place.display().to_string());
    ClientError::Denied { address, place, owner, user: rustix::process::geteuid().as_raw() }
}

fn no_daemon(address: &Address, reason: io::Error) -> ClientError {
    ClientError::NoDaemon { address: address.clone(), reason }
}

/// What it means that a connection failed before anything was asked of the daemon.
fn not_let_in(error: ClientError, place: &str) -> ClientError {
    let place = place.to_owned();
    match error {
        ClientError::TurnedAway { code: 403, .. } => ClientError::WrongToken { place },
        ClientError::Closed | ClientError::NotAMessage(_) | ClientError::Silent { .. } => {
            ClientError::NotADaemon { place }
        }
        other => other,
    }
}

fn connect_tcp(
    place: &str,
    address: &Address,
    is_encrypted: bool,
    limit: Duration,
) -> Result<TcpStream, ClientError> {
    let mut reason = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in resolve(place, is_encrypted)? {
        match TcpStream::connect_timeout(&candidate, limit) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => reason = error,
        }
    }
    Err(no_daemon(address, reason))
}

/// The addresses of a place; without encryption, all of them on this machine.
fn resolve(place: &str, is_encrypted: bool) -> Result<Vec<SocketAddr>, ClientError> {
    let bad = |reason: String| ClientError::BadPlace { place: place.to_owned(), reason };
    let is_host_and_port = place
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    if !is_host_and_port {
        return Err(bad("expected a host and a port, such as 127.0.0.1:7700".into()));
    }
    let found: Vec<SocketAddr> = place.to_socket_addrs().map_err(|error| bad(error.to_string()))?.collect();
    match found.iter().find(|address| !is_encrypted && !address.ip().is_loopback()) {
        Some(elsewhere) => {
            let (host, port) = (elsewhere.ip(), elsewhere.port());
            Err(bad(format!(
                "{host} is not an address of loopback, and the token would travel unencrypted; name whom to trust with --tls-ca, or forward a port, as with `ssh -L {port}:127.0.0.1:{port} {host}`"
            )))
        }
        None => Ok(found),
    }
}
