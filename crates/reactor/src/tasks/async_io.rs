//! Readiness of any descriptor as a future.
//!
//! Where the backend has edges, a descriptor is registered once and its readiness is remembered
//! until an operation says `WouldBlock`, so a busy stream costs no system call beyond its own reads
//! and writes. Interest in writing is added when a write has to wait for the first time, because
//! many sockets report every read of the peer as an edge.

use crate::{Backend, Error, Handle, Interest, Mode, Readiness, Result, Watcher};
use std::cell::{Cell, RefCell, RefMut};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A descriptor on the loop, for use in futures.
///
/// The source should be non-blocking. Dropping this ends the watch and drops the source.
///
/// # Examples
/// ```
/// use mainspring_reactor::{Async, Reactor};
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// let mut reactor = Reactor::new()?;
/// let (left, mut right) = UnixStream::pair().unwrap();
/// left.set_nonblocking(true).unwrap();
/// let left = Async::new(&reactor, left)?;
/// right.write_all(b"hello").unwrap();
/// let mut buffer = [0; 8];
/// let count = reactor.block_on(left.read_with(|mut stream| stream.read(&mut buffer)))?.unwrap();
/// assert_eq!(&buffer[..count], b"hello");
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
pub struct Async<T: AsFd> {
    handle: Handle,
    watcher: Watcher,
    state: Rc<IoState>,
    source: T,
}

struct IoState {
    /// What is known to be possible.
    ready: Cell<Readiness>,
    /// Whether the end of the input, or of everything, has been reported: no edge will follow it.
    ended: Cell<bool>,
    /// What the kernel has been asked for.
    interest: Cell<Interest>,
    waiting: RefCell<Waiting>,
    edge: bool,
}

/// Who waits, by the number of the wait.
#[derive(Default)]
struct Waiting {
    read: Vec<(u64, Waker)>,
    write: Vec<(u64, Waker)>,
    next_wait: u64,
}

/// The number under which hand-written futures wait, one per direction.
const POLLED: u64 = 0;

/// One wait, which is forgotten when it is given up.
struct IoWait<'a> {
    state: &'a IoState,
    direction: Direction,
    number: u64,
}

impl Drop for IoWait<'_> {
    fn drop(&mut self) {
        let given_up = {
            let mut waiters = self.state.waiters(self.direction);
            let place = waiters.iter().position(|(number, _)| *number == self.number);
            place.map(|place| waiters.remove(place))
        };
        drop(given_up);
    }
}

/// One of the two things to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl Direction {
    fn readiness(self) -> Readiness {
        match self {
            Direction::Read => Readiness::READ,
            Direction::Write => Readiness::WRITE,
        }
    }

    fn interest(self) -> Interest {
        match self {
            Direction::Read => Interest::READ,
            Direction::Write => Interest::WRITE,
        }
    }
}

impl IoState {
    fn waiters(&self, direction: Direction) -> RefMut<'_, Vec<(u64, Waker)>> {
        RefMut::map(self.waiting.borrow_mut(), |waiting| match direction {
            Direction::Read => &mut waiting.read,
            Direction::Write => &mut waiting.write,
        })
    }

    fn begin_wait(&self, direction: Direction) -> IoWait<'_> {
        let mut waiting = self.waiting.borrow_mut();
        waiting.next_wait += 1;
        IoWait { state: self, direction, number: waiting.next_wait }
    }

    /// Has `waker` woken for this wait, instead of whatever was to be woken for it before.
    fn set_waker(&self, direction: Direction, number: u64, waker: &Waker) {
        let mut waiters = self.waiters(direction);
        let replaced = match waiters.iter_mut().find(|(other, _)| *other == number) {
            Some((_, current)) if current.will_wake(waker) => None,
            Some((_, current)) => Some(std::mem::replace(current, waker.clone())),
            None => {
                waiters.push((number, waker.clone()));
                None
            }
        };
        drop(waiters);
        drop(replaced);
    }

    /// Wakes everyone who waits for a direction. True if anyone did.
    fn wake(&self, direction: Direction) -> bool {
        let mut woken = std::mem::take(&mut *self.waiters(direction));
        let awaited = !woken.is_empty();
        for (_, waker) in woken.drain(..) {
            waker.wake();
        }
        // The memory is for the next ones.
        let mut waiters = self.waiters(direction);
        if waiters.capacity() == 0 {
            *waiters = woken;
        }
        awaited
    }

    /// Takes in a report and wakes whoever waited for it. Says what to ask the kernel for from now
    /// on.
    fn report(&self, readiness: Readiness) -> Interest {
        let mut ready = self.ready.get();
        let broken = readiness.intersects(Readiness::ERROR | Readiness::HANGUP);
        if broken || readiness.contains(Readiness::READ_CLOSED) {
            self.ended.set(true);
        }
        ready.set(
            Readiness::READ,
            broken
                || readiness.intersects(Readiness::READ | Readiness::READ_CLOSED)
                || ready.contains(Readiness::READ),
        );
        ready.set(
            Readiness::WRITE,
            broken || readiness.contains(Readiness::WRITE) || ready.contains(Readiness::WRITE),
        );
        self.ready.set(ready);
        let mut interest = self.interest.get();
        for direction in [Direction::Read, Direction::Write] {
            if !ready.contains(direction.readiness()) {
                continue;
            }
            let awaited = self.wake(direction);
            // Levels are asked for only while somebody waits; so are write edges.
            if !self.edge || (direction == Direction::Write && !awaited) {
                interest.remove(direction.interest());
            }
        }
        interest
    }
}

/// What the watch holds of the state. When the watch ends, whoever waits is woken to find that out.
struct Watched(Rc<IoState>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.ready.set(Readiness::READ | Readiness::WRITE);
        for direction in [Direction::Read, Direction::Write] {
            self.0.wake(direction);
        }
    }
}

impl<T: AsFd> Async<T> {
    /// Takes a source onto the loop.
    ///
    /// # Errors
    /// As [`Watch::start`](crate::Watch::start).
    pub fn new(handle: &Handle, source: T) -> Result<Async<T>> {
        let edge = handle.backend() == Backend::Epoll;
        let state = Rc::new(IoState {
            ready: Cell::new(Readiness::READ | Readiness::WRITE),
            ended: Cell::new(false),
            interest: Cell::new(Interest::empty()),
            waiting: RefCell::default(),
            edge,
        });
        let mode = if edge { Mode::Edge } else { Mode::Level };
        let watched = Watched(state.clone());
        let watcher = handle.watch_raw(source.as_fd().as_raw_fd(), watched).mode(mode).start_with(
            Interest::empty(),
            |Watched(state), event| {
                let interest = state.report(event.readiness());
                if interest != state.interest.get()
                    && event.reactor().modify(event.watcher(), interest).is_ok()
                {
                    state.interest.set(interest);
                }
            },
        )?;
        Ok(Async { handle: handle.clone(), watcher, state, source })
    }

    /// The source.
    pub fn get_ref(&self) -> &T {
        &self.source
    }

    /// Runs `operation` until it does not say [`WouldBlock`](io::ErrorKind::WouldBlock), waiting
    /// for readability in between.
    ///
    /// # Errors
    /// The operation's own, or the loop's.
    pub async fn read_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        let wait = self.state.begin_wait(Direction::Read);
        poll_fn(|context| self.poll_with(context, wait.direction, wait.number, &mut operation)).await
    }

    /// Runs `operation` until it does not say [`WouldBlock`](io::ErrorKind::WouldBlock), waiting
    /// for writability in between.
    ///
    /// # Errors
    /// The operation's own, or the loop's.
    pub async fn write_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        let wait = self.state.begin_wait(Direction::Write);
        poll_fn(|context| self.poll_with(context, wait.direction, wait.number, &mut operation)).await
    }

    /// [`read_with`](Async::read_with) for hand-written futures. The task that asked last is the
    /// one that is woken.
    pub fn poll_read_with<R>(
        &self,
        context: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_with(context, Direction::Read, POLLED, &mut operation)
    }

    /// [`poll_read_with`](Async::poll_read_with) for a stream of bytes: `operation` reads once and
    /// returns how many bytes, of at most `room`. A stream that gives fewer has no more, so the
    /// next call waits at once instead of reading in vain: one system call less for each message.
    ///
    /// Not for anything but streams: a datagram, for one, is shorter than the room for it though
    /// others wait.
    pub fn poll_read_stream(
        &self,
        context: &mut Context<'_>,
        room: usize,
        mut operation: impl FnMut(&T) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let outcome = self.poll_with(context, Direction::Read, POLLED, &mut operation);
        // What comes from now on is reported anew, but an end that came together with the bytes was
        // reported with them.
        if let Poll::Ready(Ok(count)) = outcome
            && count < room
            && count > 0
            && !self.state.ended.get()
        {
            self.state.ready.set(self.state.ready.get().difference(Readiness::READ));
        }
        outcome
    }

    /// [`write_with`](Async::write_with) for hand-written futures. The task that asked last is the
    /// one that is woken.
    pub fn poll_write_with<R>(
        &self,
        context: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_with(context, Direction::Write, POLLED, &mut operation)
    }

    /// Waits until a read would make progress. The readiness is looked up afresh, whatever was read
    /// meanwhile.
    ///
    /// # Errors
    /// The loop's.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Direction::Read).await
    }

    /// Waits until a write would make progress.
    ///
    /// # Errors
    /// The loop's.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Direction::Write).await
    }

    async fn ready(&self, direction: Direction) -> io::Result<()> {
        let probe = |source: &T| {
            let flags = match direction {
                Direction::Read => rustix::event::PollFlags::IN,
                Direction::Write => rustix::event::PollFlags::OUT,
            };
            let mut fds = [rustix::event::PollFd::new(source, flags)];
            let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            match rustix::event::poll(&mut fds, Some(&now)) {
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                Ok(_) => Ok(()),
                Err(errno) => Err(errno.into()),
            }
        };
        let wait = self.state.begin_wait(direction);
        poll_fn(|context| self.poll_with(context, direction, wait.number, &mut { probe })).await
    }

    fn poll_with<R>(
        &self,
        context: &mut Context<'_>,
        direction: Direction,
        wait: u64,
        operation: &mut dyn FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            if self.state.ready.get().contains(direction.readiness()) {
                match operation(&self.source) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    result => return Poll::Ready(result),
                }
                self.state.ready.set(self.state.ready.get().difference(direction.readiness()));
            }
            self.state.set_waker(direction, wait, context.waker());
            return match self.ask_for(direction) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error.into())),
            };
        }
    }

    /// Makes sure that the kernel will report this direction. Asking for an edge reports a
    /// condition that holds already.
    fn ask_for(&self, direction: Direction) -> Result<()> {
        let current = self.state.interest.get();
        let wanted = current | direction.interest();
        if wanted == current {
            return self.handle.is_watching(self.watcher).then_some(()).ok_or(Error::Closed);
        }
        self.handle.modify(self.watcher, wanted)?;
        self.state.interest.set(wanted);
        Ok(())
    }
}

impl<T: AsFd> Drop for Async<T> {
    fn drop(&mut self) {
        // Nobody can wait for this any more.
        let waiting = self.state.waiting.take();
        drop(waiting);
        self.handle.unwatch(self.watcher);
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Async").field("source", &self.source).finish_non_exhaustive()
    }
}
