//! How a connection begins: by TCP, with the token.

use super::{Address, Client, ClientError, Deadline, Lines, Stream};
use mainspring_message::{Draft, Json, Kind};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long whoever listens on a TCP port may take to let us in.
const PATIENCE: Duration = Duration::from_secs(10);

impl Client {
    /// Connects to the daemon behind a door. By TCP, returns when the daemon has taken the token.
    ///
    /// # Errors
    /// Nobody listens there, or lets us in.
    pub fn connect(address: &Address) -> Result<Client, ClientError> {
        match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(|reason| no_daemon(address, reason))?;
                Ok(Client::new(Stream::Unix(stream)))
            }
            Address::Tcp { place, token } => {
                let stream = connect_tcp(place, address)?;
                let mut client = Client::new(Stream::Tcp(stream));
                client.show(token).map_err(|error| not_let_in(error, place))?;
                Ok(client)
            }
        }
    }

    fn new(stream: Stream) -> Client {
        Client { stream, lines: Lines::default(), scratch: String::new() }
    }

    /// Shows the token. A right one is not answered, so something is asked that every daemon answers.
    fn show(&mut self, token: &str) -> Result<(), ClientError> {
        self.send_lines(format!("{}\n", serde_json::json!({ "token": token })).as_bytes())?;
        let ping = Draft::new(Kind::Query, "Syscall.Ping", Json::null());
        self.request(&ping, Some(Deadline::after(PATIENCE))).map(drop)
    }
}

fn no_daemon(address: &Address, reason: io::Error) -> ClientError {
    ClientError::NoDaemon { address: address.clone(), reason }
}

/// What it means that a connection failed before anything was asked of the daemon.
fn not_let_in(error: ClientError, place: &str) -> ClientError {
    let place = place.to_owned();
    match error {
        ClientError::TurnedAway { code: 403, .. } => ClientError::WrongToken { place },
        ClientError::Closed | ClientError::NotAMessage(_) | ClientError::Silent(_) => {
            ClientError::NotADaemon { place }
        }
        other => other,
    }
}

fn connect_tcp(place: &str, address: &Address) -> Result<TcpStream, ClientError> {
    let mut reason = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in resolve(place)? {
        match TcpStream::connect_timeout(&candidate, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => reason = error,
        }
    }
    Err(no_daemon(address, reason))
}

/// The addresses of a place, all of them on this machine: nothing on the way is encrypted.
fn resolve(place: &str) -> Result<Vec<SocketAddr>, ClientError> {
    let bad = |reason: String| ClientError::BadPlace { place: place.to_owned(), reason };
    let is_host_and_port = place
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    if !is_host_and_port {
        return Err(bad("expected a host and a port, such as 127.0.0.1:7700".into()));
    }
    let found: Vec<SocketAddr> = place.to_socket_addrs().map_err(|error| bad(error.to_string()))?.collect();
    match found.iter().find(|address| !address.ip().is_loopback()) {
        Some(elsewhere) => {
            let (host, port) = (elsewhere.ip(), elsewhere.port());
            Err(bad(format!(
                "{host} is not an address of loopback, and the token would travel unencrypted; forward a port, as with `ssh -L {port}:127.0.0.1:{port} {host}`"
            )))
        }
        None => Ok(found),
    }
}
