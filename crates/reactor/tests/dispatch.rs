//! Which callbacks an event runs, and in which order: clauses M1.2.1 to M1.2.3.

mod support;

use mainspring_reactor::Watcher;
use std::cell::Cell;
use std::rc::Rc;
use support::callbacks::{noting, watch_all};
use support::descriptors::{broken_socket, pipe, readable_socket, sockets, write_byte};
use support::{Log, NOW, on_each_backend, reactor};

on_each_backend! {
    fn m1_2_1_an_event_in_hand_for_a_watcher_that_was_ended_calls_nobody(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let names: Rc<Cell<[Option<Watcher>; 2]>> = Rc::default();
        for index in 0..2 {
            let (left, right) = readable_socket();
            std::mem::forget(right);
            let (others, calls) = (names.clone(), log.clone());
            let watcher = reactor
                .watch(left)
                .on_read(move |_, event| {
                    calls.note("read");
                    assert!(event.reactor().unwatch(others.get()[1 - index].unwrap()));
                })
                .start()
                .unwrap();
            let mut all = names.get();
            all[index] = Some(watcher);
            names.set(all);
        }
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["read"]);
    }

    fn m1_2_2_read_runs_before_write(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let log = Log::new();
        watch_all(&reactor, left, &log);
        for _ in 0..20 {
            assert_eq!(reactor.poll(NOW).unwrap(), 2);
            assert_eq!(log.take(), ["read", "write"]);
        }
    }

    fn m1_2_3_an_error_with_an_error_callback_runs_that_alone(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        watch_all(&reactor, broken_socket(), &log);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["error"]);
    }

    fn m1_2_3_an_error_without_an_error_callback_counts_as_readiness(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let watch = reactor.watch(broken_socket());
        watch.on_read(noting(&log, "read")).on_write(noting(&log, "write")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 2);
        assert_eq!(log.take(), ["read", "write"]);
    }

    fn m1_2_3_an_error_reaches_a_writer_whose_reader_is_gone(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (reader, writer) = pipe();
        drop(reader);
        let watch = reactor.watch(writer).on_write(noting(&log, "write"));
        let watcher = watch.on_error(noting(&log, "error")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["error"]);
        reactor.unwatch(watcher);

        let (reader, writer) = pipe();
        drop(reader);
        reactor.watch(writer).on_write(noting(&log, "write")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["write"], "without an error callback the write finds out");
    }

    fn m1_2_3_an_error_callback_alone_may_be_watched_with(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (left, right) = sockets();
        write_byte(&left);
        write_byte(&right);
        reactor.watch(left).on_error(noting(&log, "error")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "neither readable nor writable is of interest");
        drop(right);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["error"]);
    }
}
