//! Mainspring, with its shipped defaults: owned sources, separate callbacks, no timing.

use std::cell::Cell;
use std::hint::black_box;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use mainspring_reactor::{Instant, Mode, Reactor, Shared, Timer, Watcher};

use crate::workload::{Kind, Oneshot, TimerQueue, Watching, on_ready, on_timer};

thread_local! {
    static FIRED_AT_NS: Cell<u64> = const { Cell::new(0) };
}

/// The loop, and what the workload calls by number.
pub(crate) struct Plain {
    reactor: Reactor,
    watches: Vec<(RawFd, Watcher)>,
    shared: Vec<Shared<BorrowedFd<'static>>>,
    timers: Vec<Timer>,
    now: Instant,
}

impl Plain {
    pub(crate) fn new() -> Plain {
        let reactor = Reactor::new().expect("a reactor");
        let now = reactor.now();
        Plain { reactor, watches: Vec::new(), shared: Vec::new(), timers: Vec::new(), now }
    }

    /// With timing on: what the switch costs.
    pub(crate) fn timed() -> Plain {
        let plain = Plain::new();
        plain.reactor.set_timing(true);
        plain
    }

    fn watch_one(&self, index: usize, fd: RawFd, kind: Kind) -> Watcher {
        let mode = if kind.wants_edge() { Mode::Edge } else { Mode::Level };
        let watch = self.reactor.watch(borrow(fd)).mode(mode);
        // A closure per kind, so that none decides at run time what the others know at compile
        // time.
        macro_rules! on_read {
            ($kind:expr) => {
                watch
                    .on_read(move |_, event| {
                        if on_ready($kind, index, fd) {
                            event.reactor().stop();
                        }
                    })
                    .start()
            };
        }
        let watcher = match kind {
            Kind::Dispatch => on_read!(Kind::Dispatch),
            Kind::DispatchEdge => on_read!(Kind::DispatchEdge),
            Kind::Pipe | Kind::PipeLevel => on_read!(Kind::Pipe),
        };
        watcher.expect("watched")
    }

    fn deadline(&self, after_ns: u64) -> Instant {
        Instant::from_nanos(self.now.as_nanos() + after_ns as i64)
    }
}

fn borrow(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the workload never closes its descriptors.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

impl Watching for Plain {
    fn watch(&mut self, fds: &[RawFd], kind: Kind) {
        let watch = |(index, &fd): (usize, &RawFd)| (fd, self.watch_one(index, fd, kind));
        self.watches = fds.iter().enumerate().map(watch).collect();
    }

    /// A source that is watched again while it is watched has another owner besides the watcher: a
    /// shared one.
    fn rewatch(&mut self) {
        if self.shared.is_empty() {
            self.shared = self.watches.iter().map(|&(fd, _)| Shared::new(borrow(fd))).collect();
        }
        for (index, source) in self.shared.iter().enumerate() {
            let fd = self.watches[index].0;
            let watch = self.reactor.watch_shared(source).on_read(move |_, event| {
                if on_ready(Kind::Pipe, index, fd) {
                    event.reactor().stop();
                }
            });
            watch.start().expect("watched");
        }
    }

    fn unwatch_watch(&mut self) {
        for index in 0..self.watches.len() {
            let (fd, watcher) = self.watches[index];
            self.reactor.unwatch(watcher);
            self.watches[index].1 = self.watch_one(index, fd, Kind::PipeLevel);
        }
    }

    fn run(&mut self) {
        self.reactor.run().expect("ran");
    }
}

macro_rules! timer_queue {
    ($subject:ty, $self:ident, $plain:expr, $timer:ident => $callback:expr) => {
        impl TimerQueue for $subject {
            fn open(&mut $self, count: usize) {
                $plain.timers = Vec::with_capacity(count);
            }

            fn set_now(&mut $self, _now: std::time::Instant) {
                $plain.now = $plain.reactor.now();
            }

            fn start(&mut $self, $timer: usize, after_ns: u64) {
                let timer = $plain.reactor.at($plain.deadline(after_ns), $callback).expect("set");
                match $plain.timers.get_mut($timer) {
                    Some(known) => *known = timer,
                    None => $plain.timers.push(timer),
                }
            }

            fn stop(&mut $self, timer: usize) {
                $plain.reactor.cancel($plain.timers[timer]);
            }

            fn reschedule(&mut $self, timer: usize, after_ns: u64) {
                $plain.reactor.reschedule_at($plain.timers[timer], $plain.deadline(after_ns));
            }

            fn run(&mut $self) {
                $plain.reactor.run().expect("ran");
            }
        }
    };
}

// A callback that captures nothing needs no memory of its own, like a plain function pointer in C.
timer_queue!(Plain, self, self, timer => |reactor| {
    if on_timer() {
        reactor.stop();
    }
});

/// The same, but every timer's callback captures its number, so each is a heap allocation.
pub(crate) struct Boxed(Plain);

impl Boxed {
    pub(crate) fn new() -> Boxed {
        Boxed(Plain::new())
    }
}

timer_queue!(Boxed, self, self.0, timer => move |reactor| {
    black_box(timer);
    if on_timer() {
        reactor.stop();
    }
});

impl Oneshot for Plain {
    fn oneshot(&mut self, after: Duration) -> u64 {
        let ring = |reactor: &mainspring_reactor::Handle| {
            FIRED_AT_NS.set(bench_support::monotonic_ns());
            reactor.stop();
        };
        self.reactor.after(after, ring).expect("set");
        self.reactor.run().expect("ran");
        FIRED_AT_NS.get()
    }
}
