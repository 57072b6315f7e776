//! The Unix socket: for its owner alone, and one daemon at a time.

use crate::daemon::clients::Identity;
use crate::daemon::operator::throttle::Throttle;
use crate::daemon::transport::listener::{ListeningSocket, Room, WARNINGS_PER_SECOND_MAX};
use crate::daemon::transport::wire::Wire;
use crate::system::socket_path::SOCKET_PATH_BYTES_MAX;
use crate::system::trust::{self, Distrust};
use mainspring_reactor::Handle;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// The place in the file system that a daemon occupies: its socket, and the lock that says so.
///
/// The lock, not the socket, decides who is alive: a socket that nobody listens on looks the same
/// as one whose daemon is busy.
pub(in crate::daemon::transport) struct SocketPlace {
    socket: PathBuf,
    /// The socket's own identity: somebody may have put another one in its place.
    identity: Option<(u64, u64)>,
    lock: PathBuf,
    locked: OwnedFd,
}

/// Opens the socket at `path`, unless it was passed.
pub(in crate::daemon::transport) fn open(
    reactor: &Handle,
    room: Room,
    adapter: u32,
    path: &Path,
    passed: Option<OwnedFd>,
) -> Result<(ListeningSocket, Option<SocketPlace>), String> {
    let clients = Rc::clone(&room.clients);
    listen(reactor, "unix", room, path, passed, move |socket, user| {
        clients.open(Wire::socket(socket), adapter, Identity::Known(&format!("user:{user}")));
    })
}

/// Listens at `path`, unless the socket was passed, and hands every connection of this user, with
/// the user's number, to `welcome`; others are refused. `name` says what is spoken there.
pub(in crate::daemon::transport) fn listen(
    reactor: &Handle,
    name: &'static str,
    room: Room,
    path: &Path,
    passed: Option<OwnedFd>,
    mut welcome: impl FnMut(OwnedFd, u32) + 'static,
) -> Result<(ListeningSocket, Option<SocketPlace>), String> {
    let (socket, place) = match passed {
        // Its place in the file system is the service manager's.
        Some(socket) => (socket, None),
        None => {
            make_folder(path)?;
            let mut place = SocketPlace::occupy(path)?;
            (place.bind().map_err(|error| describe(path, &error))?, Some(place))
        }
    };
    let owner = rustix::process::geteuid();
    let warnings = Throttle::new(reactor, WARNINGS_PER_SECOND_MAX, |count| {
        tracing::warn!("({count} more clients of other users)");
    });
    let watch = reactor.clone();
    let listener = ListeningSocket::start(reactor, name, socket, room, move |socket| {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&socket) else { return };
        if peer.uid != owner {
            let (user, process) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero());
            return warnings.line(watch.now(), || {
                let owner = owner.as_raw();
                tracing::warn!(
                    "a client of user {user} (process {process}) was refused: this socket is user {owner}'s"
                );
            });
        }
        welcome(socket, peer.uid.as_raw());
    })?;
    Ok((listener, place))
}

/// Makes the folder of the socket, for this user alone, and does not use one that others have a say
/// in.
fn make_folder(path: &Path) -> Result<(), String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrong = |what: String| Err(format!("the folder {} {what}", folder.display()));
    let is_new = match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return wrong(format!("cannot be made: {error}")),
    };
    match fs::metadata(folder) {
        Ok(about) if !about.is_dir() => return wrong("is not a folder".into()),
        Ok(_) => {}
        Err(error) => return wrong(format!("cannot be used: {error}")),
    }
    let Err(distrust) = trust::check_folder(folder) else { return Ok(()) };
    if is_new {
        let _ = fs::remove_dir(folder);
    }
    match distrust {
        Distrust::Unknown { .. } => wrong(format!("cannot be used: {distrust}")),
        _ => wrong(format!("is not yours alone: {distrust}; choose another with --socket")),
    }
}

impl SocketPlace {
    /// Takes the lock beside the socket, and removes a socket that was left behind.
    fn occupy(path: &Path) -> Result<SocketPlace, String> {
        let lock = with_suffix(path, ".lock");
        let locked = lock_file(&lock).map_err(|error| match error {
            Errno::AGAIN => format!("a daemon is already running there ({} is locked)", lock.display()),
            error => format!("{} cannot be locked: {error}", lock.display()),
        })?;
        let place = SocketPlace { socket: path.to_owned(), identity: None, lock, locked };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(place),
            Err(error) => Err(format!("{}: {error}", path.display())),
            Ok(about) if !about.file_type().is_socket() => Err(format!(
                "{} exists and is not a socket; choose another path with --socket",
                path.display()
            )),
            // Somebody who knows nothing of our lock may listen on it.
            Ok(_) if is_listened_on(path) => Err(format!("another program listens on {}", path.display())),
            Ok(_) => {
                tracing::info!("replacing a socket that an earlier daemon left behind");
                Ok(place)
            }
        }
    }

    /// Binds under another name and renames, so that nobody ever sees a socket that does not listen
    /// or is open to all.
    fn bind(&mut self) -> Result<OwnedFd, Errno> {
        let temporary = with_suffix(&self.socket, &format!(".{}", std::process::id()));
        let _ = fs::remove_file(&temporary);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&temporary)?)?;
        let finish = || -> Result<(u64, u64), Errno> {
            rustix::fs::chmod(&temporary, Mode::RUSR | Mode::WUSR)?;
            rustix::net::listen(&socket, BACKLOG)?;
            let about = rustix::fs::lstat(&temporary)?;
            rustix::fs::rename(&temporary, &self.socket)?;
            Ok((about.st_dev, about.st_ino))
        };
        match finish() {
            Ok(identity) => {
                self.identity = Some(identity);
                Ok(socket)
            }
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.socket).ok().map(|about| (about.dev(), about.ino()));
        if self.identity.is_some() && there == self.identity {
            let _ = fs::remove_file(&self.socket);
        }
        // If it is the one that is locked here, nobody else can be using it: see `lock_file`.
        // Somebody may have deleted it, and then the one that is there is another daemon's.
        let is_ours = |there: &rustix::fs::Stat| {
            rustix::fs::fstat(&self.locked)
                .is_ok_and(|locked| (there.st_dev, there.st_ino) == (locked.st_dev, locked.st_ino))
        };
        if rustix::fs::lstat(&self.lock).is_ok_and(|there| is_ours(&there)) {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// Whether somebody listens on a socket. One whose backlog is full is not waited for: somebody has
/// it.
fn is_listened_on(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|socket| rustix::net::connect(&socket, &SocketAddrUnix::new(path)?));
    matches!(connected, Ok(()) | Err(Errno::AGAIN))
}

/// Opens and locks the file. Whoever ends removes it, so what was locked may be gone by then: that
/// counts for nothing.
fn lock_file(path: &Path) -> Result<OwnedFd, Errno> {
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let locked = rustix::fs::fstat(&file)?;
        match rustix::fs::stat(path) {
            Ok(there) if (there.st_dev, there.st_ino) == (locked.st_dev, locked.st_ino) => return Ok(file),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn describe(path: &Path, error: &Errno) -> String {
    match *error {
        Errno::NAMETOOLONG => {
            format!(
                "{} is too long for a socket, whose path has at most {SOCKET_PATH_BYTES_MAX} bytes; choose another \
                 with --socket",
                path.display()
            )
        }
        error => format!("{}: {error}", path.display()),
    }
}
