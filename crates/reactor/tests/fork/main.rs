//! A loop on both sides of a fork.
//!
//! The child of a fork shares every kernel object with its parent. Whatever it does to its copy of
//! the loop must not be felt by the parent's, and the other way round.
//!
//! Everything that forks is in this folder, in `signals.rs` or in `steady.rs`: a child holds every
//! descriptor of its parent open for a moment, which tests about closing would notice. Whoever uses
//! signals does so in a process of its own.

mod both_sides;
mod descriptors;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod wake_ups;

use mainspring_reactor::{Reactor, Shared, Signal};
use std::io::Read;
use std::os::unix::net::UnixStream;
use support::Log;
use support::descriptors::{drain, write_byte};

/// Notes each report of a socket, and drains it.
fn watch(reactor: &Reactor, source: &Shared<UnixStream>, log: &Log<usize>) {
    let calls = log.clone();
    reactor.watch_shared(source).on_read(move |stream, _| calls.note(drain(&**stream))).start().unwrap();
}

/// Two ends of a gate: whoever waits at one goes on when the other is opened.
struct Gate(UnixStream, UnixStream);

impl Gate {
    fn new() -> Gate {
        let (left, right) = UnixStream::pair().unwrap();
        Gate(left, right)
    }

    fn open(&self) {
        write_byte(&self.0);
    }

    fn wait(&self) {
        (&self.1).read_exact(&mut [0]).unwrap();
    }
}

fn raise(signal: Signal) {
    // SAFETY: no precondition.
    assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0);
}
