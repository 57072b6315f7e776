//! A panic in a callback: it comes out of the turn, and nothing else is lost by it. Clause 2.8.

mod support;

use mainspring_reactor::{Handle, Mode, Tick, Wakeup};
use std::time::Duration;
use support::descriptors::{drain, readable_socket};
use support::{Log, NOW, TEST_TIMEOUT, modes, on_each_backend, panic_of, reactor, settle, virtual_reactor};

on_each_backend! {
    fn m1_2_8_a_panic_in_a_callback_comes_out_of_the_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let watcher = reactor.watch(left).on_read(|_, _| panic!("from a callback")).start().unwrap();
        assert_eq!(panic_of(|| drop(reactor.poll(NOW))), "from a callback");
        assert_eq!(
            panic_of(|| drop(reactor.run())),
            "from a callback",
            "and again: the watch is still there"
        );
        assert!(!reactor.is_running());
        assert!(reactor.unwatch(watcher));
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn h10_a_panic_loses_nothing_of_the_batch_in_any_mode(backend: Backend) {
        for &mode in modes(backend) {
            let mut reactor = reactor(backend);
            let log = Log::new();
            let mut peers = Vec::new();
            for number in 0..5 {
                let (left, right) = readable_socket();
                peers.push(right);
                let calls = log.clone();
                reactor
                    .watch(left)
                    .mode(mode)
                    .on_read(move |stream, _| {
                        drain(&*stream);
                        calls.note(number);
                        assert!(calls.len() != 2, "the second call fails");
                    })
                    .start()
                    .unwrap();
            }
            panic_of(|| drop(reactor.poll(NOW)));
            assert_eq!(log.len(), 2, "{mode:?}");
            assert_eq!(settle(&mut reactor, 10), 3, "{mode:?}: the other three are called after the panic");
            let mut all = log.take();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
            assert_eq!(reactor.watcher_count(), 5, "{mode:?}: the one that failed is still watched");
        }
    }

    fn h10_a_panic_in_a_descriptor_callback_loses_no_due_timer(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (left, _right) = readable_socket();
        let calls = log.clone();
        let now = reactor.now();
        reactor.at(now, move |_| calls.note("timer")).unwrap();
        let watcher = reactor.watch(left).on_read(|_, _| panic!("fails")).start().unwrap();
        panic_of(|| drop(reactor.poll(TEST_TIMEOUT)));
        reactor.unwatch(watcher);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.take(), ["timer"]);
    }

    fn h10_a_panic_in_a_timer_loses_none_of_the_others_nor_their_order(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        for number in 0..5 {
            let calls = log.clone();
            let fire = move |_: &Handle| {
                calls.note(number);
                assert!(number != 1, "the second fails");
            };
            reactor.after(Duration::from_secs(1), fire).unwrap();
        }
        panic_of(|| drop(reactor.poll(TEST_TIMEOUT)));
        assert_eq!(reactor.poll(NOW).unwrap(), 3);
        assert_eq!(log.take(), [0, 1, 2, 3, 4]);
        assert_eq!(reactor.timer_count(), 0);
        assert_eq!(clock.elapsed(), Duration::from_secs(1));
    }

    fn h10_a_repeating_timer_that_panics_stays_armed(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let beat = move |_: &Tick<'_>| {
            calls.note("tick");
            assert!(calls.len() != 1, "the first fails");
        };
        let timer = reactor.every(Duration::from_secs(1), beat).unwrap();
        panic_of(|| drop(reactor.poll(TEST_TIMEOUT)));
        assert!(reactor.has_timer(timer));
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(clock.elapsed(), Duration::from_secs(2));
        assert!(reactor.cancel(timer));
    }

    fn h10_a_panic_loses_no_deferred_call_and_no_wake_up(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut wakeups = Vec::new();
        for number in 0..3 {
            let calls = log.clone();
            let wakeup = move |_: &Handle| {
                calls.note(number);
                assert!(number != 0, "the first fails");
            };
            wakeups.push(reactor.wakeup(wakeup).unwrap());
            let calls = log.clone();
            let call = move |_: &Handle| {
                calls.note(10 + number);
                assert!(number != 0, "the first fails");
            };
            reactor.defer(call).unwrap();
        }
        wakeups.iter().for_each(Wakeup::signal);
        panic_of(|| drop(reactor.poll(NOW)));
        assert_eq!(log.take(), [0]);
        panic_of(|| drop(reactor.poll(NOW)));
        assert_eq!(log.take(), [1, 2, 10]);
        reactor.poll(NOW).unwrap();
        assert_eq!(log.take(), [11, 12]);
    }

    fn h10_a_oneshot_whose_callback_panics_can_be_armed_again(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let watch = reactor.watch(left).mode(Mode::Oneshot);
        let watcher = watch.on_read(|_, _| panic!("fails")).start().unwrap();
        panic_of(|| drop(reactor.poll(NOW)));
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        reactor.rearm(watcher).unwrap();
        panic_of(|| drop(reactor.poll(NOW)));
    }

    fn h10_what_a_callback_did_before_it_panicked_stands(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let other = reactor.watch(right).on_read(|_, _| ()).start().unwrap();
        reactor
            .watch(left)
            .on_read(move |_, event| {
                event.unwatch();
                event.reactor().unwatch(other);
                panic!("fails");
            })
            .start()
            .unwrap();
        panic_of(|| drop(reactor.poll(NOW)));
        assert_eq!(reactor.watcher_count(), 0);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }
}
