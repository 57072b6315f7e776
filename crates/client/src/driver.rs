//! The thread behind a blocking client: the only one that reads and writes the socket.
//!
//! It waits in `poll(2)` for the socket, the bell and the next deadline, so an idle client makes no
//! system call.

use crate::address::Address;
use crate::connect::{ADMISSION, BACKOFF, Stream};
use crate::error::ConnectError;
use crate::shared::{
    Bell, LINE_BYTES_MAX, Next, READ_BYTES, Shared, connection_ended, hung_up, line_too_long, not_let_in,
};
use mainspring_message::lines::{Line, LineBuffer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A descriptor that becomes readable when it is rung.
#[derive(Clone, Debug)]
pub(crate) struct EventBell {
    heard: Arc<OwnedFd>,
    rung: Arc<OwnedFd>,
}

impl EventBell {
    pub(crate) fn new() -> Result<EventBell, ConnectError> {
        EventBell::make().map_err(|error| ConnectError::System(format!("no descriptor: {error}")))
    }

    #[cfg(target_os = "linux")]
    fn make() -> io::Result<EventBell> {
        use rustix::event::{EventfdFlags, eventfd};
        let both = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(EventBell { heard: Arc::clone(&both), rung: both })
    }

    #[cfg(not(target_os = "linux"))]
    fn make() -> io::Result<EventBell> {
        let (heard, rung) = std::os::unix::net::UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        rung.set_nonblocking(true)?;
        Ok(EventBell { heard: Arc::new(heard.into()), rung: Arc::new(rung.into()) })
    }

    fn quiet(&self) {
        // Nothing to read: nobody has rung. What is left of many rings is heard as another one.
        let _ = rustix::io::read(&self.heard, &mut [0_u8; 64]);
    }

    /// Waits until it rings, at most so long.
    fn wait(&self, limit: Option<Duration>) {
        let mut fds = [PollFd::new(&*self.heard, PollFlags::IN)];
        wait(&mut fds, limit);
        self.quiet();
    }
}

impl Bell for EventBell {
    fn ring(&self) {
        // It can only be full, and then it rings already.
        let _ = rustix::io::write(&self.rung, &1_u64.to_ne_bytes());
    }
}

fn wait(fds: &mut [PollFd<'_>], limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // An interrupted wait is one that ended early, and the caller looks again.
    let _ = poll(fds, limit.as_ref());
}

/// Serves a client until it is closed.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bell: EventBell,
    pub(crate) address: Address,
    /// How long to try to connect again.
    pub(crate) reconnect: Duration,
}

impl Driver {
    pub(crate) fn run(self, first: Stream) {
        let mut stream = first;
        loop {
            let ended = Connection::new(&self, stream).serve();
            let Next::Reconnect(within) = connection_ended(&self.shared, ended, self.reconnect) else {
                return;
            };
            stream = match self.connect_again(within) {
                Some(stream) => stream,
                None => return,
            };
        }
    }

    /// A new connection, when there is need for one. `None`: the client was closed.
    fn connect_again(&self, within: Duration) -> Option<Stream> {
        let mut attempt: Option<(Instant, Duration)> = None;
        loop {
            let limit = {
                let mut core = self.shared.core();
                if core.is_closed() {
                    return None;
                }
                core.tick(Instant::now());
                let deadline = core.next_deadline();
                if core.needs_connection() { Some(deadline) } else { None }
            };
            let Some(deadline) = limit else {
                attempt = None;
                self.bell.wait(None);
                continue;
            };
            let (until, pause) = *attempt.get_or_insert((Instant::now() + within, BACKOFF.0));
            let error = match Stream::open(&self.address) {
                Ok(stream) => return Some(stream),
                Err(error) => error,
            };
            if error.is_final() || Instant::now() + pause > until {
                self.shared.core().give_up(&error);
                attempt = None;
                continue;
            }
            attempt = Some((until, (pause * 2).min(BACKOFF.1)));
            self.pause(pause, deadline);
        }
    }

    /// Waits between two attempts; requests that are made meanwhile do not shorten it.
    fn pause(&self, pause: Duration, deadline: Option<Instant>) {
        let end = Instant::now() + pause;
        let until = deadline.map_or(end, |deadline| deadline.min(end));
        while !self.shared.core().is_closed() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.bell.wait(Some(left));
        }
    }
}

/// One connection, from its first line to its last.
struct Connection<'a> {
    driver: &'a Driver,
    stream: Stream,
    lines: LineBuffer,
    unsent: Vec<u8>,
    sent: usize,
    /// The daemon does not read any more; it may have said why.
    is_deaf: bool,
    admission: Instant,
}

impl<'a> Connection<'a> {
    fn new(driver: &'a Driver, stream: Stream) -> Connection<'a> {
        driver.shared.core().opened();
        Connection {
            driver,
            stream,
            lines: LineBuffer::new(READ_BYTES, LINE_BYTES_MAX),
            unsent: Vec::new(),
            sent: 0,
            is_deaf: false,
            admission: Instant::now() + ADMISSION,
        }
    }

    /// Reads and writes until the connection ends; says why, if there is more to say than that.
    fn serve(mut self) -> Option<ConnectError> {
        loop {
            let deadline = {
                let mut core = self.driver.shared.core();
                if core.is_closed() {
                    return None;
                }
                if self.unsent.is_empty() {
                    self.unsent = core.take_output();
                }
                let next = core.next_deadline();
                if core.is_open() {
                    next
                } else {
                    Some(next.map_or(self.admission, |at| at.min(self.admission)))
                }
            };
            self.write();
            let is_readable = self.wait(deadline);
            if is_readable {
                match self.read() {
                    Ok(true) => {}
                    Ok(false) => return self.end(),
                    Err(error) => return Some(error),
                }
            }
            let now = Instant::now();
            let mut core = self.driver.shared.core();
            if !core.tick(now) {
                return Some(ConnectError::NoDaemon {
                    place: self.driver.address.to_string(),
                    reason: "the daemon does not answer a ping".to_owned(),
                });
            }
            if !core.is_open() && now >= self.admission {
                return Some(not_let_in(&self.driver.address));
            }
        }
    }

    /// What it means that the daemon hung up.
    fn end(&self) -> Option<ConnectError> {
        let is_open = self.driver.shared.core().is_open();
        (!is_open).then(|| hung_up(&self.driver.address))
    }

    fn wait(&self, deadline: Option<Instant>) -> bool {
        let writes = !self.unsent.is_empty() && !self.is_deaf;
        let wanted = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [
            PollFd::from_borrowed_fd(self.stream.as_fd(), wanted),
            PollFd::new(&*self.driver.bell.heard, PollFlags::IN),
        ];
        wait(&mut fds, deadline.map(|at| at.saturating_duration_since(Instant::now())));
        let (of_stream, of_bell) = (fds[0].revents(), fds[1].revents());
        if !of_bell.is_empty() {
            self.driver.bell.quiet();
        }
        of_stream.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
    }

    fn write(&mut self) {
        while self.sent < self.unsent.len() && !self.is_deaf {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The reader finds the end, and what the daemon said before it.
                Err(_) => self.is_deaf = true,
            }
        }
        self.unsent = Vec::new();
        self.sent = 0;
    }

    /// Reads once. False: the connection has ended.
    fn read(&mut self) -> Result<bool, ConnectError> {
        let count = match self.stream.read(self.lines.room()) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                return Ok(true);
            }
            Err(_) => 0,
        };
        self.lines.filled(count);
        let mut core = self.driver.shared.core();
        while let Some(line) = self.lines.next_line() {
            match line {
                Line::Whole([]) => {}
                Line::Whole(line) => core.take_line(line)?,
                Line::TooLong => return Err(line_too_long()),
            }
        }
        Ok(count > 0)
    }
}
