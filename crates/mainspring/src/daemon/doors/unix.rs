//! The Unix socket: for its owner alone, and one daemon at a time.

use super::super::clients::{Clients, Entry};
use super::super::wire::Wire;
use super::listener::Listener;
use crate::socket_path::SOCKET_PATH_BYTES_MAX;
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
/// The lock, not the socket, decides who is alive: a socket that nobody listens on looks the same as one whose daemon is busy.
pub(super) struct Place {
    socket: PathBuf,
    /// The socket's own identity: somebody may have put another one in its place.
    identity: Option<(u64, u64)>,
    lock: PathBuf,
    _locked: OwnedFd,
}

/// Opens the socket at `path`.
pub(super) fn open(
    reactor: &Handle,
    clients: &Rc<Clients>,
    door: u32,
    path: &Path,
) -> Result<(Listener, Place), String> {
    make_folder(path)?;
    let mut place = Place::occupy(path)?;
    let socket = place.bind().map_err(|error| describe(path, &error))?;
    let clients = Rc::clone(clients);
    let owner = rustix::process::geteuid();
    let listener = Listener::start(reactor, "unix", socket, move |socket| {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&socket) else { return };
        if peer.uid != owner {
            tracing::warn!(
                "a client of user {} (process {}) was refused: this socket is user {}'s",
                peer.uid.as_raw(),
                peer.pid.as_raw_nonzero(),
                owner.as_raw()
            );
            return;
        }
        let name = format!("user:{}", peer.uid.as_raw());
        clients.open(Wire::socket(socket), door, Entry::Peer(&name));
    })?;
    Ok((listener, place))
}

/// Makes the folder of the socket, for this user alone, and does not use one that belongs to somebody else.
fn make_folder(path: &Path) -> Result<(), String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrong = |what: String| Err(format!("the folder {} {what}", folder.display()));
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return wrong(format!("cannot be made: {error}")),
    }
    let about = match fs::metadata(folder) {
        Ok(about) => about,
        Err(error) => return wrong(format!("cannot be used: {error}")),
    };
    if !about.is_dir() {
        return wrong("is no folder".into());
    }
    let (user, owner) = (rustix::process::geteuid().as_raw(), about.uid());
    // Where everybody may write, only the sticky bit keeps them from replacing the socket.
    let open_to_others = about.mode() & 0o002 != 0 && about.mode() & 0o1000 == 0;
    if owner != user && owner != 0 && user != 0 {
        return wrong(format!("belongs to user {owner}; choose another with --socket"));
    }
    if open_to_others {
        return wrong("may be written to by other users; choose another with --socket".into());
    }
    Ok(())
}

impl Place {
    /// Takes the lock beside the socket, and removes a socket that was left behind.
    fn occupy(path: &Path) -> Result<Place, String> {
        let lock = with_suffix(path, ".lock");
        let locked = lock_file(&lock).map_err(|error| match error {
            Errno::AGAIN => format!("a daemon is already running there ({} is locked)", lock.display()),
            error => format!("{} cannot be locked: {error}", lock.display()),
        })?;
        let place = Place { socket: path.to_owned(), identity: None, lock, _locked: locked };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(place),
            Err(error) => Err(format!("{}: {error}", path.display())),
            Ok(about) if !about.file_type().is_socket() => {
                Err(format!("{} is there and is no socket; choose another with --socket", path.display()))
            }
            // Somebody who knows nothing of our lock may listen on it.
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                Err(format!("another program listens on {}", path.display()))
            }
            Ok(_) => {
                tracing::info!("a socket that was left behind is replaced");
                Ok(place)
            }
        }
    }

    /// Binds under another name and renames, so that nobody ever sees a socket that does not listen or is open to all.
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

impl Drop for Place {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.socket).ok().map(|about| (about.dev(), about.ino()));
        if self.identity.is_some() && there == self.identity {
            let _ = fs::remove_file(&self.socket);
        }
        // Still locked, so nobody else can be using it: see `lock_file`.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Opens and locks the file. Whoever ends removes it, so what was locked may be gone by then: that counts for nothing.
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
