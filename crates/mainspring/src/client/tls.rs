//! A connection with encryption, as one without: a thread stands between the two, so that whoever
//! uses the connection can watch, clone and half close it like any socket.

use crate::client::ClientError;
use mainspring_http::tls::certificates;
use rustix::event::{PollFd, PollFlags, poll};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes that are passed on at a time, and that may wait to be read.
const PIECE_BYTES: usize = 16 << 10;
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Whom a client trusts, and what it shows. PEM files each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsTrust {
    /// The certificates by which that of the daemon must be signed.
    pub ca: PathBuf,
    /// A certificate of the client's own and its key, for a daemon that wants one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why an encrypted connection ended, once it has and there is a reason.
pub(super) type Ending = Arc<OnceLock<String>>;

impl TlsTrust {
    fn config(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca).map_err(|error| error.to_string())? {
            roots.add(certificate).map_err(|error| format!("{}: {error}", self.ca.display()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let Some((certificate, key)) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let chain = certificates(certificate).map_err(|error| error.to_string())?;
        let key_der =
            PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{}: {error}", key.display()))?;
        builder.with_client_auth_cert(chain, key_der).map_err(|error| error.to_string())
    }
}

/// Encrypts a connection to this host; the socket to use in its place, and where its end will be
/// explained.
pub(super) fn encrypt(
    mut stream: TcpStream,
    place: &str,
    trust: &TlsTrust,
    limit: Duration,
) -> Result<(UnixStream, Ending), ClientError> {
    let failed = |reason: String| ClientError::Tls { place: place.to_owned(), reason };
    let config = trust.config().map_err(failed)?;
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| failed(format!("{host:?} is no name that a certificate could have")))?;
    let mut session =
        ClientConnection::new(Arc::new(config), name).map_err(|error| failed(error.to_string()))?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).map_err(|error| failed(explain(&error)))?;
    }
    stream.set_nonblocking(true)?;
    let (near, far) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    let ending = Ending::default();
    let told = Arc::clone(&ending);
    let mut tunnel =
        Tunnel { session, stream, near: far, incoming: Vec::new(), near_ended: false, has_heard: false };
    std::thread::Builder::new().name("tls".to_owned()).spawn(move || {
        // Whoever finds the connection at its end must find the reason there.
        if let Err(error) = tunnel.run() {
            let _ = told.set(explain(&error));
        }
        drop(tunnel);
    })?;
    Ok((near, ending))
}

/// What went wrong, in words that say what to do where that is known.
fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "the handshake took too long".to_owned(),
        io::ErrorKind::UnexpectedEof => {
            "whoever listens there ended the handshake; perhaps it is not encrypted".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Passes bytes on, both ways, until one side has ended.
struct Tunnel {
    session: ClientConnection,
    stream: TcpStream,
    near: UnixStream,
    /// What has come and was not taken yet.
    incoming: Vec<u8>,
    /// Whoever uses the connection will send no more.
    near_ended: bool,
    /// Something has come.
    has_heard: bool,
}

impl Tunnel {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let (near, far) = self.wait()?;
            if near.intersects(PollFlags::IN | PollFlags::HUP)
                && !self.near_ended
                && !self.session.wants_write()
            {
                self.take()?;
            }
            self.send()?;
            let has_ended =
                far.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && self.receive()?;
            let is_taken = self.give()?;
            let is_gone = near.intersects(PollFlags::HUP | PollFlags::ERR) && self.near_ended;
            if (has_ended && is_taken) || is_gone {
                return Ok(());
            }
        }
    }

    /// Waits for whatever can be done next.
    fn wait(&self) -> io::Result<(PollFlags, PollFlags)> {
        let wants_write = self.session.wants_write();
        let (mut near, mut far) = (PollFlags::empty(), PollFlags::empty());
        near.set(PollFlags::IN, !self.near_ended && !wants_write);
        near.set(PollFlags::OUT, !self.incoming.is_empty());
        far.set(PollFlags::OUT, wants_write);
        far.set(PollFlags::IN, self.incoming.len() < WAITING_BYTES_MAX);
        let mut watched = [PollFd::new(&self.near, near), PollFd::new(&self.stream, far)];
        rustix::io::retry_on_intr(|| poll(&mut watched, None))?;
        Ok((watched[0].revents(), watched[1].revents()))
    }

    /// Takes what is to be sent.
    fn take(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE_BYTES];
        match self.near.read(&mut piece) {
            Ok(0) => {
                self.near_ended = true;
                self.session.send_close_notify();
                Ok(())
            }
            Ok(count) => self.session.writer().write_all(&piece[..count]),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends what the session has to send.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.near_ended {
            // The daemon may have gone first.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Reads what has come; true if nothing more will.
    fn receive(&mut self) -> io::Result<bool> {
        while self.incoming.len() < WAITING_BYTES_MAX {
            let count = match self.session.read_tls(&mut self.stream) {
                Ok(count) => count,
                Err(error) if is_passing(&error) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                Err(error) => return Err(error),
            };
            let state = self.session.process_new_packets();
            let state = state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let start = self.incoming.len();
            self.incoming.resize(start + state.plaintext_bytes_to_read(), 0);
            let _ = self.session.reader().read(&mut self.incoming[start..])?;
            self.has_heard |= !self.incoming.is_empty();
            if count == 0 && !self.has_heard && !self.near_ended {
                // Where a certificate is wanted, the reason may be lost with the connection.
                let text = "the daemon ended the connection without a word; perhaps it wants a certificate (--tls-certificate, --tls-key)";
                return Err(io::Error::other(text));
            }
            if count == 0 || state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives what has come to whoever uses the connection; true if there is nothing left.
    fn give(&mut self) -> io::Result<bool> {
        while !self.incoming.is_empty() {
            match self.near.write(&self.incoming) {
                Ok(count) => drop(self.incoming.drain(..count)),
                Err(error) if is_passing(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
