//! calloop: callbacks over `polling`.
//!
//! A callback cannot be replaced, so watching again is its `update`. A timer cannot be moved from
//! outside its own callback, so there is no reschedule; inserting and cancelling take time in
//! proportion to the number of timers, which is why it runs with 30,000 of them only.

use std::cell::Cell;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use calloop::generic::Generic;
use calloop::timer::{TimeoutAction, Timer};
use calloop::{EventLoop, Interest, Mode, PostAction, RegistrationToken};

use crate::workload::{Kind, Oneshot, TimerQueue, Watching, on_ready, on_timer};

thread_local! {
    static STOPPED: Cell<bool> = const { Cell::new(false) };
    static FIRED_AT_NS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) struct Calloop {
    event_loop: EventLoop<'static, ()>,
    fds: Vec<RawFd>,
    kind: Kind,
    watches: Vec<RegistrationToken>,
    timers: Vec<Option<RegistrationToken>>,
    now: Instant,
}

impl Calloop {
    pub(crate) fn new() -> Calloop {
        Calloop {
            event_loop: EventLoop::try_new().expect("an event loop"),
            fds: Vec::new(),
            kind: Kind::Dispatch,
            watches: Vec::new(),
            timers: Vec::new(),
            now: Instant::now(),
        }
    }

    fn insert(&self, index: usize) -> RegistrationToken {
        let (fd, kind) = (self.fds[index], self.kind);
        // SAFETY: the workload never closes its descriptors.
        let source = unsafe { BorrowedFd::borrow_raw(fd) };
        let mode = if kind.wants_edge() { Mode::Edge } else { Mode::Level };
        let generic = Generic::new(source, Interest::READ, mode);
        let handle = self.event_loop.handle();
        // A closure per kind, so that none decides at run time what the others know at compile
        // time.
        macro_rules! insert {
            ($kind:expr) => {
                handle.insert_source(generic, move |_, _, ()| {
                    STOPPED.set(STOPPED.get() | on_ready($kind, index, fd));
                    Ok(PostAction::Continue)
                })
            };
        }
        match kind {
            Kind::Dispatch => insert!(Kind::Dispatch).expect("inserted"),
            Kind::DispatchEdge => insert!(Kind::DispatchEdge).expect("inserted"),
            Kind::Pipe | Kind::PipeLevel => insert!(Kind::Pipe).expect("inserted"),
        }
    }

    fn run_until_stopped(&mut self) {
        STOPPED.set(false);
        while !STOPPED.get() {
            self.event_loop.dispatch(None, &mut ()).expect("dispatched");
        }
    }
}

impl Watching for Calloop {
    fn watch(&mut self, fds: &[RawFd], kind: Kind) {
        (self.fds, self.kind) = (fds.to_vec(), kind);
        self.watches = (0..fds.len()).map(|index| self.insert(index)).collect();
    }

    fn rewatch(&mut self) {
        let handle = self.event_loop.handle();
        for watch in &self.watches {
            handle.update(watch).expect("updated");
        }
    }

    fn unwatch_watch(&mut self) {
        let handle = self.event_loop.handle();
        for index in 0..self.fds.len() {
            handle.remove(self.watches[index]);
            self.watches[index] = self.insert(index);
        }
    }

    fn run(&mut self) {
        self.run_until_stopped();
    }
}

impl TimerQueue for Calloop {
    const RESCHEDULES: bool = false;

    fn open(&mut self, count: usize) {
        self.timers = vec![None; count];
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    fn start(&mut self, timer: usize, after_ns: u64) {
        let source = Timer::from_deadline(self.now + Duration::from_nanos(after_ns));
        let inserted = self.event_loop.handle().insert_source(source, |_, (), ()| {
            STOPPED.set(STOPPED.get() | on_timer());
            TimeoutAction::Drop
        });
        self.timers[timer] = Some(inserted.expect("inserted"));
    }

    fn stop(&mut self, timer: usize) {
        if let Some(token) = self.timers[timer].take() {
            self.event_loop.handle().remove(token);
        }
    }

    fn reschedule(&mut self, _timer: usize, _after_ns: u64) {
        unreachable!("calloop does not move timers");
    }

    fn run(&mut self) {
        self.run_until_stopped();
    }
}

impl Oneshot for Calloop {
    fn oneshot(&mut self, after: Duration) -> u64 {
        let inserted = self.event_loop.handle().insert_source(Timer::from_duration(after), |_, (), ()| {
            FIRED_AT_NS.set(bench_support::monotonic_ns());
            STOPPED.set(true);
            TimeoutAction::Drop
        });
        inserted.expect("inserted");
        self.run_until_stopped();
        FIRED_AT_NS.get()
    }
}
