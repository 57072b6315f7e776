//! Which watcher an event belongs to: clauses M1.1.1 to M1.1.6, closed and reused numbers,
//! duplicated descriptions.

mod support;

use mainspring_reactor::{Backend, Error, Event, Interest, Mode, Reactor, Shared, Timer, Watcher};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;
use support::callbacks::noting;
use support::descriptors::{
    ReservedNumber, drain, drain_number, peer_is_closed, pipe, readable_socket, sockets, write_byte,
};
use support::stale::leave_registration;
use support::{Log, NOW, NoteOnDrop, on_each_backend, reactor, settle};

on_each_backend! {
    fn m1_1_3_an_owned_source_that_its_callback_replaces_is_not_called_by_its_old_number(backend: Backend) {
        let mut reactor = reactor(backend);
        let (socket, _peer) = readable_socket();
        let (other, _other_peer) = readable_socket();
        let (log, number) = (Log::new(), ReservedNumber::new());
        for whole in [false, true] {
            let mut other = Some(other.try_clone().unwrap().into());
            let calls = log.clone();
            let mut replace = move |source: &mut OwnedFd, _: &Event<'_>| {
                calls.note("read");
                drop(std::mem::replace(source, other.take().unwrap()));
            };
            let watch = reactor.watch(number.open_owned(&socket));
            let watcher = if whole {
                watch.start_with(Interest::READ, replace).unwrap()
            } else {
                let write = noting(&log, "write");
                watch.on_read(move |source, event| replace(source, event)).on_write(write).start().unwrap()
            };
            assert_eq!(reactor.poll(NOW).unwrap(), 1);
            // The old number is somebody else's now.
            let stranger = number.open_owned(&socket);
            assert_eq!(settle(&mut reactor, 3), 0);
            assert_eq!(log.take(), ["read"], "not even the write step of the same event");
            assert!(!reactor.is_watching(watcher));
            assert_eq!(reactor.watcher_count(), 0);
            drop(stranger);
        }
    }

    fn m1_1_1_a_watcher_is_found_by_the_number_of_its_descriptor(backend: Backend) {
        let reactor = reactor(backend);
        let (left, right) = sockets();
        let (left_fd, right_fd) = (left.as_raw_fd(), right.as_raw_fd());
        let first = reactor.watch(left).on_read(|_, _| ()).start().unwrap();
        let second = reactor.watch(right).on_read(|_, _| ()).start().unwrap();
        assert_eq!((first.raw_fd(), second.raw_fd()), (left_fd, right_fd));
        assert_eq!(reactor.watcher_of(left_fd), Some(first));
        assert_eq!(reactor.watcher_of(right_fd), Some(second));
        assert_eq!(reactor.watcher_count(), 2);
        assert_eq!(reactor.watcher_of(-1), None);
        assert_eq!(reactor.watcher_of(i32::MAX), None);
    }

    fn m1_1_1_watching_a_number_that_is_not_open_is_refused(backend: Backend) {
        let reactor = reactor(backend);
        let number = ReservedNumber::new();
        for fd in [number.0, -1, i32::MIN] {
            for interest in [Interest::READ, Interest::empty()] {
                let refused = reactor.watch_raw(fd, ()).start_with(interest, |(), _| ());
                assert!(
                    matches!(refused, Err(Error::BadFd { fd: named }) if named == fd),
                    "{fd}: {refused:?}"
                );
            }
        }
        assert_eq!(reactor.watcher_count(), 0);
    }

    fn m1_1_2_a_shared_source_is_kept_weakly_and_its_end_ends_the_watch(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let fd = left.as_raw_fd();
        let left = Shared::new(left);
        let log = Log::new();
        let calls = log.clone();
        let watcher = reactor.watch_shared(&left).on_read(move |_, _| calls.note("read")).start().unwrap();
        assert_eq!(left.owner_count(), 1, "the watch must not own the source");
        assert_eq!(reactor.watcher_count(), 1);
        drop(left);
        assert_eq!(reactor.watcher_count(), 0, "the count must not lag behind");
        assert!(!reactor.is_watching(watcher));
        assert_eq!(reactor.watcher_of(fd), None);
        assert!(peer_is_closed(&right), "nothing may hold the descriptor open");
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        assert_eq!(log.take(), [""; 0]);
    }

    fn m1_1_2_a_shared_source_may_be_dropped_by_its_own_callback(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let owner = Rc::new(RefCell::new(Some(Shared::new(left))));
        let held = owner.clone();
        let log = Log::new();
        let calls = log.clone();
        reactor
            .watch_shared(owner.borrow().as_ref().unwrap())
            .on_read(move |source, _| {
                held.borrow_mut().take();
                assert_eq!(source.owner_count(), 1, "the call in progress keeps it alive");
                calls.note("read");
            })
            .on_write(|_, _| panic!("the source is gone"))
            .start()
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["read"]);
        assert_eq!(reactor.watcher_count(), 0);
        assert!(peer_is_closed(&right));
    }

    fn m1_1_2_an_owned_source_lives_exactly_as_long_as_its_watch(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        reactor.watch(left).on_read(|_, event| event.unwatch()).start().unwrap();
        assert!(!peer_is_closed(&right));
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert!(peer_is_closed(&right));
        assert_eq!(reactor.watcher_count(), 0);
    }

    fn m1_1_2_dropping_the_reactor_drops_owned_sources_and_leaves_shared_ones(backend: Backend) {
        let reactor = reactor(backend);
        let (owned, owned_peer) = sockets();
        let (shared, shared_peer) = sockets();
        let shared = Shared::new(shared);
        reactor.watch(owned).on_read(|_, _| ()).start().unwrap();
        reactor.watch_shared(&shared).on_read(|_, _| ()).start().unwrap();
        drop(reactor);
        assert!(peer_is_closed(&owned_peer));
        assert!(!peer_is_closed(&shared_peer));
        drop(shared);
        assert!(peer_is_closed(&shared_peer));
    }

    fn m1_1_3_an_event_in_hand_for_a_source_that_has_gone_calls_nobody(backend: Backend) {
        let mut reactor = reactor(backend);
        let sources: Rc<RefCell<[Option<Shared<_>>; 2]>> = Rc::default();
        let (log, mut peers) = (Log::new(), Vec::new());
        for index in 0..2 {
            let (left, right) = readable_socket();
            peers.push(right);
            let left = Shared::new(left);
            let (others, calls) = (sources.clone(), log.clone());
            reactor
                .watch_shared(&left)
                .on_read(move |source, _| {
                    drain(&**source);
                    calls.note(index);
                    others.borrow_mut()[1 - index] = None;
                })
                .start()
                .unwrap();
            sources.borrow_mut()[index] = Some(left);
        }
        assert_eq!(reactor.poll(NOW).unwrap(), 1, "whoever is called first ends the other");
        assert_eq!(log.len(), 1);
        assert_eq!(reactor.watcher_count(), 1);
        assert_eq!(reactor.stats().rebuilds, 0);
    }

    fn h1_an_event_in_hand_does_not_reach_the_next_owner_of_a_closed_number(backend: Backend) {
        // Two ready sources. Whichever is called first ends the other one, whose number is then
        // taken by a new source that is not ready: the event in hand is not for the new one.
        let mut reactor = reactor(backend);
        let world = Rc::new(ReuseWorld::new());
        for index in 0..2 {
            world.watch_old(&reactor, index);
        }
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(world.log.take(), ["old"]);
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "the new source has nothing to read");
        assert_eq!(reactor.watcher_count(), 2);
        write_byte(&world.new_peer);
        assert_eq!(settle(&mut reactor, 10), 1);
        assert_eq!(world.log.take(), ["new"], "and its own events do reach it");
        assert_eq!(reactor.stats().rebuilds, 0);
    }

    fn m1_1_4_a_number_closed_behind_our_back_is_silent_until_it_is_unwatched(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let number = ReservedNumber::new();
        number.open(&left);
        drop(left);
        let watcher =
            reactor.watch_raw(number.0, ()).on_read(|(), _| panic!("it is closed")).start().unwrap();
        number.close();
        drop(right);
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(
            reactor.stats().turns <= 4,
            "a closed number must not make the loop spin: {:?}",
            reactor.stats()
        );
        assert!(reactor.is_watching(watcher), "the kernel does not tell, so the entry stays");
        assert_eq!(reactor.watcher_count(), 1);
        assert!(reactor.unwatch(watcher));
        assert_eq!(reactor.watcher_count(), 0);
    }

    fn m1_1_4_a_closed_number_can_be_watched_anew_when_it_is_open_again(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = sockets();
        let (new, _new_peer) = readable_socket();
        let number = ReservedNumber::new();
        number.open(&left);
        drop(left);
        let log = Log::new();
        reactor.watch_raw(number.0, ()).on_read(|(), _| panic!("it is closed")).start().unwrap();
        number.close();
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        number.open(&new);
        let calls = log.clone();
        let again = reactor.watch_raw(number.0, ()).on_read(move |(), _| calls.note("new")).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["new"]);
        assert_eq!(reactor.watcher_count(), 1);
        assert!(reactor.unwatch(again));
        number.close();
    }

    fn m1_1_5_unwatch_is_idempotent_and_silent(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let watcher =
            reactor.watch_raw(left.as_raw_fd(), ()).on_read(|(), _| panic!("unwatched")).start().unwrap();
        assert!(reactor.unwatch(watcher));
        assert!(!reactor.unwatch(watcher));
        assert!(!reactor.unwatch_source(&left));
        assert!(!reactor.unwatch_source(&right), "never watched");
        assert_eq!(reactor.watcher_count(), 0);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn m1_1_5_unwatch_by_the_source_itself(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let left = Shared::new(left);
        reactor.watch_shared(&left).on_read(|_, _| panic!("unwatched")).start().unwrap();
        assert!(reactor.unwatch_source(&left));
        assert!(!reactor.unwatch_source(&left));
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn m1_1_5_the_name_of_an_ended_watch_stays_dead(backend: Backend) {
        let reactor = reactor(backend);
        let (left, _right) = sockets();
        let fd = left.as_raw_fd();
        let old = reactor.watch_raw(fd, ()).on_read(|(), _| ()).start().unwrap();
        reactor.unwatch(old);
        let new = reactor.watch_raw(fd, ()).on_read(|(), _| ()).start().unwrap();
        assert_ne!(old, new);
        assert!(!reactor.unwatch(old), "the old name must not end the new watch");
        assert!(matches!(reactor.modify(old, Interest::READ), Err(Error::Gone)));
        assert!(matches!(reactor.rearm(old), Err(Error::Gone)));
        assert!(reactor.is_watching(new));
    }

    fn m1_1_6_watching_again_replaces_the_watcher_in_one_step(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let fd = left.as_raw_fd();
        let log = Log::new();
        let data = NoteOnDrop(log.clone(), "old data dropped");
        let old = reactor.watch_raw(fd, data).on_read(|_, _| panic!("replaced")).start().unwrap();
        let calls = log.clone();
        let new = reactor.watch_raw(fd, ()).on_read(move |(), _| calls.note("new")).start().unwrap();
        assert_eq!(log.take(), ["old data dropped"], "no callback runs because of the replacement");
        assert_eq!(reactor.watcher_count(), 1);
        assert!(!reactor.is_watching(old));
        assert_eq!(reactor.watcher_of(fd), Some(new));
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["new"], "what was pending goes to the new watcher");
    }

    fn m1_1_6_a_replacement_that_fails_leaves_the_old_watch_in_place(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let fd = left.as_raw_fd();
        let log = Log::new();
        let calls = log.clone();
        let watcher = reactor.watch_raw(fd, ()).on_read(move |(), _| calls.note("old")).start().unwrap();
        assert!(matches!(reactor.watch_raw(fd, ()).start(), Err(Error::NoCallback)));
        let edge = reactor.watch_raw(fd, ()).mode(Mode::Edge).on_read(|(), _| ());
        if backend == Backend::Poll {
            assert!(matches!(edge.start(), Err(Error::Unsupported { .. })));
        }
        assert!(reactor.is_watching(watcher));
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["old"]);
    }

    fn m1_1_6_an_event_in_hand_is_not_for_the_watcher_that_replaces_its_own(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let sources = [readable_socket(), readable_socket()];
        let fds = [sources[0].0.as_raw_fd(), sources[1].0.as_raw_fd()];
        for (fd, other) in [(fds[0], fds[1]), (fds[1], fds[0])] {
            let calls = log.clone();
            reactor
                .watch_raw(fd, ())
                .on_read(move |(), event| {
                    calls.note("old");
                    let calls = calls.clone();
                    let again = event.reactor().watch_raw(other, ());
                    again.on_read(move |(), _| calls.note("new")).start().unwrap();
                    event.unwatch();
                })
                .start()
                .unwrap();
        }
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["old"]);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["new"], "a level that still holds is reported on the next turn");
    }

    fn m1_1_6_a_shared_source_moves_between_loops_without_a_double_watch(backend: Backend) {
        let (mut first, mut second) = (reactor(backend), reactor(backend));
        let (left, _right) = readable_socket();
        let left = Shared::new(left);
        first.watch_shared(&left).on_read(|_, _| panic!("moved away")).start().unwrap();
        second.watch_shared(&left).on_read(|_, _| ()).start().unwrap();
        assert_eq!((first.watcher_count(), second.watcher_count()), (0, 1));
        assert_eq!((first.poll(NOW).unwrap(), second.poll(NOW).unwrap()), (0, 1));
        drop(left);
        assert_eq!(second.watcher_count(), 0);
    }

    fn h2_a_duplicate_that_lives_on_after_close_neither_misleads_nor_spins(backend: Backend) {
        // The description of a closed number lives on under another one, is readable, and can no
        // longer be taken out of an epoll set; the number is taken by a new source that is watched
        // and has nothing to read.
        let mut reactor = reactor(backend);
        let (old, _old_peer) = readable_socket();
        let (new, new_peer) = sockets();
        let number = ReservedNumber::new();
        number.open(&old); // `old` itself is the duplicate that lives on
        reactor.watch_raw(number.0, ()).on_read(|(), _| panic!("replaced")).start().unwrap();
        number.open(&new);
        let log = Log::new();
        let calls = log.clone();
        let watcher =
            reactor.watch_raw(number.0, ()).on_read(move |(), _| calls.note("new")).start().unwrap();
        for _ in 0..100 {
            assert_eq!(reactor.poll(NOW).unwrap(), 0, "nothing is ready for the new watcher");
        }
        let stats = reactor.stats();
        assert!(stats.stale_events <= 2 && stats.rebuilds <= 1, "{stats:?}");
        if backend == Backend::Epoll {
            assert_eq!((stats.stale_events, stats.rebuilds), (2, 1), "seen, discarded, got rid of");
        }
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(reactor.stats().turns <= stats.turns + 3, "the loop must rest: {:?}", reactor.stats());
        write_byte(&new_peer);
        assert_eq!(reactor.poll(NOW).unwrap(), 1, "the rebuilt set still knows the new source");
        assert_eq!(log.take(), ["new"]);
        reactor.unwatch(watcher);
        number.close();
    }

    fn h2_a_duplicate_of_a_number_that_nobody_watches_any_more_is_silenced(backend: Backend) {
        let mut reactor = reactor(backend);
        let (old, _old_peer) = readable_socket();
        let number = ReservedNumber::new();
        number.open(&old);
        let watcher = reactor.watch_raw(number.0, ()).on_read(|(), _| panic!("closed")).start().unwrap();
        number.close();
        assert!(reactor.unwatch(watcher), "the kernel's EBADF is ignored");
        for _ in 0..100 {
            assert_eq!(reactor.poll(NOW).unwrap(), 0);
        }
        let stats = reactor.stats();
        assert!(stats.stale_events <= 2 && stats.rebuilds <= 1, "{stats:?}");
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(reactor.stats().turns <= stats.turns + 3, "the loop must rest");
    }

    fn r1_the_set_is_rebuilt_with_every_mode_and_state_that_was_in_it(backend: Backend) {
        let mut reactor = reactor(backend);
        let log: Log<&'static str> = Log::new();
        let note = |word: &'static str| {
            let log = log.clone();
            move || log.note(word)
        };
        let (level, _p1) = readable_socket();
        let (spent, _p2) = readable_socket();
        let (quiet, quiet_peer) = sockets();
        let (parked, _p4) = readable_socket();
        let (seen, mut fired) = (note("level"), 0);
        reactor
            .watch(level)
            .on_read(move |_, event| {
                seen();
                fired += 1;
                if fired == 2 {
                    event.unwatch();
                }
            })
            .start()
            .unwrap();
        let seen = note("oneshot");
        let spent = reactor.watch(spent).mode(Mode::Oneshot).on_read(move |_, _| seen()).start().unwrap();
        let seen = note("quiet");
        reactor
            .watch(quiet)
            .on_read(move |stream, _| {
                drain(&*stream);
                seen()
            })
            .start()
            .unwrap();
        let seen = note("parked");
        let parked = reactor
            .watch(parked)
            .on_read(move |_, event| {
                seen();
                event.unwatch()
            })
            .start()
            .unwrap();
        reactor.modify(parked, Interest::empty()).unwrap();
        let mut first = {
            reactor.poll(NOW).unwrap();
            log.take()
        };
        first.sort_unstable();
        assert_eq!(first, ["level", "oneshot"]);
        let _stale = leave_registration(&mut reactor);
        let mut after = log.take();
        after.dedup();
        assert_eq!(
            after,
            ["level"],
            "neither the spent oneshot nor the parked watcher wakes up by a rebuild"
        );
        write_byte(&quiet_peer);
        reactor.rearm(spent).unwrap();
        reactor.modify(parked, Interest::READ).unwrap();
        settle(&mut reactor, 10);
        let mut rest = log.take();
        rest.sort_unstable();
        assert_eq!(rest, ["oneshot", "parked", "quiet"]);
    }
}

/// Two numbers that are ready, and a source that takes one of them over.
struct ReuseWorld {
    log: Log<&'static str>,
    numbers: [ReservedNumber; 2],
    new: UnixStream,
    new_peer: UnixStream,
    _peers: Vec<UnixStream>,
}

impl ReuseWorld {
    fn new() -> ReuseWorld {
        let (new, new_peer) = sockets();
        let numbers = [ReservedNumber::new(), ReservedNumber::new()];
        let mut peers = Vec::new();
        for number in &numbers {
            let (left, right) = readable_socket();
            number.open(&left);
            peers.push(right);
        }
        ReuseWorld { log: Log::new(), numbers, new, new_peer, _peers: peers }
    }

    fn watch_old(self: &Rc<Self>, reactor: &Reactor, index: usize) {
        let (world, fd) = (self.clone(), self.numbers[index].0);
        let first_called = move |(): &mut (), event: &Event<'_>| {
            world.log.note("old");
            drain_number(fd);
            // Close the other number without a word to the loop, and let the new source have it.
            let other = world.numbers[1 - index].open(&world.new);
            let log = world.log.clone();
            let new_called = move |(): &mut (), _: &Event<'_>| {
                log.note("new");
                drain_number(other);
            };
            event.reactor().watch_raw(other, ()).on_read(new_called).start().unwrap();
        };
        reactor.watch_raw(fd, ()).on_read(first_called).start().unwrap();
    }
}

#[test]
fn r2_watching_a_shared_source_again_with_the_same_interest_keeps_its_registration() {
    let mut reactor = Reactor::new().unwrap();
    let (left, _right) = readable_socket();
    let left = Shared::new(left);
    let log = Log::new();
    for round in 0..3 {
        let calls = log.clone();
        reactor.watch_shared(&left).on_read(move |_, _| calls.note(round)).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), [round]);
    }
    assert_eq!(reactor.watcher_count(), 1);
}

#[test]
fn r11_on_poll_a_raw_number_that_changed_hands_unseen_is_followed() {
    // `poll` knows numbers only. That is what is documented for bare numbers, and why the other two
    // kinds of source exist.
    let mut reactor = reactor(Backend::Poll);
    let (old, _old_peer) = sockets();
    let (new, _new_peer) = readable_socket();
    let number = ReservedNumber::new();
    number.open(&old);
    let log = Log::new();
    let calls = log.clone();
    let watcher = reactor.watch_raw(number.0, ()).on_read(move |(), _| calls.note("called")).start().unwrap();
    number.open(&new);
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
    assert_eq!(log.take(), ["called"]);
    reactor.unwatch(watcher);
    number.close();
}

#[test]
fn g7_a_number_that_names_no_watcher_or_timer_does_nothing() {
    let reactor = Reactor::new().unwrap();
    let (left, _right) = sockets();
    let watcher = reactor.watch(left).on_read(|_, _| ()).start().unwrap();
    let timer = reactor.after(Duration::from_secs(1), |_| ()).unwrap();
    assert_eq!((Watcher::from_bits(watcher.to_bits()), Timer::from_bits(timer.to_bits())), (watcher, timer));
    assert!(watcher.to_bits() != 0 && timer.to_bits() != 0, "zero names nothing");
    for bits in [0, 1, u64::from(u32::MAX), u64::MAX, u64::MAX << 32, 1 << 63] {
        assert!(!reactor.unwatch(Watcher::from_bits(bits)), "{bits:#x}");
        assert!(!reactor.is_watching(Watcher::from_bits(bits)));
        assert!(!reactor.cancel(Timer::from_bits(bits)), "{bits:#x}");
        assert!(!reactor.has_timer(Timer::from_bits(bits)));
        assert!(!reactor.reschedule_at(Timer::from_bits(bits), reactor.now()));
    }
    assert_eq!((reactor.watcher_count(), reactor.timer_count()), (1, 1));
}

#[cfg(target_os = "linux")]
#[test]
fn m1_1_4_on_epoll_a_duplicate_keeps_a_bare_number_reporting_until_it_is_unwatched() {
    // The one exception: the description that was asked for is still there, so it is still
    // reported, to the one who asked.
    let mut reactor = reactor(Backend::Epoll);
    let (source, peer) = sockets();
    let number = ReservedNumber::new();
    number.open(&source);
    let log = Log::new();
    let calls = log.clone();
    let watcher = reactor.watch_raw(number.0, ()).on_read(move |(), _| calls.note("called")).start().unwrap();
    number.close();
    write_byte(&peer);
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
    assert_eq!(log.take(), ["called"]);
    reactor.unwatch(watcher);
    assert_eq!(settle(&mut reactor, 5), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn r1_a_rebuild_gives_a_reused_number_to_nobody() {
    // A number is closed behind the loop's back and taken by a source that nobody watches. When the
    // set is rebuilt for another reason, the old watch must not get hold of the new source.
    let mut reactor = reactor(Backend::Epoll);
    let (old, _old_peer) = sockets();
    let (new, _new_peer) = readable_socket();
    let number = ReservedNumber::new();
    number.open(&old);
    drop(old);
    let watcher = reactor.watch_raw(number.0, ()).on_read(|(), _| panic!("not its source")).start().unwrap();
    number.open(&new);
    let _stale = leave_registration(&mut reactor);
    assert_eq!(settle(&mut reactor, 5), 0);
    assert!(!reactor.is_watching(watcher), "what it watched is gone, so it is gone");
    assert_eq!(reactor.watcher_count(), 0);
    number.close();
}

#[test]
fn m1_1_3_a_pipe_that_replaces_a_closed_one_under_its_number_gets_only_its_own_events() {
    // The kernel forgets a closed description; the new one under the number was never taken in.
    let mut reactor = Reactor::new().unwrap();
    let (old, old_writer) = pipe();
    let (new, new_writer) = pipe();
    let number = ReservedNumber::new();
    number.open(&old);
    drop(old);
    let watcher = reactor.watch_raw(number.0, ()).on_read(|(), _| panic!("closed")).start().unwrap();
    number.open(&new);
    drop((old_writer, new_writer)); // both ends report a hang-up to whoever watches them
    assert_eq!(reactor.poll(NOW).unwrap(), 0);
    assert_eq!(reactor.stats().stale_events, 0);
    reactor.unwatch(watcher);
    number.close();
}
