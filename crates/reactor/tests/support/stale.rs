//! Registrations that nobody can remove from the kernel any more.

use super::NOW;
use super::descriptors::{ReservedNumber, readable_socket};
use mainspring_reactor::{Backend, Reactor};
use std::os::unix::net::UnixStream;

/// A socket that is ready, and its peer: as long as they live, the registration reports.
pub(crate) struct StaleRegistration {
    _socket: UnixStream,
    _peer: UnixStream,
}

/// Leaves a registration behind that cannot be removed, for as long as the returned value lives,
/// and lets the loop find out: on epoll it makes a new set.
pub(crate) fn leave_registration(reactor: &mut Reactor) -> StaleRegistration {
    let before = reactor.stats().rebuilds;
    let (socket, peer) = readable_socket();
    let number = ReservedNumber::new();
    number.open(&socket);
    let watcher = reactor.watch_raw(number.0, ()).on_read(|(), _| ()).start().unwrap();
    number.close();
    reactor.unwatch(watcher);
    for _ in 0..4 {
        reactor.poll(NOW).unwrap();
    }
    let rebuilt = u64::from(reactor.backend() == Backend::Epoll);
    assert_eq!(reactor.stats().rebuilds, before + rebuilt);
    StaleRegistration { _socket: socket, _peer: peer }
}
