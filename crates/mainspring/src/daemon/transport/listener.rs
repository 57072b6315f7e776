//! A listening socket, and what to do when there is no room for whoever knocks.

use crate::daemon::clients::Clients;
use crate::daemon::clients::refusal;
use crate::daemon::operator::limits::Allowance;
use crate::daemon::operator::throttle::Throttle;
use mainspring_message::Failure;
use mainspring_reactor::{Handle, Instant, Interest, Watcher};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Connections accepted per turn of the reactor.
const ACCEPTS_PER_TURN_MAX: usize = 256;
/// Lines of the log per second about clients that are turned away. Beyond: they are left out, and
/// counted.
pub(in crate::daemon::transport) const WARNINGS_PER_SECOND_MAX: u32 = 10;
/// How long a listener rests when not even a refusal is possible.
const REST: Duration = Duration::from_millis(100);

/// What whoever cannot stay is told.
const NO_ROOM: &str = "the daemon has no file descriptors left; try again later";
/// The name of listeners whose clients speak HTTP.
pub(in crate::daemon::transport) const HTTP: &str = "http";

/// The same as a response.
fn refusal_by_http() -> String {
    let body = serde_json::json!({
        "type": Failure::Overloaded.type_name(), "title": "Service Unavailable", "status": 503,
        "detail": NO_ROOM, "started": "no",
    })
    .to_string();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A listening socket that the reactor watches.
pub(in crate::daemon::transport) struct ListeningSocket {
    reactor: Handle,
    watcher: Option<Watcher>,
}

/// Who may come in as far as room goes.
pub(in crate::daemon::transport) struct Room {
    pub(in crate::daemon::transport) clients: Rc<Clients>,
    pub(in crate::daemon::transport) allowance: Allowance,
    /// Whether clients have to say who they are.
    pub(in crate::daemon::transport) gated: bool,
}

impl Room {
    /// Whether whoever knocks is to be let in now, and not after those who are inside already have
    /// been heard.
    fn is_open(&self) -> bool {
        !self.gated || self.clients.has_room_at_gates()
    }

    fn permits(&self, socket: &OwnedFd) -> bool {
        self.allowance.permits(self.clients.counters().0, socket.as_raw_fd())
    }
}

/// What a callback needs.
struct Acceptor {
    socket: OwnedFd,
    name: &'static str,
    room: Room,
    /// A descriptor in reserve: given up for a moment to turn somebody away when there are no
    /// others.
    reserve: Option<File>,
    welcome: Box<dyn FnMut(OwnedFd)>,
    resting: Rc<Cell<bool>>,
    warnings: Throttle,
}

impl ListeningSocket {
    /// Watches `socket` and hands every new connection that there is room for to `welcome`.
    pub(in crate::daemon::transport) fn start(
        reactor: &Handle,
        name: &'static str,
        socket: OwnedFd,
        room: Room,
        welcome: impl FnMut(OwnedFd) + 'static,
    ) -> Result<ListeningSocket, String> {
        let fd = socket.as_raw_fd();
        let warnings = Throttle::new(reactor, WARNINGS_PER_SECOND_MAX, move |count| {
            tracing::warn!("{name}: ({count} more clients refused)");
        });
        let mut acceptor = Acceptor {
            socket,
            name,
            room,
            reserve: reserve(),
            welcome: Box::new(welcome),
            resting: Rc::default(),
            warnings,
        };
        let watcher = reactor
            .watch_raw(fd, ())
            .label(name)
            .start_with(Interest::READ, move |(), event| {
                if acceptor.accept_all(event.reactor().now()).is_err() {
                    acceptor.rest(event.reactor(), event.watcher());
                }
            })
            .map_err(|error| error.to_string())?;
        Ok(ListeningSocket { reactor: reactor.clone(), watcher: Some(watcher) })
    }

    /// Accepts no more: who knocks is refused. The callback owns the socket, so it is closed with
    /// it.
    pub(in crate::daemon::transport) fn close(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            self.reactor.unwatch(watcher);
        }
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        self.close();
    }
}

impl Acceptor {
    /// Accepts whoever waits, up to a bound. Fails when nobody can be accepted for now.
    fn accept_all(&mut self, now: Instant) -> Result<(), Errno> {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if !self.room.is_open() {
                return Ok(());
            }
            match rustix::net::accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) if self.room.permits(&socket) => (self.welcome)(socket),
                Ok(socket) => self.refuse(&socket, now),
                Err(Errno::AGAIN) => return Ok(()),
                // Whoever knocked has left again, or the network had something to say about it.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                Err(Errno::MFILE | Errno::NFILE) => self.turn_away(now)?,
                Err(error) => {
                    tracing::error!("{}: cannot accept: {error}", self.name);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Accepts somebody with the descriptor in reserve, says why it cannot stay, and closes.
    fn turn_away(&mut self, now: Instant) -> Result<(), Errno> {
        self.reserve = None;
        let outcome = rustix::net::accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
        if let Ok(socket) = &outcome {
            self.refuse(socket, now);
        }
        drop(outcome);
        self.reserve = reserve();
        if self.reserve.is_none() { Err(Errno::MFILE) } else { Ok(()) }
    }

    /// Says why somebody cannot stay.
    fn refuse(&mut self, socket: &OwnedFd, now: Instant) {
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let said = if self.name == HTTP {
            refusal_by_http()
        } else {
            refusal::line(Failure::Overloaded, NO_ROOM, u64::try_from(unix_ms).unwrap_or(0))
        };
        let _ = rustix::net::send(socket, said.as_bytes(), SendFlags::NOSIGNAL);
        let name = self.name;
        self.warnings.line(now, || tracing::warn!("{name}: refused a client: no file descriptors left"));
    }

    /// Does not listen for a while: a ready socket that cannot be accepted from would keep the
    /// daemon spinning.
    fn rest(&mut self, reactor: &Handle, watcher: Watcher) {
        if self.resting.replace(true) {
            return;
        }
        let resting = Rc::clone(&self.resting);
        let woken = reactor.after(REST, move |reactor| {
            resting.set(false);
            let _ = reactor.modify(watcher, Interest::READ);
        });
        if woken.is_ok() {
            let _ = reactor.modify(watcher, Interest::empty());
        }
        if self.reserve.is_none() {
            self.reserve = reserve();
        }
    }
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}
