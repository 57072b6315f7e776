//! Callbacks that note that they were called.

use super::Log;
use super::descriptors::drain;
use mainspring_reactor::{Event, Handle, Reactor, Watcher};
use std::os::unix::net::UnixStream;

/// A callback of a watcher that notes a word.
pub(crate) fn noting<T>(
    log: &Log<&'static str>,
    word: &'static str,
) -> impl FnMut(&mut T, &Event<'_>) + 'static {
    let log = log.clone();
    move |_, _| log.note(word)
}

/// The same, for one that reads whatever is there first.
pub(crate) fn draining(
    log: &Log<&'static str>,
    word: &'static str,
) -> impl FnMut(&mut UnixStream, &Event<'_>) + 'static {
    let log = log.clone();
    move |stream, _| {
        drain(&*stream);
        log.note(word);
    }
}

/// A call, deferred or of a timer, that notes something.
pub(crate) fn noting_call<T: 'static>(log: &Log<T>, entry: T) -> impl FnOnce(&Handle) + 'static {
    let log = log.clone();
    move |_| log.note(entry)
}

/// Watches a source with all three callbacks, each of which notes its name.
pub(crate) fn watch_all(reactor: &Reactor, source: UnixStream, log: &Log<&'static str>) -> Watcher {
    let watch = reactor.watch(source).on_write(noting(log, "write")).on_read(noting(log, "read"));
    watch.on_error(noting(log, "error")).start().unwrap()
}
