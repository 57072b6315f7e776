//! What a watcher asks for, and the readiness it is told: changes of interest, and the callback
//! that gets the whole set.

mod support;

use mainspring_reactor::{Error, Interest, Readiness};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use support::callbacks::{noting, watch_all};
use support::descriptors::{broken_socket, readable_socket, sockets};
use support::{Log, NOW, TEST_TIMEOUT, on_each_backend, reactor};

on_each_backend! {
    fn r3_interest_in_nothing_hears_not_even_a_hang_up(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let watcher = watch_all(&reactor, broken_socket(), &log);
        reactor.modify(watcher, Interest::empty()).unwrap();
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(reactor.stats().turns <= 4, "{:?}", reactor.stats());
        assert_eq!(reactor.watcher_count(), 1);
        reactor.modify(watcher, Interest::READ).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["error"]);
    }

    fn r3_a_change_of_interest_takes_effect_at_once(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let log = Log::new();
        let watcher = watch_all(&reactor, left, &log);
        let expected: [(Interest, &[&str]); 5] = [
            (Interest::READ, &["read"]),
            (Interest::WRITE, &["write"]),
            (Interest::ERROR, &[]),
            (Interest::READ | Interest::WRITE, &["read", "write"]),
            (Interest::empty(), &[]),
        ];
        for (interest, calls) in expected {
            reactor.modify(watcher, interest).unwrap();
            assert_eq!(reactor.poll(NOW).unwrap(), calls.len());
            assert_eq!(log.take(), calls, "{interest:?}");
        }
    }

    fn r3_interest_without_a_callback_is_refused(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let log = Log::new();
        let watcher = reactor.watch(left).on_read(noting(&log, "read")).start().unwrap();
        assert!(matches!(reactor.modify(watcher, Interest::WRITE), Err(Error::NoCallback)));
        assert_eq!(reactor.poll(NOW).unwrap(), 1, "and the watch stays as it was");
        assert_eq!(log.take(), ["read"]);
    }

    fn r10_one_callback_gets_the_whole_readiness_set_at_once(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (hung_up, peer) = readable_socket();
        drop(peer);
        let gone = Readiness::READ | Readiness::WRITE | Readiness::HANGUP | Readiness::READ_CLOSED;
        for (source, expected) in [(hung_up, gone), (broken_socket(), gone | Readiness::ERROR)] {
            let calls = log.clone();
            let all = Interest::READ | Interest::WRITE;
            let watch = reactor.watch(source);
            let watcher = watch.start_with(all, move |_, event| calls.note(event.readiness())).unwrap();
            assert_eq!(reactor.poll(NOW).unwrap(), 1);
            assert_eq!(log.take(), [expected]);
            reactor.unwatch(watcher);
        }
    }

    fn r10_the_readiness_set_holds_only_what_was_asked_for_and_bad_news(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let log = Log::new();
        let calls = log.clone();
        reactor
            .watch(left)
            .start_with(Interest::READ, move |_, event| calls.note(event.readiness()))
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), [Readiness::READ]);
    }

    fn r10_urgent_data_is_a_priority_condition(backend: Backend) {
        let mut reactor = reactor(backend);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let log = Log::new();
        let calls = log.clone();
        let watch = reactor.watch(server);
        watch.start_with(Interest::PRIORITY, move |_, event| calls.note(event.readiness())).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        rustix::net::send(&client, b"!", rustix::net::SendFlags::OOB).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.take(), [Readiness::PRIORITY]);
    }

    fn s_adicere_without_any_callback_is_an_error(backend: Backend) {
        let reactor = reactor(backend);
        let (left, _right) = sockets();
        assert!(matches!(reactor.watch(left).start(), Err(Error::NoCallback)));
        assert_eq!(reactor.watcher_count(), 0);
    }
}
