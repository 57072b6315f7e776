//! mio: readiness only, edge-triggered only, no callbacks and no timers.
//!
//! Dispatch without a write does not exist for it. Its wait takes whole milliseconds, rounded up.

use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::workload::{Kind, Oneshot, Watching, on_ready};

pub(crate) struct Mio {
    poll: Poll,
    events: Events,
    fds: Vec<RawFd>,
    kind: Kind,
}

impl Mio {
    pub(crate) fn new() -> Mio {
        let poll = Poll::new().expect("a poll");
        Mio { poll, events: Events::with_capacity(1024), fds: Vec::new(), kind: Kind::DispatchEdge }
    }
}

impl Watching for Mio {
    fn watch(&mut self, fds: &[RawFd], kind: Kind) {
        (self.fds, self.kind) = (fds.to_vec(), kind);
        for (index, fd) in fds.iter().enumerate() {
            self.poll
                .registry()
                .register(&mut SourceFd(fd), Token(index), Interest::READABLE)
                .expect("registered");
        }
    }

    fn rewatch(&mut self) {
        let registry = self.poll.registry();
        for (index, fd) in self.fds.iter().enumerate() {
            registry.reregister(&mut SourceFd(fd), Token(index), Interest::READABLE).expect("registered");
        }
    }

    fn unwatch_watch(&mut self) {
        let registry = self.poll.registry();
        for (index, fd) in self.fds.iter().enumerate() {
            registry.deregister(&mut SourceFd(fd)).expect("was registered");
            registry.register(&mut SourceFd(fd), Token(index), Interest::READABLE).expect("registered");
        }
    }

    fn run(&mut self) {
        let mut stopped = false;
        while !stopped {
            self.poll.poll(&mut self.events, None).expect("polled");
            for event in &self.events {
                let index = event.token().0;
                stopped |= on_ready(self.kind, index, self.fds[index]);
            }
        }
    }
}

impl Oneshot for Mio {
    fn oneshot(&mut self, after: Duration) -> u64 {
        self.poll.poll(&mut self.events, Some(after)).expect("polled");
        bench_support::monotonic_ns()
    }
}
