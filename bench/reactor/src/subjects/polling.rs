//! polling: readiness in all four modes, no callbacks and no timers; its wait is exact by a
//! timerfd.

use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};

use crate::workload::{Kind, Oneshot, Watching, on_ready};

pub(crate) struct Polling {
    poller: Poller,
    events: Events,
    fds: Vec<RawFd>,
    kind: Kind,
}

impl Polling {
    pub(crate) fn new() -> Polling {
        let events = Events::with_capacity(NonZeroUsize::new(1024).expect("not zero"));
        Polling { poller: Poller::new().expect("a poller"), events, fds: Vec::new(), kind: Kind::Dispatch }
    }

    fn mode(&self) -> PollMode {
        if self.kind.wants_edge() { PollMode::Edge } else { PollMode::Level }
    }

    fn add(&self, index: usize) {
        // SAFETY: the workload never closes its descriptors, so the poller cannot outlive them.
        unsafe { self.poller.add_with_mode(self.fds[index], Event::readable(index), self.mode()) }
            .expect("added");
    }

    fn source(&self, index: usize) -> BorrowedFd<'static> {
        // SAFETY: as above: open until the process ends.
        unsafe { BorrowedFd::borrow_raw(self.fds[index]) }
    }
}

impl Watching for Polling {
    fn watch(&mut self, fds: &[RawFd], kind: Kind) {
        (self.fds, self.kind) = (fds.to_vec(), kind);
        (0..fds.len()).for_each(|index| self.add(index));
    }

    fn rewatch(&mut self) {
        for index in 0..self.fds.len() {
            let interest = Event::readable(index);
            self.poller.modify_with_mode(self.source(index), interest, self.mode()).expect("modified");
        }
    }

    fn unwatch_watch(&mut self) {
        for index in 0..self.fds.len() {
            self.poller.delete(self.source(index)).expect("deleted");
            self.add(index);
        }
    }

    fn run(&mut self) {
        let mut stopped = false;
        while !stopped {
            self.events.clear();
            self.poller.wait(&mut self.events, None).expect("waited");
            for event in self.events.iter() {
                let fd = self.fds[event.key];
                stopped |= on_ready(self.kind, event.key, fd);
            }
        }
    }
}

impl Oneshot for Polling {
    fn oneshot(&mut self, after: Duration) -> u64 {
        self.events.clear();
        self.poller.wait(&mut self.events, Some(after)).expect("waited");
        bench_support::monotonic_ns()
    }
}
