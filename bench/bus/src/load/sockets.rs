//! Plain sockets, all in one thread with epoll: cheaper per request than any server here.

use super::wire::Wire;
use super::{Load, Outcome, WARM_UP_PART};
use bench_support::monotonic_ns;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

const READ_BYTES: usize = 256 * 1024;
/// How long the last replies may take.
const DRAIN_NS: u64 = 10_000_000_000;

struct Connection {
    stream: UnixStream,
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// When the request in each slot was sent; 0 where there is none.
    sent_ns: Vec<u64>,
    free: Vec<usize>,
    /// The slots that are taken, oldest first, for protocols that answer in order.
    order: VecDeque<usize>,
    next: u64,
    /// Whether there was no room for all of `out`.
    is_full: bool,
}

/// Has epoll tell of these edges of a connection.
fn watch(epoll: &OwnedFd, operation: i32, stream: &UnixStream, at: usize, edges: i32) -> io::Result<()> {
    let mut event = libc::epoll_event { events: (edges | libc::EPOLLET) as u32, u64: at as u64 };
    // SAFETY: both descriptors are open, and `event` outlives the call.
    let done = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, stream.as_raw_fd(), &raw mut event) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn run(load: &Load, wire: Box<dyn Wire>) -> Result<Outcome, String> {
    Generator::new(load, wire).and_then(Generator::run).map_err(|error| error.to_string())
}

struct Generator {
    wire: Box<dyn Wire>,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    scratch: Vec<u8>,
    outcome: Outcome,
    counts_from_ns: u64,
    ends_ns: u64,
}

impl Generator {
    fn new(load: &Load, wire: Box<dyn Wire>) -> io::Result<Generator> {
        // SAFETY: a call without pointers; the result is checked before it is owned.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let mut connections = Vec::new();
        for at in 0..load.connections {
            let stream = UnixStream::connect(&load.address)?;
            stream.set_nonblocking(true)?;
            watch(&epoll, libc::EPOLL_CTL_ADD, &stream, at, libc::EPOLLIN)?;
            connections.push(Connection {
                stream,
                out: Vec::new(),
                written: 0,
                input: Vec::new(),
                sent_ns: vec![0; load.depth],
                free: (0..load.depth).rev().collect(),
                order: VecDeque::new(),
                next: 0,
                is_full: false,
            });
        }
        let (now_ns, length_ns) = (monotonic_ns(), load.duration.as_nanos() as u64);
        Ok(Generator {
            wire,
            epoll,
            connections,
            scratch: vec![0; READ_BYTES],
            outcome: Outcome::default(),
            counts_from_ns: now_ns + length_ns / u64::from(WARM_UP_PART),
            ends_ns: now_ns + length_ns,
        })
    }

    fn run(mut self) -> io::Result<Outcome> {
        // From here each keeps itself busy.
        for at in 0..self.connections.len() {
            self.send(at)?;
        }
        loop {
            let now_ns = monotonic_ns();
            let idle = self.connections.iter().all(|connection| connection.order.is_empty());
            if now_ns >= self.ends_ns && idle {
                self.outcome.counted_ns = self.ends_ns - self.counts_from_ns;
                return Ok(self.outcome);
            }
            if now_ns > self.ends_ns + DRAIN_NS {
                return Err(io::Error::other("the last requests were not answered"));
            }
            for at in self.wait()? {
                self.read(at)?;
                self.send(at)?;
            }
        }
    }

    fn wait(&self) -> io::Result<Vec<usize>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the array has as many places as the call is told, and outlives it.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 64, 100) };
        match count {
            ..0 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            ..0 => Err(io::Error::last_os_error()),
            count => Ok(events[..count as usize].iter().map(|event| event.u64 as usize).collect()),
        }
    }

    fn read(&mut self, at: usize) -> io::Result<()> {
        loop {
            let it = &mut self.connections[at];
            let count = match it.stream.read(&mut self.scratch) {
                Ok(0) => return Err(io::Error::other("the server closed a connection")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            it.input.extend_from_slice(&self.scratch[..count]);
            self.take_replies(at)?;
            if count < READ_BYTES {
                return Ok(());
            }
        }
    }

    fn take_replies(&mut self, at: usize) -> io::Result<()> {
        let now_ns = monotonic_ns();
        let it = &mut self.connections[at];
        let mut done = 0;
        while let Some(end) = memchr::memchr(b'\n', &it.input[done..]) {
            let reply = &it.input[done..done + end];
            done += end + 1;
            let oldest = it.order.front().copied();
            let named = self.wire.slot(reply).map_err(io::Error::other)?;
            let slot = named.or(oldest).filter(|slot| it.sent_ns.get(*slot).is_some_and(|sent| *sent > 0));
            let Some(slot) = slot else { return Err(io::Error::other("a reply to nothing")) };
            if oldest == Some(slot) {
                it.order.pop_front();
            } else {
                it.order.retain(|other| *other != slot);
            }
            let sent_ns = std::mem::take(&mut it.sent_ns[slot]);
            it.free.push(slot);
            self.outcome.requests += 1;
            if sent_ns >= self.counts_from_ns && now_ns <= self.ends_ns {
                self.outcome.latencies_ns.push(now_ns - sent_ns);
            }
        }
        it.input.drain(..done);
        Ok(())
    }

    /// Fills every free slot with a request, and writes what the socket takes.
    fn send(&mut self, at: usize) -> io::Result<()> {
        let now_ns = monotonic_ns();
        let it = &mut self.connections[at];
        if now_ns < self.ends_ns {
            while let Some(slot) = it.free.pop() {
                self.wire.write(at, slot, it.next, &mut it.out);
                it.next += 1;
                it.sent_ns[slot] = now_ns;
                it.order.push_back(slot);
            }
        }
        while it.written < it.out.len() {
            match it.stream.write(&it.out[it.written..]) {
                Ok(count) => it.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.note_full(at, true),
                Err(error) => return Err(error),
            }
        }
        it.out.clear();
        it.written = 0;
        self.note_full(at, false)
    }

    /// Whoever waits for room is told of it. Nobody else is: each read of a server would wake this
    /// process for nothing, at the server's cost.
    fn note_full(&mut self, at: usize, is_full: bool) -> io::Result<()> {
        let it = &mut self.connections[at];
        if std::mem::replace(&mut it.is_full, is_full) == is_full {
            return Ok(());
        }
        let edges = if is_full { libc::EPOLLIN | libc::EPOLLOUT } else { libc::EPOLLIN };
        watch(&self.epoll, libc::EPOLL_CTL_MOD, &it.stream, at, edges)
    }
}
