//! A peer that hangs up, closes, or closes its half: clause M1.2.4.

mod support;

use mainspring_reactor::{Interest, Readiness};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;
use support::callbacks::noting;
use support::descriptors::{pipe, sockets};
use support::{Log, NOW, modes, on_each_backend, reactor};

on_each_backend! {
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
        let mut expected = Readiness::READ | Readiness::WRITE;
        // Elsewhere poll(2) does not tell a half close from bytes: the next read finds it.
        expected.set(Readiness::READ_CLOSED, cfg!(target_os = "linux"));
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

    fn o29_a_closed_or_shut_down_peer_wakes_every_mode(backend: Backend) {
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
}
