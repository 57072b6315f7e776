//! Which callbacks an event runs, and in which order: clauses 2.1 to 2.8, modes, hang-ups, panics.

mod support;

use mainspring_reactor::{Backend, Error, Event, Interest, Mode, Reactor, Readiness, Watcher};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;
use support::descriptors::{drain, fill, pipe, readable_socket, sockets, write_byte};
use support::{Log, NOW, on_each_backend, panic_of, reactor, settle, virtual_reactor};

/// A socket with an error to report: its peer was closed before it had read everything.
fn broken_socket() -> UnixStream {
    let (left, right) = sockets();
    write_byte(&left);
    drop(right);
    left
}

/// Watches a source with all three callbacks, each of which notes its name.
fn watch_all(reactor: &Reactor, source: UnixStream, log: &Log<&'static str>) -> Watcher {
    let (read, write, error) = (log.clone(), log.clone(), log.clone());
    reactor
        .watch(source)
        .on_write(move |_, _| write.note("write"))
        .on_read(move |_, _| read.note("read"))
        .on_error(move |_, _| error.note("error"))
        .start()
        .unwrap()
}

/// A callback that notes a word.
fn noting<T>(log: &Log<&'static str>, word: &'static str) -> impl FnMut(&mut T, &Event<'_>) + 'static {
    let log = log.clone();
    move |_, _| log.note(word)
}

/// The modes that a backend has.
fn modes(backend: Backend) -> &'static [Mode] {
    match backend {
        Backend::Epoll => &[Mode::Level, Mode::Edge, Mode::Oneshot, Mode::EdgeOneshot],
        _ => &[Mode::Level, Mode::Oneshot],
    }
}

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

    fn m1_2_4_a_hang_up_runs_read_and_not_write(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (reader, writer) = pipe();
        drop(writer);
        let watch = reactor.watch(reader).on_read(noting(&log, "read")).on_write(noting(&log, "write"));
        watch.on_error(noting(&log, "error")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["read"]);
    }

    fn m1_2_4_what_was_sent_before_the_hang_up_is_read_first(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let (reader, mut writer) = pipe();
        writer.write_all(b"last words").unwrap();
        drop(writer);
        reactor
            .watch(reader)
            .on_read(move |reader, event| {
                let mut buffer = [0; 4];
                let count = reader.read(&mut buffer).unwrap();
                calls.note(String::from_utf8_lossy(&buffer[..count]).into_owned());
                if count == 0 {
                    event.unwatch();
                }
            })
            .start()
            .unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["last", " wor", "ds", ""]);
    }

    fn m1_2_4_a_half_closed_peer_is_read_closed_and_not_hung_up(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        right.shutdown(Shutdown::Write).unwrap();
        let log = Log::new();
        let calls = log.clone();
        let interest = Interest::READ | Interest::WRITE;
        reactor.watch(left).start_with(interest, move |_, event| calls.note(event.readiness())).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        let expected = Readiness::READ | Readiness::WRITE | Readiness::READ_CLOSED;
        assert_eq!(log.take(), [expected]);
    }

    fn h5_a_hang_up_that_nobody_listens_to_does_not_spin(backend: Backend) {
        let mut reactor = reactor(backend);
        let (reader, writer) = pipe();
        let watcher = reactor.watch(reader).on_error(|_, _| panic!("a hang-up is no error")).start().unwrap();
        drop(writer);
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(reactor.stats().turns <= 5, "{:?}", reactor.stats());
        assert!(reactor.is_watching(watcher), "it is silenced, not forgotten");
        reactor.run_until_idle().unwrap();
    }

    fn h5_a_hang_up_repeats_for_a_reader_until_it_unwatches(backend: Backend) {
        let mut reactor = reactor(backend);
        let (reader, writer) = pipe();
        drop(writer);
        let log = Log::new();
        let calls = log.clone();
        reactor
            .watch(reader)
            .on_read(move |reader, event| {
                assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
                calls.note("end");
                if calls.len() == 3 {
                    event.unwatch();
                }
            })
            .start()
            .unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["end"; 3]);
    }

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
        assert_eq!(reactor.poll(support::PATIENCE).unwrap(), 1);
        assert_eq!(log.take(), [Readiness::PRIORITY]);
    }

    fn m1_2_5_a_level_is_reported_on_every_turn_until_it_ends(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let left = mainspring_reactor::Shared::new(left);
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
        let left = mainspring_reactor::Shared::new(left);
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
        watch_again(&reactor, &mainspring_reactor::Shared::new(left), &log, 3);
        assert_eq!(settle(&mut reactor, 10), 3);
        assert_eq!(log.take(), [3, 2, 1]);
    }

    fn m1_2_6_disarming_comes_after_the_callbacks(backend: Backend) {
        // The first of two steps narrows the interest and so arms the watcher again; that must outlive the second step.
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
        panic_of(|| drop(reactor.poll(support::PATIENCE)));
        reactor.unwatch(watcher);
        assert_eq!(reactor.poll(support::PATIENCE).unwrap(), 1);
        assert_eq!(log.take(), ["timer"]);
    }

    fn h10_a_panic_in_a_timer_loses_none_of_the_others_nor_their_order(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        for number in 0..5 {
            let calls = log.clone();
            let fire = move |_: &mainspring_reactor::Handle| {
                calls.note(number);
                assert!(number != 1, "the second fails");
            };
            reactor.after(Duration::from_secs(1), fire).unwrap();
        }
        panic_of(|| drop(reactor.poll(support::PATIENCE)));
        assert_eq!(reactor.poll(NOW).unwrap(), 3);
        assert_eq!(log.take(), [0, 1, 2, 3, 4]);
        assert_eq!(reactor.timer_count(), 0);
        assert_eq!(clock.elapsed(), Duration::from_secs(1));
    }

    fn h10_a_repeating_timer_that_panics_stays_armed(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let beat = move |_: &mainspring_reactor::Tick<'_>| {
            calls.note("tick");
            assert!(calls.len() != 1, "the first fails");
        };
        let timer = reactor.every(Duration::from_secs(1), beat).unwrap();
        panic_of(|| drop(reactor.poll(support::PATIENCE)));
        assert!(reactor.has_timer(timer));
        assert_eq!(reactor.poll(support::PATIENCE).unwrap(), 1);
        assert_eq!(clock.elapsed(), Duration::from_secs(2));
        assert!(reactor.cancel(timer));
    }

    fn h10_a_panic_loses_no_deferred_call_and_no_wake_up(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut wakeups = Vec::new();
        for number in 0..3 {
            let calls = log.clone();
            let wakeup = move |_: &mainspring_reactor::Handle| {
                calls.note(number);
                assert!(number != 0, "the first fails");
            };
            wakeups.push(reactor.wakeup(wakeup).unwrap());
            let calls = log.clone();
            let call = move |_: &mainspring_reactor::Handle| {
                calls.note(10 + number);
                assert!(number != 0, "the first fails");
            };
            reactor.defer(call).unwrap();
        }
        wakeups.iter().for_each(mainspring_reactor::Wakeup::signal);
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

    fn outside_29_a_closed_or_shut_down_peer_wakes_every_mode(backend: Backend) {
        for &mode in modes(backend) {
            for close in [true, false] {
                let mut reactor = reactor(backend);
                let (left, right) = sockets();
                let log = Log::new();
                let calls = log.clone();
                reactor
                    .watch(left)
                    .mode(mode)
                    .on_read(move |stream, event| {
                        calls.note(stream.read(&mut [0; 8]).unwrap());
                        event.unwatch();
                    })
                    .start()
                    .unwrap();
                assert_eq!(reactor.poll(NOW).unwrap(), 0);
                let kept = (!close).then_some(right);
                kept.iter().for_each(|right| right.shutdown(Shutdown::Both).unwrap());
                assert_eq!(reactor.poll(NOW).unwrap(), 1, "{mode:?}, close {close}");
                assert_eq!(log.take(), [0]);
                drop(kept);
            }
        }
    }

    fn spec_adicere_without_any_callback_is_an_error(backend: Backend) {
        let reactor = reactor(backend);
        let (left, _right) = sockets();
        assert!(matches!(reactor.watch(left).start(), Err(Error::NoCallback)));
        assert_eq!(reactor.watcher_count(), 0);
    }
}

/// Watches a source for one report, and from inside the callback again, until `left` reports have come.
fn watch_again(
    handle: &mainspring_reactor::Handle,
    source: &mainspring_reactor::Shared<UnixStream>,
    log: &Log<u32>,
    left: u32,
) {
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

    fn reactor() -> Reactor {
        super::reactor(Backend::Epoll)
    }

    #[test]
    fn m1_2_5_an_edge_is_dispatched_once_and_the_loop_does_not_drain() {
        let mut reactor = reactor();
        let (left, right) = readable_socket();
        let left = mainspring_reactor::Shared::new(left);
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
    fn outside_7_ten_thousand_rearms_of_an_edge_oneshot_lose_no_line() {
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
