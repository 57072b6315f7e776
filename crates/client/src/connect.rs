//! Sockets to a daemon, and who listens at the other end.

use crate::address::Address;
use crate::error::ConnectError;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fs::{self, Metadata};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a daemon may take to let a client in.
pub(crate) const ADMISSION: Duration = Duration::from_secs(10);
/// The pause before the first attempt to connect again; it doubles up to the second.
pub(crate) const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Programs that are started meanwhile do not get the socket.
#[cfg(not(target_vendor = "apple"))]
const FLAGS: SocketFlags = SocketFlags::CLOEXEC;
/// These systems have no flag for it; a daemon's socket is on Linux anyway.
#[cfg(target_vendor = "apple")]
const FLAGS: SocketFlags = SocketFlags::empty();

/// A connected socket of either kind, which never waits.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connects.
    pub(crate) fn open(address: &Address) -> Result<Stream, ConnectError> {
        let stream = match address {
            Address::Unix(path) => Stream::Unix(connect_unix(path)?),
            Address::Tcp { place, .. } => Stream::Tcp(connect_tcp(place)?),
        };
        let set = match &stream {
            Stream::Unix(socket) => socket.set_nonblocking(true),
            Stream::Tcp(socket) => socket.set_nonblocking(true),
        };
        set.map_err(|error| no_daemon(&address.to_string(), &error))?;
        Ok(stream)
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => (&*socket).read(buffer),
            Stream::Tcp(socket) => (&*socket).read(buffer),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => (&*socket).write(bytes),
            Stream::Tcp(socket) => (&*socket).write(bytes),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(socket) => socket.as_fd(),
            Stream::Tcp(socket) => socket.as_fd(),
        }
    }
}

fn no_daemon(place: &str, error: &io::Error) -> ConnectError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        let words = format!("permission denied to connect to {place}: it belongs to another user");
        return ConnectError::Denied(words);
    }
    ConnectError::NoDaemon { place: place.to_owned(), reason: error.to_string() }
}

fn connect_unix(path: &Path) -> Result<UnixStream, ConnectError> {
    let failed = |errno: rustix::io::Errno| no_daemon(&path.display().to_string(), &errno.into());
    let place = SocketAddrUnix::new(path).map_err(|_| {
        ConnectError::BadAddress(format!("the path of a socket has at most 107 bytes: {}", path.display()))
    })?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None);
    let socket = socket.map_err(failed)?;
    // A daemon that does not accept is waited for no longer than one that does not answer.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ADMISSION)).map_err(failed)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &place)).map_err(failed)?;
    let stream = UnixStream::from(socket);
    check_listener(&stream, path)?;
    Ok(stream)
}

/// Makes sure before anything is said that a process of this user listens, and that nobody else led
/// us there: whoever else listens could only want to hear what we say, or to make up an answer.
fn check_listener(stream: &UnixStream, path: &Path) -> Result<(), ConnectError> {
    let user = rustix::process::geteuid().as_raw();
    let owner = listener(stream).map_err(|error| no_daemon(&path.display().to_string(), &error))?;
    if owner != user {
        return Err(ConnectError::Denied(format!(
            "the daemon belongs to user {owner} and serves nobody else; you are user {user}"
        )));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_ours = |about: &Metadata| {
        [user, 0].contains(&about.uid()) || fs::metadata("/").is_ok_and(|root| root.uid() == about.uid())
    };
    // It is connected: whatever cannot be looked at is gone by now.
    let folder_about = fs::metadata(folder).ok().map(|about| (folder, about));
    let link_about = fs::symlink_metadata(path).ok().filter(Metadata::is_symlink).map(|about| (path, about));
    for (place, about) in folder_about.into_iter().chain(link_about) {
        if !is_ours(&about) {
            let (place, owner) = (place.display(), about.uid());
            return Err(ConnectError::Denied(format!(
                "{place} belongs to user {owner}, who may have led it anywhere; you are user {user}"
            )));
        }
    }
    Ok(())
}

/// The user whose process listens.
#[cfg(target_os = "linux")]
fn listener(stream: &UnixStream) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(stream)?.uid.as_raw())
}

/// Daemons run on Linux: what listens elsewhere is none.
#[cfg(not(target_os = "linux"))]
fn listener(_stream: &UnixStream) -> io::Result<u32> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "a daemon's socket is on Linux; connect by TCP"))
}

fn connect_tcp(place: &str) -> Result<TcpStream, ConnectError> {
    let mut reason = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in resolve(place)? {
        let connected = TcpStream::connect_timeout(&candidate, ADMISSION)
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => reason = error,
        }
    }
    Err(no_daemon(place, &reason))
}

/// The addresses of a place, all of them on this machine: nothing on the way is encrypted.
fn resolve(place: &str) -> Result<Vec<SocketAddr>, ConnectError> {
    let bad = |reason: String| ConnectError::BadAddress(format!("{place}: {reason}"));
    let is_host_and_port = place
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    if !is_host_and_port {
        return Err(bad("expected a host and a port, such as 127.0.0.1:7700".to_owned()));
    }
    let found: Vec<SocketAddr> = place.to_socket_addrs().map_err(|error| bad(error.to_string()))?.collect();
    match found.iter().find(|address| !address.ip().is_loopback()) {
        None => Ok(found),
        Some(elsewhere) => {
            let (host, port) = (elsewhere.ip(), elsewhere.port());
            Err(bad(format!(
                "{host} is not an address of loopback, and the token would travel unencrypted; forward a port, as with `ssh -L {port}:127.0.0.1:{port} {host}`"
            )))
        }
    }
}
