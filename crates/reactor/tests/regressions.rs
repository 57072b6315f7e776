//! Traps that other loops fell into. Each test is named after what went wrong there; the number is
//! that of `docs/contracts/reactor.md`, "Traps".

mod support;

use mainspring_reactor::{Event, Handle, Interest, Mode, Reactor, Shared, Timer};
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;
use support::descriptors::{
    ReservedNumber, drain, many_descriptors, pipe, readable_socket, sockets, write_byte,
};
use support::{Log, NOW, TEST_TIMEOUT, on_each_backend, reactor, settle, virtual_reactor};

on_each_backend! {
    fn t1_a_connection_closed_and_accepted_again_under_its_number_gets_no_old_event(backend: Backend) {
        // Two connections are ready. The first to be served closes the other and accepts a new one,
        // which the system gives the number that has just become free.
        let mut reactor = reactor(backend);
        let log = Log::new();
        let connections: Rc<RefCell<[Option<Shared<UnixStream>>; 2]>> = Rc::default();
        let accepted: Rc<RefCell<Vec<Shared<UnixStream>>>> = Rc::default();
        let mut peers = Vec::new();
        for index in 0..2 {
            let (left, right) = readable_socket();
            peers.push(right);
            let left = Shared::new(left);
            let (others, new, calls) = (connections.clone(), accepted.clone(), log.clone());
            reactor
                .watch_shared(&left)
                .on_read(move |stream, event| {
                    drain(&**stream);
                    calls.note("old");
                    others.borrow_mut()[1 - index] = None;
                    let (left, right) = sockets();
                    std::mem::forget(right);
                    let (left, calls) = (Shared::new(left), calls.clone());
                    event
                        .reactor()
                        .watch_shared(&left)
                        .on_read(move |_, _| calls.note("new"))
                        .start()
                        .unwrap();
                    new.borrow_mut().push(left);
                })
                .start()
                .unwrap();
            connections.borrow_mut()[index] = Some(left);
        }
        assert_eq!(settle(&mut reactor, 5), 1);
        assert_eq!(log.take(), ["old"]);
    }

    fn t3_closing_before_unwatching_aborts_nothing(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let number = ReservedNumber::new();
        for close_inside in [false, true] {
            number.open(&left);
            let fd = number.0;
            let watcher = reactor
                .watch_raw(fd, ())
                .on_read(move |(), event| {
                    // SAFETY: the number belongs to this test alone.
                    assert_eq!(unsafe { libc::close(fd) }, 0);
                    event.unwatch();
                })
                .start()
                .unwrap();
            if close_inside {
                assert_eq!(reactor.poll(NOW).unwrap(), 1);
            } else {
                number.close();
                reactor.unwatch(watcher);
            }
            settle(&mut reactor, 5);
            assert_eq!(reactor.watcher_count(), 0);
        }
    }

    fn t4_standard_input_from_a_file_or_dev_null_is_served(backend: Backend) {
        let mut reactor = reactor(backend);
        let input = std::fs::File::open("/dev/null").unwrap();
        let ended = Rc::new(Cell::new(false));
        let flag = ended.clone();
        reactor
            .watch(input)
            .on_read(move |input, event| {
                assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
                flag.set(true);
                event.unwatch();
            })
            .start()
            .unwrap();
        reactor.run_until_idle().unwrap();
        assert!(ended.get());
    }

    fn t6_a_writer_whose_reader_has_gone_does_not_spin_once_it_is_paused(backend: Backend) {
        let mut reactor = reactor(backend);
        let (reader, writer) = pipe();
        let watcher = reactor
            .watch(writer)
            .on_write(|writer, event| {
                if writer.write(b"x").is_err() {
                    event.reactor().modify(event.watcher(), Interest::empty()).unwrap();
                }
            })
            .start()
            .unwrap();
        reactor.poll(NOW).unwrap();
        drop(reader);
        reactor.poll(NOW).unwrap();
        let turns = reactor.stats().turns;
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(reactor.stats().turns <= turns + 3, "{:?}", reactor.stats());
        assert!(reactor.is_watching(watcher));
    }

    fn t7_the_last_output_of_a_terminal_is_read_to_its_end_after_the_hang_up(backend: Backend) {
        const BYTES: usize = 3000;
        let mut reactor = reactor(backend);
        let (master, slave) = terminal();
        let mut writer = std::fs::File::from(slave);
        writer.write_all(&[b'x'; BYTES]).unwrap();
        drop(writer);
        let total = Rc::new(Cell::new(0));
        let sum = total.clone();
        reactor
            .watch(std::fs::File::from(master))
            .on_read(move |master, event| match master.read(&mut [0; 100]) {
                Ok(count) if count > 0 => sum.set(sum.get() + count),
                // A terminal ends with an error, on some systems with nothing.
                _ => event.unwatch(),
            })
            .start()
            .unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(total.get(), BYTES);
    }

    fn t9_timers_and_descriptors_share_when_both_are_always_due(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let (reads, ticks) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (read, tick) = (reads.clone(), ticks.clone());
        reactor.watch(left).on_read(move |_, _| read.set(read.get() + 1)).start().unwrap();
        let beat = move |this: &mainspring_reactor::Tick<'_>| {
            tick.set(tick.get() + 1);
            if tick.get() == 100 {
                this.reactor().stop();
            }
        };
        reactor.every(Duration::from_nanos(1), beat).unwrap();
        reactor.run().unwrap();
        assert!((99..=101).contains(&reads.get()), "{} reads in {} ticks", reads.get(), ticks.get());
    }

    fn t10_more_ready_descriptors_than_a_turn_takes_are_served_in_rotation(backend: Backend) {
        const SOURCES: usize = 2000;
        let _alone = many_descriptors();
        let mut reactor = reactor(backend);
        let counts: Vec<Rc<Cell<u32>>> = (0..SOURCES).map(|_| Rc::default()).collect();
        let mut peers = Vec::new();
        for count in &counts {
            let (left, right) = readable_socket();
            peers.push(right);
            let count = count.clone();
            reactor.watch(left).on_read(move |_, _| count.set(count.get() + 1)).start().unwrap();
        }
        for _ in 0..12 {
            assert!(reactor.poll(TEST_TIMEOUT).unwrap() <= 1024);
        }
        let least = counts.iter().map(|count| count.get()).min().unwrap();
        let most = counts.iter().map(|count| count.get()).max().unwrap();
        assert!(least >= 4 && most <= least + 2, "between {least} and {most} calls");
    }

    fn t10_an_eager_reader_does_not_keep_others_from_their_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let (eager, feeder) = readable_socket();
        let (other, _peer) = readable_socket();
        let served = Rc::new(Cell::new(false));
        reactor
            .watch(eager)
            .on_read(move |stream, _| {
                drain(&*stream);
                write_byte(&feeder)
            })
            .start()
            .unwrap();
        let flag = served.clone();
        reactor.watch(other).on_read(move |_, _| flag.set(true)).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 2);
        assert!(served.get());
    }

    fn t12_a_wait_of_a_fraction_of_a_millisecond_does_not_spin(backend: Backend) {
        let mut reactor = reactor(backend);
        for micros in [100, 900, 1900] {
            let before = reactor.stats().turns;
            reactor.after(Duration::from_micros(micros), |handle| handle.stop()).unwrap();
            reactor.run().unwrap();
            assert!(reactor.stats().turns <= before + 3, "{micros}: {:?}", reactor.stats());
        }
    }

    fn t17_cancelled_timers_leave_nothing_behind(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let timers: Vec<Timer> = (1..=10_000u64)
            .map(|number| {
                let data = support::NoteOnDrop(log.clone(), "freed");
                reactor.after(Duration::from_micros(3_000_000 + number), move |_| drop(data)).unwrap()
            })
            .collect();
        reactor.poll(NOW).unwrap();
        for timer in timers {
            assert!(reactor.cancel(timer));
        }
        assert_eq!(log.len(), 10_000, "freed when cancelled, not when due");
        assert_eq!((reactor.timer_count(), reactor.next_deadline()), (0, None));
        let turns = reactor.stats().turns;
        reactor.poll(Some(Duration::from_millis(3))).unwrap();
        assert!(reactor.stats().turns <= turns + 3, "no wake-up for the dead: {:?}", reactor.stats());
    }

    fn t19_a_source_is_removed_and_inserted_again_from_inside_another_callback(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let (other, _peer) = sockets();
        let other = Shared::new(other);
        let held = other.clone();
        reactor.watch_shared(&other).on_read(|_, _| ()).start().unwrap();
        let rounds = Rc::new(Cell::new(0));
        let count = rounds.clone();
        reactor
            .watch(left)
            .on_read(move |_, event| {
                assert!(event.reactor().unwatch_source(&held));
                event.reactor().watch_shared(&held).on_read(|_, _| ()).start().unwrap();
                count.set(count.get() + 1);
            })
            .start()
            .unwrap();
        for _ in 0..100 {
            assert_eq!(reactor.poll(NOW).unwrap(), 1);
        }
        assert_eq!(rounds.get(), 100);
        assert_eq!(reactor.stats().rebuilds, 0);
    }

    fn t20_a_blocking_descriptor_can_be_used_with_oneshot(backend: Backend) {
        // One read per report never blocks, whatever the other flags of the descriptor are.
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        left.set_nonblocking(false).unwrap();
        let total = Rc::new(Cell::new(0));
        let sum = total.clone();
        reactor
            .watch(left)
            .mode(Mode::Oneshot)
            .on_read(move |stream, event| {
                sum.set(sum.get() + stream.read(&mut [0; 1]).unwrap());
                event.reactor().rearm(event.watcher()).unwrap();
            })
            .start()
            .unwrap();
        for _ in 0..5 {
            write_byte(&right);
        }
        settle(&mut reactor, 10);
        assert_eq!(total.get(), 5);
    }

    fn t21_a_refused_connection_is_visible_as_an_error(backend: Backend) {
        let mut reactor = reactor(backend);
        // An address where nobody listens: bound, looked up and let go.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let _ = rustix::net::connect(&socket, &address);
        let log = Log::new();
        let (failed, ready) = (log.clone(), log.clone());
        reactor
            .watch(TcpStream::from(socket))
            .on_write(move |_, _| ready.note(None))
            .on_error(move |stream, event| {
                failed.note(stream.take_error().unwrap().map(|error| error.kind()));
                event.unwatch();
            })
            .start()
            .unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [Some(ErrorKind::ConnectionRefused)]);
    }

    fn t26_an_acceptor_without_descriptors_can_pause_and_go_on(backend: Backend) {
        // The recipe against the accept spin: interest in nothing, and a timer that takes it up
        // again.
        let (mut reactor, clock) = virtual_reactor(backend);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let log = Log::new();
        let (calls, time) = (log.clone(), clock.clone());
        reactor
            .watch(listener)
            .on_read(move |listener, event| {
                calls.note(time.elapsed());
                if calls.len() == 1 {
                    pause(event, Duration::from_secs(1));
                } else {
                    listener.accept().unwrap();
                    event.unwatch();
                }
            })
            .start()
            .unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [Duration::ZERO, Duration::from_secs(1)]);
    }

    fn origin_a_callback_that_always_changes_its_interest_starves_nobody(backend: Backend) {
        let mut reactor = reactor(backend);
        let counts: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
        let mut peers = Vec::new();
        for count in &counts {
            let (left, right) = readable_socket();
            peers.push(right);
            let count = count.clone();
            reactor
                .watch(left)
                .start_with(Interest::READ, move |_, event| {
                    count.set(count.get() + 1);
                    let interest = if count.get() % 2 == 0 {
                        Interest::READ
                    } else {
                        Interest::READ | Interest::PRIORITY
                    };
                    event.reactor().modify(event.watcher(), interest).unwrap();
                })
                .unwrap();
        }
        for _ in 0..1000 {
            assert_eq!(reactor.poll(NOW).unwrap(), 3);
        }
        assert!(counts.iter().all(|count| count.get() == 1000));
        assert_eq!(reactor.stats().stale_events, 0);
    }

    fn origin_a_timer_that_cancels_itself_and_adds_another_kills_nobody(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let own: Rc<Cell<Option<Timer>>> = Rc::default();
        let (name, calls) = (own.clone(), log.clone());
        let first = move |handle: &Handle| {
            assert!(!handle.cancel(name.get().unwrap()));
            let calls = calls.clone();
            handle.after(Duration::from_secs(1), move |_| calls.note("second")).unwrap();
        };
        own.set(Some(reactor.after(Duration::from_secs(1), first).unwrap()));
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["second"]);
        let calls = log.clone();
        let mut left = 3;
        let tick = move |tick: &mainspring_reactor::Tick<'_>| {
            left -= 1;
            if left == 0 {
                tick.reactor().cancel(tick.timer());
                let calls = calls.clone();
                tick.reactor()
                    .after(Duration::from_secs(1), move |_| calls.note("after the last tick"))
                    .unwrap();
            }
        };
        reactor.every(Duration::from_secs(1), tick).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["after the last tick"]);
    }

    fn o30_a_source_that_is_watched_anew_by_its_own_callback_starves_nobody(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let (other, _peer) = readable_socket();
        let left = Shared::new(left);
        let count = Rc::new(Cell::new(0));
        watch_for_ever(&reactor, &left, &count);
        let reads = Rc::new(Cell::new(0));
        let read = reads.clone();
        reactor.watch(other).on_read(move |_, _| read.set(read.get() + 1)).start().unwrap();
        for turn in 1..=50 {
            assert_eq!(reactor.poll(NOW).unwrap(), 2);
            assert_eq!((count.get(), reads.get()), (turn, turn));
        }
    }

    fn o34_many_loops_in_one_process_do_not_meet(backend: Backend) {
        let mut loops: Vec<Reactor> = (0..4).map(|_| reactor(backend)).collect();
        let (left, _right) = readable_socket();
        let log = Log::new();
        let sources: Vec<_> = (0..4).map(|_| Shared::new(left.try_clone().unwrap())).collect();
        for (number, (reactor, source)) in loops.iter().zip(&sources).enumerate() {
            let calls = log.clone();
            reactor.watch_shared(source).on_read(move |_, _| calls.note(number)).start().unwrap();
        }
        for reactor in &mut loops {
            assert_eq!(reactor.poll(NOW).unwrap(), 1);
        }
        assert_eq!(log.take(), [0, 1, 2, 3]);
    }
}

/// Takes no interest for a while.
fn pause(event: &Event<'_>, pause: Duration) {
    let watcher = event.watcher();
    event.reactor().modify(watcher, Interest::empty()).unwrap();
    event.reactor().after(pause, move |handle| handle.modify(watcher, Interest::READ).unwrap()).unwrap();
}

/// Watches a source, and from inside the callback again and again.
fn watch_for_ever(handle: &Handle, source: &Shared<UnixStream>, count: &Rc<Cell<u32>>) {
    let (keep, total) = (source.clone(), count.clone());
    let again = move |_: &mut Shared<UnixStream>, event: &Event<'_>| {
        total.set(total.get() + 1);
        watch_for_ever(event.reactor(), &keep, &total);
    };
    handle.watch_shared(source).on_read(again).start().unwrap();
}

/// A pseudo-terminal that passes bytes on unchanged: its two ends.
fn terminal() -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
    use std::os::fd::{FromRawFd, OwnedFd};
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: the numbers are live integers; the other arguments may be null; on success both
    // numbers are new and ours.
    unsafe {
        let made = libc::openpty(
            &mut master,
            &mut slave,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        assert_eq!(made, 0, "openpty: {}", std::io::Error::last_os_error());
        let mut settings: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(slave, &mut settings), 0);
        libc::cfmakeraw(&mut settings);
        assert_eq!(libc::tcsetattr(slave, libc::TCSANOW, &settings), 0);
        (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}
