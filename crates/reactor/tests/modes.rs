//! How often readiness is reported: level, oneshot and edge. Clauses 2.5 to 2.7.

mod support;

use mainspring_reactor::{Backend, Error, Event, Handle, Interest, Mode, Shared};
use std::os::unix::net::UnixStream;
use support::callbacks::noting;
use support::descriptors::{drain, fill, readable_socket, sockets, write_byte};
use support::{Log, NOW, on_each_backend, reactor, settle};

on_each_backend! {
    fn m1_2_5_a_level_is_reported_on_every_turn_until_it_ends(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let left = Shared::new(left);
        let log = Log::new();
        reactor.watch_shared(&left).on_read(noting(&log, "read")).start().unwrap();
        for _ in 0..5 {
            assert_eq!(reactor.poll(NOW).unwrap(), 1);
        }
        drain(&*left);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn m1_2_6_oneshot_is_dispatched_once_even_with_several_flags(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let log = Log::new();
        let watch = reactor.watch(left).mode(Mode::Oneshot).on_read(noting(&log, "read"));
        let watcher = watch.on_write(noting(&log, "write")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 2, "one dispatch, both steps");
        assert_eq!(log.take(), ["read", "write"]);
        write_byte(&right);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        drop(right);
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "not even a hang-up is heard once it is disarmed");
        assert!(reactor.is_watching(watcher));
        assert_eq!(reactor.watcher_count(), 1);
        reactor.run_until_idle().unwrap();
    }

    fn m1_2_6_a_spent_oneshot_is_armed_again_by_rearm_modify_or_a_new_watch(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let left = Shared::new(left);
        let log = Log::new();
        let watch = || reactor.watch_shared(&left).mode(Mode::Oneshot).on_read(noting(&log, "read")).start();
        let first = watch().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        reactor.rearm(first).unwrap();
        assert_eq!(settle(&mut reactor, 3), 1, "rearm, with the interest it has");
        reactor.modify(first, Interest::READ).unwrap();
        assert_eq!(settle(&mut reactor, 3), 1, "modify, even to the same interest");
        let watch = reactor.watch_shared(&left).mode(Mode::Oneshot).on_read(noting(&log, "new"));
        let second = watch.start().unwrap();
        assert_ne!(first, second);
        assert_eq!(settle(&mut reactor, 3), 1, "a new watch");
        assert_eq!(log.take(), ["read", "read", "read", "new"]);
    }

    fn h4_a_oneshot_armed_again_inside_its_own_callback_stays_armed(backend: Backend) {
        let rearm: fn(&Event<'_>) = |event| event.reactor().rearm(event.watcher()).unwrap();
        let modify: fn(&Event<'_>) = |event| event.reactor().modify(event.watcher(), Interest::READ).unwrap();
        for again in [rearm, modify] {
            let mut reactor = reactor(backend);
            let (left, _right) = readable_socket();
            let log = Log::new();
            let calls = log.clone();
            reactor
                .watch(left)
                .mode(Mode::Oneshot)
                .on_read(move |_, event| {
                    calls.note("read");
                    if calls.len() < 3 {
                        again(event);
                    }
                })
                .start()
                .unwrap();
            assert_eq!(settle(&mut reactor, 10), 3);
        }
    }

    fn h4_a_oneshot_watched_again_inside_its_own_callback_stays_armed(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let log = Log::new();
        watch_again(&reactor, &Shared::new(left), &log, 3);
        assert_eq!(settle(&mut reactor, 10), 3);
        assert_eq!(log.take(), [3, 2, 1]);
    }

    fn m1_2_6_disarming_comes_after_the_callbacks(backend: Backend) {
        // The first of two steps narrows the interest and so arms the watcher again; that must
        // outlive the second step.
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let log = Log::new();
        let calls = log.clone();
        let watch = reactor.watch(left).mode(Mode::Oneshot).on_write(noting(&log, "write"));
        watch
            .on_read(move |_, event| {
                calls.note("read");
                event.reactor().modify(event.watcher(), Interest::WRITE).unwrap();
            })
            .start()
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 2);
        assert_eq!(settle(&mut reactor, 3), 1);
        assert_eq!(log.take(), ["read", "write", "write"]);
    }

    fn m1_2_6_a_full_buffer_makes_room_once_for_a_oneshot_writer(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        fill(&left);
        let log = Log::new();
        reactor.watch(left).mode(Mode::Oneshot).on_write(noting(&log, "write")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        drain(&right);
        assert_eq!(settle(&mut reactor, 3), 1);
    }
}

/// Watches a source for one report, and from inside the callback again, until `left` reports have
/// come.
fn watch_again(handle: &Handle, source: &Shared<UnixStream>, log: &Log<u32>, left: u32) {
    let (calls, keep) = (log.clone(), source.clone());
    handle
        .watch_shared(source)
        .mode(Mode::Oneshot)
        .on_read(move |_, event| {
            calls.note(left);
            if left > 1 {
                watch_again(event.reactor(), &keep, &calls, left - 1);
            }
        })
        .start()
        .unwrap();
}

#[cfg(target_os = "linux")]
mod edge {
    use super::*;
    use mainspring_reactor::Reactor;
    use std::cell::Cell;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::rc::Rc;

    fn reactor() -> Reactor {
        super::reactor(Backend::Epoll)
    }

    #[test]
    fn m1_2_5_an_edge_is_dispatched_once_and_the_loop_does_not_drain() {
        let mut reactor = reactor();
        let (left, right) = readable_socket();
        let left = Shared::new(left);
        let log = Log::new();
        reactor.watch_shared(&left).mode(Mode::Edge).on_read(noting(&log, "read")).start().unwrap();
        assert_eq!(settle(&mut reactor, 3), 1);
        assert_eq!(settle(&mut reactor, 3), 0, "undrained, and no new edge: silence");
        write_byte(&right);
        assert_eq!(settle(&mut reactor, 3), 1, "new bytes are a new edge");
        assert_eq!(drain(&*left), 2, "the loop has read nothing");
    }

    #[test]
    fn m1_2_5_a_change_of_interest_reports_an_edge_that_holds_already() {
        let mut reactor = reactor();
        let (left, _right) = readable_socket();
        let log = Log::new();
        let watch = reactor.watch(left).mode(Mode::Edge);
        let watcher = watch.on_read(noting(&log, "read")).on_write(noting(&log, "write")).start().unwrap();
        assert_eq!(settle(&mut reactor, 3), 2);
        reactor.modify(watcher, Interest::READ).unwrap();
        assert_eq!(settle(&mut reactor, 3), 1);
        assert_eq!(log.take(), ["read", "write", "read"]);
    }

    #[test]
    fn m1_2_7_edge_and_oneshot_combine_and_behave_as_oneshot() {
        let mut reactor = reactor();
        let (left, right) = readable_socket();
        let log = Log::new();
        let watch = reactor.watch(left).mode(Mode::EdgeOneshot);
        let watcher = watch.on_read(noting(&log, "read")).on_write(noting(&log, "write")).start().unwrap();
        assert_eq!(settle(&mut reactor, 3), 2);
        write_byte(&right);
        assert_eq!(settle(&mut reactor, 3), 0, "a new edge is not reported");
        reactor.rearm(watcher).unwrap();
        assert_eq!(settle(&mut reactor, 3), 2);
        assert_eq!(log.take(), ["read", "write", "read", "write"]);
    }

    #[test]
    fn o7_ten_thousand_rearms_of_an_edge_oneshot_lose_no_line() {
        let mut reactor = reactor();
        let (left, mut right) = sockets();
        let count = Rc::new(Cell::new(0));
        let total = count.clone();
        reactor
            .watch(left)
            .mode(Mode::EdgeOneshot)
            .on_read(move |stream, event| {
                let mut byte = [0; 1];
                total.set(total.get() + stream.read(&mut byte).unwrap());
                event.reactor().rearm(event.watcher()).unwrap();
            })
            .start()
            .unwrap();
        for _ in 0..100 {
            right.write_all(&[b'x'; 100]).unwrap();
            settle(&mut reactor, 200);
        }
        assert_eq!(count.get(), 10_000);
    }

    #[test]
    fn m1_1_6_an_edge_in_hand_is_reported_again_to_the_watcher_that_replaces_its_own() {
        let mut reactor = reactor();
        let log = Log::new();
        let sources: Vec<_> = (0..2).map(|_| readable_socket()).collect();
        let fds = [sources[0].0.as_raw_fd(), sources[1].0.as_raw_fd()];
        for (fd, other) in [(fds[0], fds[1]), (fds[1], fds[0])] {
            let calls = log.clone();
            reactor
                .watch_raw(fd, ())
                .mode(Mode::Edge)
                .on_read(move |(), event| {
                    calls.note("old");
                    let again = event.reactor().watch_raw(other, ()).mode(Mode::Edge);
                    again.on_read(noting(&calls, "new")).start().unwrap();
                })
                .start()
                .unwrap();
        }
        assert_eq!(settle(&mut reactor, 5), 2);
        assert_eq!(log.take(), ["old", "new"], "an edge must not be lost with the watcher it was for");
    }
}

#[test]
fn m1_2_5_edge_modes_are_refused_by_poll_with_a_clear_error() {
    let reactor = reactor(Backend::Poll);
    for (mode, interest) in
        [(Mode::Edge, Interest::READ), (Mode::EdgeOneshot, Interest::WRITE), (Mode::Edge, Interest::empty())]
    {
        let (left, _right) = sockets();
        let error = reactor.watch(left).mode(mode).start_with(interest, |_, _| ()).unwrap_err();
        assert!(matches!(error, Error::Unsupported { backend: Backend::Poll, .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "the poll backend cannot watch in edge mode: choose another mode or another backend"
        );
    }
    assert_eq!(reactor.watcher_count(), 0);
}
