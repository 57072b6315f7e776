//! Changing what is watched from inside callbacks: clauses M1.3.1 to M1.3.3.

mod support;

use mainspring_reactor::{Event, Handle, Interest, Shared, Watcher};
use std::cell::{Cell, RefCell};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;
use support::descriptors::{
    ReservedNumber, drain, many_descriptors, peer_is_closed, readable_socket, sockets, write_byte,
};
use support::{Log, NOW, NoteOnDrop, on_each_backend, reactor, settle, virtual_reactor};

on_each_backend! {
    fn m1_3_1_unwatch_in_the_read_step_skips_the_write_step(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let log = Log::new();
        let (read, write) = (log.clone(), log.clone());
        reactor
            .watch(left)
            .on_read(move |_, event| {
                read.note("read");
                event.unwatch();
            })
            .on_write(move |_, _| write.note("write"))
            .start()
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["read"]);
        assert!(peer_is_closed(&right), "the source goes as soon as the callback is over");
    }

    fn m1_3_1_a_watch_replaced_in_the_read_step_skips_the_write_step(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let fd = left.as_raw_fd();
        let log = Log::new();
        let (read, write) = (log.clone(), log.clone());
        reactor
            .watch_raw(fd, NoteOnDrop(log.clone(), "data dropped"))
            .on_read(move |_, event| {
                read.note("old read");
                let read = read.clone();
                let again = event.reactor().watch_raw(fd, ());
                again.on_read(move |(), _| read.note("new read")).start().unwrap();
            })
            .on_write(move |_, _| write.note("old write"))
            .start()
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["old read", "data dropped"]);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["new read"]);
        assert_eq!(reactor.watcher_count(), 1);
    }

    fn m1_3_1_a_write_step_whose_interest_the_read_step_took_away_still_belongs_to_the_event(
        backend: Backend,
    ) {
        // Changes take effect for future events; only removal cancels what is left of this one
        // (clause M1.3.2).
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let log = Log::new();
        let (read, write) = (log.clone(), log.clone());
        reactor
            .watch(left)
            .on_read(move |_, event| {
                read.note("read");
                event.reactor().modify(event.watcher(), Interest::READ).unwrap();
            })
            .on_write(move |_, _| write.note("write"))
            .start()
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 2);
        assert_eq!(log.take(), ["read", "write"]);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["read"]);
    }

    fn m1_3_1_an_interest_withdrawn_by_another_callback_is_not_dispatched(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let names: Rc<RefCell<Vec<Watcher>>> = Rc::default();
        let mut peers = Vec::new();
        for index in 0..2 {
            let (left, right) = readable_socket();
            peers.push(right);
            let (others, calls) = (names.clone(), log.clone());
            let watcher = reactor
                .watch(left)
                .on_read(move |_, event| {
                    calls.note("read");
                    event.reactor().modify(others.borrow()[1 - index], Interest::empty()).unwrap();
                })
                .start()
                .unwrap();
            names.borrow_mut().push(watcher);
        }
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(reactor.poll(NOW).unwrap(), 1, "and from then on only the first of them");
    }

    fn m1_3_2_a_source_that_becomes_ready_in_a_callback_waits_for_the_next_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let (late, late_peer) = sockets();
        let log = Log::new();
        let calls = log.clone();
        let depth = Rc::new(Cell::new(0));
        let (outer, inner) = (depth.clone(), depth.clone());
        reactor
            .watch(late)
            .on_read(move |stream, _| {
                assert_eq!(inner.get(), 0, "callbacks never run inside one another");
                drain(&*stream);
                calls.note("late");
            })
            .start()
            .unwrap();
        let calls = log.clone();
        reactor
            .watch(left)
            .on_read(move |stream, _| {
                outer.set(outer.get() + 1);
                drain(&*stream);
                write_byte(&late_peer);
                calls.note("first");
                outer.set(outer.get() - 1);
            })
            .start()
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["first"]);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["late"]);
    }

    fn m1_3_2_a_watch_begun_in_a_callback_is_first_heard_on_the_next_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let (new, _new_peer) = readable_socket();
        let log = Log::new();
        let calls = log.clone();
        let new = Rc::new(Cell::new(Some(new)));
        reactor
            .watch(left)
            .on_read(move |stream, event| {
                drain(&*stream);
                let calls = calls.clone();
                if let Some(new) = new.take() {
                    event.reactor().watch(new).on_read(move |_, _| calls.note("new")).start().unwrap();
                }
            })
            .start()
            .unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.len(), 0);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["new"]);
    }

    fn m1_3_3_failures_of_the_kernel_to_remove_are_ignored(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        for reuse in [false, true] {
            let number = ReservedNumber::new();
            number.open(&left);
            let watch = reactor.watch_raw(number.0, ());
            let watcher = watch.on_read(|(), _| panic!("unwatched")).start().unwrap();
            // EBADF without a new owner of the number, ENOENT with one.
            if reuse {
                number.open(&right);
            } else {
                number.close();
            }
            assert!(reactor.unwatch(watcher));
            assert_eq!(reactor.watcher_count(), 0);
            if reuse {
                number.close();
            }
        }
        write_byte(&right);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn m1_3_3_a_change_to_a_number_that_was_closed_is_a_clear_error(backend: Backend) {
        let reactor = reactor(backend);
        let (left, _right) = sockets();
        let number = ReservedNumber::new();
        number.open(&left);
        let watcher = reactor.watch_raw(number.0, ()).start_with(Interest::READ, |(), _| ()).unwrap();
        number.close();
        let refused = reactor.modify(watcher, Interest::WRITE);
        assert!(
            matches!(refused, Err(mainspring_reactor::Error::BadFd { fd }) if fd == number.0),
            "{refused:?}"
        );
        assert!(reactor.is_watching(watcher), "the table says what is watched, not the kernel");
        assert!(reactor.unwatch(watcher));
    }

    fn h3_each_of_2500_ready_sockets_closes_others_and_nobody_closed_is_called(backend: Backend) {
        const SOCKETS: usize = 2500;
        let _alone = many_descriptors();
        let mut reactor = reactor(backend);
        let world = Rc::new(Crowd::default());
        for index in 0..SOCKETS {
            let (left, right) = readable_socket();
            let crowd = world.clone();
            let watcher = reactor
                .watch(left)
                .on_read(move |stream, event| {
                    assert!(!crowd.ended.borrow()[index], "{index} was closed by another");
                    drain(&*stream);
                    crowd.called.set(crowd.called.get() + 1);
                    // Close a neighbour that may have been called already, and one far away that
                    // has not.
                    for other in [index + 1, index + SOCKETS / 2] {
                        crowd.close(event.reactor(), other % SOCKETS, index);
                    }
                })
                .start()
                .unwrap();
            world.watchers.borrow_mut().push(watcher);
            world.ended.borrow_mut().push(false);
            world.peers.borrow_mut().push(right);
        }
        settle(&mut reactor, 50);
        let ended = world.ended.borrow().iter().filter(|&&ended| ended).count();
        assert!(world.called.get() + ended >= SOCKETS, "everyone was called or closed");
        assert_eq!(reactor.watcher_count(), SOCKETS - ended);
        let closed = world.peers.borrow().iter().filter(|peer| peer_is_closed(peer)).count();
        assert_eq!(closed, ended, "a watcher that ends lets go of its descriptor");
        assert_eq!(
            reactor.stats().rebuilds,
            0,
            "events overtaken by a close are no reason to rebuild the set"
        );
    }

    fn o19_random_changes_of_interest_keep_a_duplex_stream_going(backend: Backend) {
        const BYTES: usize = 20_000;
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let received = Rc::new(Cell::new(0));
        let mut random = 12345u32;
        let mut sent = 0;
        let (left, right) = (Shared::new(left), Shared::new(right));
        let sender = reactor
            .watch_shared(&left)
            .start_with(Interest::WRITE, move |stream: &mut Shared<UnixStream>, event: &Event<'_>| {
                use std::io::Write;
                let count = (&**stream).write(&[0; 64][..64.min(BYTES - sent)]).unwrap_or(0);
                sent += count;
                if sent == BYTES {
                    event.unwatch();
                }
            })
            .unwrap();
        let total = received.clone();
        reactor
            .watch_shared(&right)
            .start_with(Interest::READ, move |stream: &mut Shared<UnixStream>, event: &Event<'_>| {
                total.set(total.get() + drain(&**stream));
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Stop the sender now and then, and let a deferred call start it again.
                if random >> 30 == 0 && event.reactor().is_watching(sender) {
                    event.reactor().modify(sender, Interest::empty()).unwrap();
                    let resume = move |handle: &Handle| {
                        assert!(
                            handle.modify(sender, Interest::WRITE).is_ok() || !handle.is_watching(sender)
                        );
                    };
                    event.reactor().defer(resume).unwrap();
                }
            })
            .unwrap();
        settle(&mut reactor, 10_000);
        assert_eq!(received.get(), BYTES);
    }

    fn r9_everything_may_be_done_from_inside_every_kind_of_callback(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let (left, _right) = readable_socket();
        let calls = log.clone();
        let in_watcher = move |stream: &mut UnixStream, event: &Event<'_>| {
            drain(&*stream);
            do_everything(event.reactor(), &calls);
        };
        let watcher = reactor.watch(left).on_read(in_watcher).start().unwrap();
        let calls = log.clone();
        reactor.after(Duration::from_secs(1), move |handle| do_everything(handle, &calls)).unwrap();
        let calls = log.clone();
        let mut first = true;
        let tick = move |tick: &mainspring_reactor::Tick<'_>| {
            if std::mem::take(&mut first) {
                do_everything(tick.reactor(), &calls);
            }
            tick.reactor().cancel(tick.timer());
        };
        reactor.every(Duration::from_secs(2), tick).unwrap();
        let calls = log.clone();
        reactor.defer(move |handle| do_everything(handle, &calls)).unwrap();
        let calls = log.clone();
        let wakeup = reactor.wakeup(move |handle| do_everything(handle, &calls)).unwrap();
        wakeup.signal();
        let (calls, handle) = (log.clone(), reactor.handle());
        let task = reactor.spawn(async move { do_everything(&handle, &calls) }).unwrap();
        drop(task);
        reactor.poll(NOW).unwrap();
        assert_eq!(reactor.watcher_count(), 1, "what the callbacks began, they ended");
        reactor.unwatch(watcher);
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["all done"; 6]);
        assert_eq!((reactor.timer_count(), reactor.task_count()), (0, 0));
    }

    fn r9_the_drop_of_a_callback_may_use_the_loop(backend: Backend) {
        /// Ends a timer and starts another when it is dropped.
        struct Meddler(Handle, mainspring_reactor::Timer);
        impl Drop for Meddler {
            fn drop(&mut self) {
                self.0.cancel(self.1);
                let _ = self.0.after(Duration::from_secs(1), |_| ());
                let _ = self.0.defer(|_| ());
            }
        }
        let (mut reactor, _clock) = virtual_reactor(backend);
        let (left, _right) = readable_socket();
        for _ in 0..2 {
            let timer = reactor.after(Duration::from_secs(9), |_| ()).unwrap();
            let meddler = Meddler(reactor.handle(), timer);
            let watch = reactor.watch_raw(left.as_raw_fd(), meddler);
            watch.on_read(|_, event| event.unwatch()).start().unwrap();
        }
        assert_eq!(reactor.timer_count(), 2, "replaced: one cancelled, one begun");
        reactor.poll(NOW).unwrap();
        assert_eq!((reactor.watcher_count(), reactor.timer_count()), (0, 2));
        let timer = reactor.after(Duration::from_secs(9), |_| ()).unwrap();
        let meddler = Meddler(reactor.handle(), timer);
        reactor.after(Duration::from_secs(5), move |_| drop(meddler)).unwrap();
        drop(reactor); // and on a closed loop it does no harm
    }
}

#[derive(Default)]
struct Crowd {
    watchers: RefCell<Vec<Watcher>>,
    peers: RefCell<Vec<UnixStream>>,
    ended: RefCell<Vec<bool>>,
    called: Cell<usize>,
}

impl Crowd {
    fn close(&self, handle: &Handle, index: usize, by: usize) {
        if index != by {
            let was_there = handle.unwatch(self.watchers.borrow()[index]);
            let ended = std::mem::replace(&mut self.ended.borrow_mut()[index], true);
            assert_eq!(was_there, !ended);
        }
    }
}

/// Uses every part of the loop, and leaves nothing behind.
fn do_everything(handle: &Handle, log: &Log<&'static str>) {
    let (left, right) = sockets();
    let owned = handle.watch(left).on_read(|_, _| ()).start().unwrap();
    let right = Shared::new(right);
    let shared = handle.watch_shared(&right).on_write(|_, _| ()).start().unwrap();
    handle.modify(owned, Interest::empty()).unwrap();
    handle.rearm(shared).unwrap();
    assert!(handle.unwatch(owned));
    drop(right);
    assert!(!handle.is_watching(shared));
    let timer = handle.after(Duration::from_secs(60), |_| ()).unwrap();
    assert!(handle.reschedule_after(timer, Duration::from_secs(70)).unwrap());
    let every = handle.every(Duration::from_secs(60), |_| ()).unwrap();
    assert!(handle.cancel(timer) && handle.cancel(every));
    handle.defer(|_| ()).unwrap();
    handle.wakeup(|_| ()).unwrap().signal();
    handle.spawn(async {}).unwrap().abort();
    handle.remote().wake();
    handle.set_timing(true);
    assert!(handle.timing().is_some() && handle.stats().turns > 0);
    handle.set_timing(false);
    assert!(!format!("{handle:?}").is_empty());
    log.note("all done");
}
