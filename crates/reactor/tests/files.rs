//! Descriptors that the kernel will not wait for: regular files, /dev/null, directories.

mod support;

use mainspring_reactor::{Backend, Interest, Mode, Readiness};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::time::Duration;
use support::callbacks::{draining, noting};
use support::descriptors::{ReservedNumber, readable_socket, sockets, write_byte};
use support::stale::leave_registration;
use support::{Log, NOW, TEST_TIMEOUT, on_each_backend, reactor, settle, virtual_reactor};

/// A regular file that has something to read: the program itself.
fn regular_file() -> File {
    File::open(std::env::current_exe().unwrap()).unwrap()
}

fn dev_null() -> File {
    OpenOptions::new().read(true).write(true).open("/dev/null").unwrap()
}

on_each_backend! {
    fn m1_1_4_a_file_closed_behind_our_back_calls_nobody(backend: Backend) {
        let mut reactor = reactor(backend);
        let number = ReservedNumber::new();
        number.open(regular_file());
        let log = Log::new();
        let watcher = reactor.watch_raw(number.0, ()).on_read(noting(&log, "read")).start().unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        number.close();
        assert_eq!(settle(&mut reactor, 3), 0);
        assert_eq!(log.take(), ["read"]);
        let turns = reactor.stats().turns;
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(reactor.stats().turns <= turns + 3, "and the loop rests: {:?}", reactor.stats());
        assert!(reactor.unwatch(watcher));
    }

    fn h13_a_regular_file_is_always_readable(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        reactor
            .watch(regular_file())
            .on_read(move |file, event| {
                calls.note(file.read(&mut [0; 4]).unwrap());
                if calls.len() == 3 {
                    event.unwatch();
                }
            })
            .start()
            .unwrap();
        assert_eq!(reactor.watcher_count(), 1);
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [4, 4, 4]);
    }

    fn h13_dev_null_is_readable_and_writable(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let interest = Interest::READ | Interest::WRITE;
        reactor
            .watch(dev_null())
            .start_with(interest, move |_, event| calls.note(event.readiness()))
            .unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.take(), [Readiness::READ | Readiness::WRITE]);
    }

    fn h13_interest_is_obeyed_and_can_be_changed(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (read, write) = (log.clone(), log.clone());
        let watch = reactor.watch(dev_null()).on_read(move |_, _| read.note("read"));
        let watcher = watch.on_write(move |_, _| write.note("write")).start().unwrap();
        let expected: [(Interest, &[&str]); 4] = [
            (Interest::READ, &["read"]),
            (Interest::empty(), &[]),
            (Interest::WRITE, &["write"]),
            (Interest::READ | Interest::WRITE, &["read", "write"]),
        ];
        for (interest, calls) in expected {
            reactor.modify(watcher, interest).unwrap();
            reactor.poll(NOW).unwrap();
            assert_eq!(log.take(), calls, "{interest:?}");
        }
        assert!(reactor.unwatch(watcher));
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        assert_eq!(reactor.watcher_count(), 0);
    }

    fn h13_a_file_with_nothing_but_error_interest_keeps_nobody_awake(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.watch(dev_null()).on_error(|_, _| panic!("no error")).start().unwrap();
        assert_eq!(reactor.poll(Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(reactor.stats().turns <= 4, "{:?}", reactor.stats());
    }

    fn h13_oneshot_holds_for_files_too(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let watch = reactor.watch(regular_file()).mode(Mode::Oneshot);
        let watcher = watch.on_read(move |_, _| calls.note(())).start().unwrap();
        assert_eq!(settle(&mut reactor, 3), 1);
        reactor.rearm(watcher).unwrap();
        assert_eq!(settle(&mut reactor, 3), 1);
        reactor.run_until_idle().unwrap();
    }

    fn h13_files_share_the_loop_with_sockets_and_timers(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        reactor.watch(regular_file()).on_read(move |_, _| calls.note("file")).start().unwrap();
        let (left, right) = sockets();
        reactor.watch(left).on_read(draining(&log, "socket")).start().unwrap();
        let calls = log.clone();
        reactor.after(Duration::ZERO, move |_| calls.note("timer")).unwrap();
        write_byte(&right);
        assert_eq!(reactor.poll(NOW).unwrap(), 3);
        let mut all = log.take();
        all.sort_unstable();
        assert_eq!(all, ["file", "socket", "timer"]);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1, "the file alone keeps the loop turning");
    }

    fn h13_a_number_that_was_a_file_and_is_now_a_socket_is_watched_as_a_socket(backend: Backend) {
        let mut reactor = reactor(backend);
        let number = ReservedNumber::new();
        number.open(regular_file());
        reactor.watch_raw(number.0, ()).on_read(|(), _| panic!("replaced")).start().unwrap();
        let (left, _right) = sockets();
        let (ready, _peer) = readable_socket();
        number.open(&left);
        let watcher = reactor.watch_raw(number.0, ()).on_read(|(), _| ()).start().unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "a socket without data is not ready");
        number.open(&ready);
        reactor.modify(watcher, Interest::READ).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        number.open(regular_file());
        reactor.modify(watcher, Interest::READ).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1, "and the other way round");
        reactor.unwatch(watcher);
        number.close();
    }

    fn h13_a_directory_is_treated_as_a_file(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.watch(File::open("/").unwrap()).on_read(|_, _| ()).start().unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn h13_files_are_not_starved_by_more_busy_descriptors_than_a_turn_takes() {
    use std::cell::Cell;
    use std::rc::Rc;
    let _alone = support::descriptors::many_descriptors();
    let mut reactor = reactor(Backend::Epoll);
    for _ in 0..2000 {
        reactor.watch(support::descriptors::always_readable()).on_read(|_, _| ()).start().unwrap();
    }
    let counts: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
    for count in &counts {
        let count = count.clone();
        reactor.watch(regular_file()).on_read(move |_, _| count.set(count.get() + 1)).start().unwrap();
    }
    for _ in 0..10 {
        assert!(reactor.poll(TEST_TIMEOUT).unwrap() <= 1024 + counts.len());
    }
    assert!(counts.iter().all(|count| count.get() >= 3), "{counts:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn h13_more_files_than_a_turn_takes_are_served_in_rotation() {
    use std::cell::Cell;
    use std::rc::Rc;
    let _alone = support::descriptors::many_descriptors();
    let mut reactor = reactor(Backend::Epoll);
    let counts: Vec<Rc<Cell<u32>>> = (0..600).map(|_| Rc::default()).collect();
    for count in &counts {
        let count = count.clone();
        reactor.watch(dev_null()).on_read(move |_, _| count.set(count.get() + 1)).start().unwrap();
    }
    for _ in 0..12 {
        reactor.poll(TEST_TIMEOUT).unwrap();
    }
    let least = counts.iter().map(|count| count.get()).min().unwrap();
    let most = counts.iter().map(|count| count.get()).max().unwrap();
    assert!(least >= 4 && most <= least + 1, "between {least} and {most} calls");
}

#[cfg(target_os = "linux")]
#[test]
fn m1_1_3_what_takes_the_number_of_a_closed_file_is_not_reported_to_its_watch() {
    let mut reactor = reactor(Backend::Epoll);
    let (socket, _peer) = readable_socket();
    for mode in support::modes(Backend::Epoll) {
        for reused_by_file in [false, true] {
            let number = ReservedNumber::new();
            number.open(regular_file());
            let watch = reactor.watch_raw(number.0, ()).mode(*mode);
            let watcher = watch.on_read(|(), _| panic!("not its source")).start().unwrap();
            if reused_by_file {
                number.open(dev_null());
            } else {
                number.open(&socket);
            }
            assert_eq!(settle(&mut reactor, 3), 0, "{mode:?}");
            let log = Log::new();
            let again = reactor.watch_raw(number.0, ()).on_read(noting(&log, "read")).start().unwrap();
            assert_eq!(reactor.poll(NOW).unwrap(), 1, "a watch of its own reports it");
            assert!(!reactor.is_watching(watcher) && reactor.unwatch(again));
            number.close();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn r1_a_rebuild_gives_the_number_of_a_closed_file_to_nobody() {
    // Edge-triggered and reported already, so that only the rebuild looks at the number again.
    let mut reactor = reactor(Backend::Epoll);
    let (socket, _peer) = readable_socket();
    let (log, number) = (Log::new(), ReservedNumber::new());
    number.open(regular_file());
    let watch = reactor.watch_raw(number.0, ()).mode(Mode::Edge);
    let watcher = watch.on_read(noting(&log, "read")).start().unwrap();
    assert_eq!(settle(&mut reactor, 3), 1);
    number.open(&socket);
    let _stale = leave_registration(&mut reactor);
    assert_eq!(settle(&mut reactor, 3), 0);
    assert!(!reactor.is_watching(watcher), "what it watched is gone, so it is gone");
    number.close();
}

#[cfg(target_os = "linux")]
#[test]
fn h13_an_edge_triggered_file_is_reported_once() {
    let mut reactor = reactor(Backend::Epoll);
    let log = Log::new();
    let calls = log.clone();
    reactor.watch(regular_file()).mode(Mode::Edge).on_read(move |_, _| calls.note(())).start().unwrap();
    assert_eq!(settle(&mut reactor, 3), 1);
}
