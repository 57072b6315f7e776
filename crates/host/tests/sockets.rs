//! `mainspring:sockets`: what components that wake themselves can rely on. The guest is
//! `guests/rust/wasi-socket`, which does what it is told.
#![cfg(feature = "wasi")]

mod guest_modules;
mod support;

use guest_modules::{Player, configuration, module};
use mainspring_host::{Component, Exit, GuestConfig, GuestPhase, Host, HostConfig, Limit, SocketWait};
use mainspring_reactor::Handle;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use support::{run, run_virtually};

/// So long that only what is waited for can end it.
const LONG: Duration = Duration::from_secs(600);

/// The default, where a slow machine cannot be taken for a busy guest.
fn steady() -> SocketWait {
    SocketWait { busy: LONG, spare_calls: 0, ..SocketWait::default() }
}

/// Waits that only news can end.
fn patient() -> SocketWait {
    SocketWait { first: LONG, longest: LONG, ..steady() }
}

/// The guest, compiled once for each setting of the host.
fn compiled(wait: SocketWait) -> Option<(Host, Component)> {
    static COMPILED: Mutex<Vec<(SocketWait, Host, Component)>> = Mutex::new(Vec::new());
    let bytes = module("wasi-socket.component")?;
    let mut known = COMPILED.lock().unwrap();
    if let Some((_, host, component)) = known.iter().find(|(setting, ..)| *setting == wait) {
        return Some((host.clone(), component.clone()));
    }
    let mut config = HostConfig::new();
    config.guests_max = 64;
    config.socket_wait = wait;
    let host = config.build().unwrap();
    let component = host.compile_component(&bytes).unwrap();
    known.push((wait, host.clone(), component.clone()));
    Some((host, component))
}

/// A guest that does what it is told.
struct Guest(Player);

impl Guest {
    fn start(handle: &Handle, wait: SocketWait) -> Option<Guest> {
        Guest::start_with(handle, wait, |config| {
            config.network.allow_connect("loopback").unwrap();
        })
    }

    fn start_with(handle: &Handle, wait: SocketWait, adjust: impl FnOnce(&mut GuestConfig)) -> Option<Guest> {
        let (host, component) = compiled(wait)?;
        let (config, ends) = configuration("socket", &[], adjust);
        let guest = host.spawn_component(handle, &component, config).unwrap();
        Some(Guest(ends.player(guest, handle.clone())))
    }

    async fn order(&self, line: &str) {
        assert!(self.0.stdin.as_ref().unwrap().write_all(format!("{line}\n").as_bytes()).await);
    }

    async fn ask(&self, line: &str) -> String {
        self.order(line).await;
        self.0.line().await
    }

    /// Connects the guest to the test: its handle, and the other end.
    async fn connect(&self) -> (u64, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = self.ask(&format!("connect 127.0.0.1 {port}")).await;
        let handle = answer.strip_prefix("connected ").unwrap_or_else(|| panic!("{answer}"));
        (handle.parse().unwrap(), listener.accept().unwrap().0)
    }

    /// Waits until the guest is suspended in the call that it was ordered to make: it has read its
    /// order, and has said nothing.
    async fn suspended(&self) {
        let before = self.0.guest.stats().wakeups;
        while self.0.guest.stats().phase != GuestPhase::Waiting || self.0.guest.stats().wakeups == before {
            self.0.handle.sleep(Duration::from_millis(1)).await.unwrap();
        }
    }
}

/// Closes a connection so that its peer is told of an error.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn c1_1_bytes_go_both_ways_and_numbers_are_not_used_again() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (first, mut peer) = guest.connect().await;
        assert_eq!(guest.ask(&format!("write {first} hello")).await, "written 5");
        let mut text = [0; 5];
        peer.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        peer.write_all(b"answer").unwrap();
        assert_eq!(guest.ask(&format!("read {first} 100")).await, "data answer");
        assert_eq!(guest.ask(&format!("close {first}")).await, "closed");
        let (second, _peer) = guest.connect().await;
        assert_eq!((first, second), (1, 2));
        let stats = guest.0.guest.stats();
        assert!(stats.bytes_read >= 6 && stats.bytes_written >= 5, "{stats:?}");
    });
}

#[test]
fn c1_2_failures_have_a_category_a_code_and_words() {
    run(async |handle| {
        let started = Guest::start_with(&handle, steady(), |config| {
            config.network.allow_connect("127.0.0.1:*").unwrap();
            config.network.allow_connect("*.invalid:*").unwrap();
        });
        let Some(guest) = started else { return };
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for (line, answer) in [
            ("connect 192.0.2.1 5432".into(), "Permission NETWORK_DENIED: "),
            ("connect db.example.com 5432".into(), "Permission NETWORK_DENIED: "),
            ("connect db.invalid 5432".into(), "TransientNetwork DNS_RESOLUTION_FAILED: "),
            (format!("connect 127.0.0.1 {unused}"), "TransientNetwork TCP_CONNECT_FAILED: "),
            ("connect 127.0.0.1 0".into(), "TransientNetwork TCP_CONNECT_FAILED: "),
            (format!("connect {} 5432", "x".repeat(60_000)), "TransientNetwork TCP_CONNECT_FAILED: "),
            ("read 7 10".into(), "Internal INVALID_SOCKET: "),
            ("write 7 x".into(), "Internal INVALID_SOCKET: "),
            ("poll 7 read 0".into(), "Internal INVALID_SOCKET: "),
            ("subscribe 7".into(), "Internal INVALID_SOCKET: "),
            ("close 7".into(), "closed"),
        ] {
            let said = guest.ask(&line).await;
            assert!(said.starts_with(answer), "{line}: {said}");
        }
        let refused = guest.ask(&format!("connect 127.0.0.1 {unused}")).await;
        assert!(refused.contains("refused"), "the system's own words: {refused}");
        assert_eq!(guest.0.guest.stats().refused(Limit::Network), 2);
    });
}

#[test]
fn c1_3_a_read_returns_at_least_one_byte_and_at_most_64_kib() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, patient()) else { return };
        let (socket, mut peer) = guest.connect().await;
        peer.write_all(&[b'x'; 100_000]).unwrap();
        assert_eq!(guest.ask(&format!("read {socket} 0")).await, "data x");
        let mut total = 1;
        while total < 100_000 {
            let answer = guest.ask(&format!("read {socket} 10000000")).await;
            let length = answer.len() - "data ".len();
            assert!((1..=65_536).contains(&length), "{length}");
            total += length;
        }
        assert_eq!(total, 100_000);
    });
}

#[test]
fn c1_4_the_end_comes_after_everything_before_it_and_a_real_error_is_passed_on() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, patient()) else { return };
        let (socket, mut peer) = guest.connect().await;
        peer.write_all(b"last").unwrap();
        drop(peer);
        assert_eq!(guest.ask(&format!("read {socket} 100")).await, "data last");
        assert_eq!(guest.ask(&format!("read {socket} 100")).await, "eof");
        assert_eq!(guest.ask(&format!("read {socket} 100")).await, "eof");
        let (socket, peer) = guest.connect().await;
        reset(peer);
        let read = guest.ask(&format!("read {socket} 100")).await;
        assert!(
            read.starts_with("TransientNetwork SOCKET_READ_FAILED: ") && read.contains("reset"),
            "{read}"
        );
        let written = guest.ask(&format!("write {socket} x")).await;
        assert!(written.starts_with("TransientNetwork SOCKET_WRITE_FAILED: "), "{written}");
    });
}

#[test]
fn c1_5_sockets_are_handles_limited_counted_and_closed_at_the_end() {
    run(async |handle| {
        let started = Guest::start_with(&handle, steady(), |config| {
            config.network.allow_connect("loopback").unwrap();
            config.limits.handles = 4;
        });
        let Some(mut guest) = started else { return };
        let (_, mut peer) = guest.connect().await;
        assert_eq!(guest.0.guest.stats().handles, 4);
        let refused = guest.ask("connect 127.0.0.1 1").await;
        assert!(refused.starts_with("Internal SOCKET_CONFIG: "), "{refused}");
        assert_eq!(guest.0.guest.stats().refused(Limit::Handles), 1);
        assert_eq!(guest.0.finish().await.0, Exit::Returned(0));
        assert_eq!(peer.read(&mut [0; 10]).unwrap(), 0, "closed");
    });
}

#[test]
fn c1_5_a_lookup_too_many_is_socket_config() {
    run(async |handle| {
        let started = Guest::start_with(&handle, steady(), |config| {
            config.network.allow_connect("*.invalid:*").unwrap();
            config.limits.lookups = 0;
        });
        let Some(guest) = started else { return };
        let refused = guest.ask("connect db.invalid 5432").await;
        assert!(refused.starts_with("Internal SOCKET_CONFIG: "), "{refused}");
        assert_eq!(guest.0.guest.stats().refused(Limit::Lookups), 1);
    });
}

#[test]
fn c1_6_an_address_that_does_not_answer_is_given_up_after_10_s() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        // A listener that accepts nothing and has no room for more: the system does not answer who
        // connects to it.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let _waiting: Vec<OwnedFd> = (0..8)
            .map(|_| {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
                let _ = rustix::net::connect(&socket, &address);
                socket
            })
            .collect();
        let start = handle.now();
        let answer = guest.ask(&format!("connect 127.0.0.1 {}", address.port())).await;
        assert!(answer.starts_with("TransientNetwork TCP_CONNECT_FAILED: "), "{answer}");
        assert!(answer.contains("no answer within 10 s"), "{answer}");
        assert_eq!(handle.now().saturating_duration_since(start).as_secs(), 10);
    });
}

#[test]
fn c2_1_data_that_comes_during_the_wait_is_returned_by_the_call_that_waited() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, patient()) else { return };
        let (socket, mut peer) = guest.connect().await;
        guest.order(&format!("read {socket} 100")).await;
        guest.suspended().await;
        peer.write_all(b"late").unwrap();
        assert_eq!(guest.0.line().await, "data late");
        assert_eq!(guest.0.guest.stats().agains, 0, "the guest was never told to come back");
    });
}

#[test]
fn c2_2_room_that_comes_during_the_wait_is_used_by_the_call_that_waited() {
    // More than the buffers of both ends hold.
    const BYTES: usize = 64 << 20;
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, patient()) else { return };
        let (socket, mut peer) = guest.connect().await;
        guest.order(&format!("fill {socket} {BYTES}")).await;
        guest.suspended().await;
        let reading = guest.0.elsewhere(move || {
            let mut bytes = vec![0; BYTES];
            peer.read_exact(&mut bytes).unwrap();
            peer
        });
        assert_eq!(guest.0.line().await, format!("filled {BYTES}"));
        assert_eq!(guest.0.guest.stats().agains, 0, "the guest was never told to come back");
        let _peer = reading.await;
    });
}

#[test]
fn c2_3_the_wait_grows_from_1_to_10_ms_and_is_never_short() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (socket, _peer) = guest.connect().await;
        let start = handle.now();
        assert_eq!(guest.ask(&format!("reads {socket} 10")).await, "would-block after 10 calls");
        // 1, 2, 4, 8 and six times 10.
        assert_eq!(handle.now().saturating_duration_since(start).as_millis(), 75);
    });
}

/// The calls that a guest makes in a second of waiting while it works so many steps between them,
/// with the settings that are shipped.
async fn calls_per_second(handle: &Handle, steps: u64) -> Option<f64> {
    const CALLS: u64 = 1000;
    let guest = Guest::start(handle, SocketWait::default())?;
    let (socket, _peer) = guest.connect().await;
    let (start, before) = (handle.now(), guest.0.guest.stats().agains);
    let answer = guest.ask(&format!("work-reads {socket} {CALLS} {steps}")).await;
    assert_eq!(answer, format!("would-block after {CALLS} calls"));
    assert_eq!(guest.0.guest.stats().agains - before, CALLS);
    Some(CALLS as f64 / handle.now().saturating_duration_since(start).as_secs_f64())
}

#[test]
fn c2_3_an_idle_guest_makes_about_a_hundred_calls_a_second() {
    run_virtually(async |handle, _| {
        let Some(calls) = calls_per_second(&handle, 0).await else { return };
        assert!(calls < 150.0, "{calls} calls a second");
    });
}

#[test]
fn c2_5_a_guest_that_computes_and_moves_no_byte_makes_at_most_a_thousand_calls_a_second() {
    run_virtually(async |handle, _| {
        // Time is virtual, so that what the guest computes takes none: this is what its waits alone
        // hold it to.
        for steps in [100_000, 200_000, 400_000, 1_000_000, 3_000_000] {
            let Some(calls) = calls_per_second(&handle, steps).await else { return };
            assert!(calls < 1100.0, "{calls} calls a second with {steps} steps between them");
        }
    });
}

#[test]
fn c2_4_bytes_that_move_start_the_wait_anew() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (socket, mut peer) = guest.connect().await;
        guest.ask(&format!("reads {socket} 10")).await;
        peer.write_all(b"x").unwrap();
        assert_eq!(guest.ask(&format!("read {socket} 100")).await, "data x");
        let start = handle.now();
        assert_eq!(guest.ask(&format!("read {socket} 100")).await, "would-block");
        assert_eq!(handle.now().saturating_duration_since(start).as_millis(), 1);
    });
}

#[test]
fn c2_5_a_guest_with_other_work_is_not_held_back() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, SocketWait::default()) else { return };
        let (socket, _peer) = guest.connect().await;
        let start = handle.now();
        assert_eq!(guest.ask(&format!("work-reads {socket} 20 1000000")).await, "would-block after 20 calls");
        // Before its first call it may have worked or not: nobody knows.
        assert!(handle.now().saturating_duration_since(start).as_millis() <= 1);
    });
}

#[test]
fn c2_6_the_wait_ends_when_any_socket_of_the_guest_is_ready() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, patient()) else { return };
        let ((idle, _idle_peer), (busy, mut peer)) = (guest.connect().await, guest.connect().await);
        guest.order(&format!("read {idle} 100")).await;
        guest.suspended().await;
        peer.write_all(b"here").unwrap();
        assert_eq!(guest.0.line().await, "would-block");
        assert_eq!(guest.ask(&format!("read {busy} 100")).await, "data here");
    });
}

#[test]
fn c2_6_room_on_another_socket_that_the_guest_was_told_to_wait_for_ends_the_wait() {
    run(async |handle| {
        // The first call on each socket is told at once that it would block, the second waits until
        // there is news.
        let wait = SocketWait { spare_calls: 1, ..patient() };
        let Some(guest) = Guest::start(&handle, wait) else { return };
        let ((idle, _idle_peer), (full, peer)) = (guest.connect().await, guest.connect().await);
        let text = "x".repeat(30_000);
        while guest.ask(&format!("write {full} {text}")).await != "would-block" {}
        assert_eq!(guest.ask(&format!("read {idle} 100")).await, "would-block");
        guest.order(&format!("read {idle} 100")).await;
        guest.suspended().await;
        let reading = guest.0.elsewhere(move || {
            // Until nothing has come for a while: all of it has been read.
            peer.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut peer = peer;
            while peer.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {}
            peer
        });
        assert_eq!(guest.0.line().await, "would-block");
        let _peer = reading.await;
        let written = guest.ask(&format!("write {full} x")).await;
        assert_eq!(written, "written 1");
    });
}

#[test]
fn c2_7_no_wait_is_entered_while_data_is_there_that_the_guest_has_not_looked_at() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let ((idle, _idle_peer), (busy, mut peer)) = (guest.connect().await, guest.connect().await);
        peer.write_all(b"here").unwrap();
        let start = handle.now();
        assert_eq!(guest.ask(&format!("read {idle} 100")).await, "would-block");
        assert_eq!(handle.now(), start);
        assert_eq!(guest.ask(&format!("read {busy} 100")).await, "data here");
    });
}

#[test]
fn c2_8_data_that_the_guest_does_not_want_does_not_keep_it_awake() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let ((idle, _idle_peer), (_ignored, mut peer)) = (guest.connect().await, guest.connect().await);
        peer.write_all(b"ignored").unwrap();
        let start = handle.now();
        guest.ask(&format!("reads {idle} 103")).await;
        assert!(
            handle.now().saturating_duration_since(start).as_millis() >= 985,
            "one look is offered, not a hundred"
        );
    });
}

#[test]
fn c2_9_waiting_suspends_that_guest_alone() {
    run(async |handle| {
        let Some(waiting) = Guest::start(&handle, patient()) else { return };
        let Some(neighbour) = Guest::start(&handle, patient()) else { return };
        let (socket, _peer) = waiting.connect().await;
        waiting.order(&format!("read {socket} 100")).await;
        waiting.suspended().await;
        let before = waiting.0.guest.stats();
        let (socket, mut peer) = neighbour.connect().await;
        for _ in 0..100 {
            peer.write_all(b"x").unwrap();
            assert_eq!(neighbour.ask(&format!("read {socket} 100")).await, "data x");
        }
        assert_eq!(waiting.0.guest.stats(), before, "and costs nothing meanwhile");
        waiting.0.guest.kill();
        assert_eq!(waiting.0.guest.exit().await, Exit::Killed);
    });
}

#[test]
fn c2_10_a_hang_up_and_an_error_end_the_wait_and_show_as_what_they_are() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, patient()) else { return };
        let (socket, peer) = guest.connect().await;
        guest.order(&format!("read {socket} 100")).await;
        guest.suspended().await;
        drop(peer);
        assert_eq!(guest.0.line().await, "eof");
        let (socket, peer) = guest.connect().await;
        guest.order(&format!("read {socket} 100")).await;
        guest.suspended().await;
        reset(peer);
        let answer = guest.0.line().await;
        assert!(answer.contains("SOCKET_READ_FAILED"), "{answer}");
        let (socket, mut peer) = guest.connect().await;
        peer.write_all(b"x").unwrap();
        assert_eq!(
            guest.ask(&format!("read {socket} 100")).await,
            "data x",
            "a dead neighbour is no news for ever"
        );
    });
}

#[test]
fn c2_11_without_a_wait_a_call_that_would_block_returns_at_once() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, "0".parse().unwrap()) else { return };
        let (socket, _peer) = guest.connect().await;
        let start = handle.now();
        assert_eq!(guest.ask(&format!("reads {socket} 1000")).await, "would-block after 1000 calls");
        assert_eq!(handle.now(), start);
    });
}

#[test]
fn c2_12_a_few_calls_after_progress_are_not_made_to_wait() {
    run_virtually(async |handle, _| {
        let wait = SocketWait { busy: LONG, ..SocketWait::default() };
        let Some(guest) = Guest::start(&handle, wait) else { return };
        let ((one, _one_peer), (other, mut peer)) = (guest.connect().await, guest.connect().await);
        for _ in 0..2 {
            let start = handle.now();
            for socket in [one, other] {
                assert_eq!(guest.ask(&format!("reads {socket} 4")).await, "would-block after 4 calls");
            }
            assert_eq!(handle.now(), start);
            assert_eq!(guest.ask(&format!("read {one} 100")).await, "would-block");
            assert_eq!(handle.now().saturating_duration_since(start).as_millis(), 1);
            peer.write_all(b"x").unwrap();
            assert_eq!(guest.ask(&format!("read {other} 100")).await, "data x");
        }
    });
}

#[test]
fn c2_13_the_wait_of_a_process_is_read_from_its_environment() {
    const CHILD: &str = "MAINSPRING_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let wait = SocketWait {
            first: Duration::from_millis(3),
            longest: Duration::from_millis(7),
            ..SocketWait::default()
        };
        assert_eq!(HostConfig::new().socket_wait, wait);
        return;
    }
    // It is read once in the life of a process, so this takes one of its own.
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "c2_13_the_wait_of_a_process_is_read_from_its_environment"]);
    let output = child.env(CHILD, "1").env("MAINSPRING_SOCKET_WAIT_MS", "3-7").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn c2_14_a_guest_that_only_ever_waits_for_answers_is_made_to_wait_at_once() {
    run_virtually(async |handle, _| {
        let wait = SocketWait { busy: LONG, ..SocketWait::default() };
        let Some(guest) = Guest::start(&handle, wait) else { return };
        let (socket, mut peer) = guest.connect().await;
        let waited = async |order: &str| {
            let start = handle.now();
            assert_eq!(guest.ask(order).await, "would-block");
            handle.now() > start
        };
        let (mut after_read, mut after_write) = (0, 0);
        for _ in 0..48 {
            after_read += u32::from(waited(&format!("read {socket} 100")).await);
            assert_eq!(guest.ask(&format!("write {socket} question")).await, "written 8");
            after_write += u32::from(waited(&format!("read {socket} 100")).await);
            peer.write_all(b"answer").unwrap();
            assert_eq!(guest.ask(&format!("read {socket} 100")).await, "data answer");
        }
        assert_eq!(after_read, 0, "the next question is not held up");
        assert_eq!(after_write, 31, "all but the first 16 and one that was tried again");
    });
}

#[test]
fn c2_15_a_timer_that_the_guest_keeps_by_itself_is_late_by_at_most_10_ms() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, SocketWait::default()) else { return };
        let (socket, _peer) = guest.connect().await;
        guest.ask(&format!("reads {socket} 200")).await;
        for _ in 0..200 {
            let start = handle.now();
            assert_eq!(guest.ask(&format!("read {socket} 100")).await, "would-block");
            let held_up = handle.now().saturating_duration_since(start);
            assert!(held_up <= Duration::from_millis(10), "a call held the guest up for {held_up:?}");
        }
    });
}

#[test]
fn c3_1_poll_socket_says_ready_when_data_is_available() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (socket, mut peer) = guest.connect().await;
        peer.write_all(b"hello").unwrap();
        assert_eq!(guest.ask(&format!("poll {socket} read 600000")).await, "ready");
        assert_eq!(guest.ask(&format!("read {socket} 100")).await, "data hello");
        guest.order(&format!("poll {socket} read 4294967295")).await;
        guest.suspended().await;
        peer.write_all(b"again").unwrap();
        assert_eq!(guest.0.line().await, "ready");
    });
}

#[test]
fn c3_2_poll_socket_says_not_ready_at_its_timeout_and_never_early() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (socket, _peer) = guest.connect().await;
        for timeout_ms in [1, 1000, 3_600_000] {
            let start = handle.now();
            assert_eq!(guest.ask(&format!("poll {socket} read {timeout_ms}")).await, "not ready");
            assert_eq!(handle.now().saturating_duration_since(start).as_millis(), timeout_ms);
        }
    });
}

#[test]
fn c3_3_poll_socket_says_that_a_connected_socket_is_writable() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (socket, _peer) = guest.connect().await;
        assert_eq!(guest.ask(&format!("poll {socket} write 600000")).await, "ready");
    });
}

#[test]
fn c3_4_poll_socket_says_ready_when_the_peer_has_closed() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (socket, peer) = guest.connect().await;
        drop(peer);
        assert_eq!(guest.ask(&format!("poll {socket} read 600000")).await, "ready");
        assert_eq!(guest.ask(&format!("read {socket} 100")).await, "eof");
        let (socket, peer) = guest.connect().await;
        guest.order(&format!("poll {socket} read 600000")).await;
        guest.suspended().await;
        reset(peer);
        assert_eq!(guest.0.line().await, "ready");
    });
}

#[test]
fn c3_5_poll_socket_ends_early_when_another_socket_has_news() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let ((one, _one_peer), (other, mut peer)) = (guest.connect().await, guest.connect().await);
        guest.order(&format!("poll {one} read 4294967295")).await;
        guest.suspended().await;
        peer.write_all(b"here").unwrap();
        assert_eq!(guest.0.line().await, "not ready");
        assert_eq!(guest.ask(&format!("read {other} 100")).await, "data here");
    });
}

#[test]
fn c3_6_a_guest_that_polls_is_not_made_to_wait_elsewhere() {
    run_virtually(async |handle, _| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (socket, _peer) = guest.connect().await;
        assert_eq!(guest.ask(&format!("poll {socket} read 0")).await, "not ready");
        let start = handle.now();
        assert_eq!(guest.ask(&format!("reads {socket} 100")).await, "would-block after 100 calls");
        assert_eq!(handle.now(), start);
    });
}

#[test]
fn c3_7_what_became_ready_while_a_call_waited_is_still_news_to_the_first_poll() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, patient()) else { return };
        let ((one, _one_peer), (other, mut peer)) = (guest.connect().await, guest.connect().await);
        guest.order(&format!("read {one} 100")).await;
        guest.suspended().await;
        peer.write_all(b"here").unwrap();
        assert_eq!(guest.0.line().await, "would-block");
        assert_eq!(guest.ask(&format!("poll {one} read 4294967295")).await, "not ready");
        assert_eq!(guest.ask(&format!("read {other} 100")).await, "data here");
    });
}

#[test]
fn c4_1_wasi_poll_waits_for_several_sockets_and_says_which_are_ready() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let ((one, _one_peer), (other, mut peer)) = (guest.connect().await, guest.connect().await);
        guest.order(&format!("subscribe {one} {other}")).await;
        guest.suspended().await;
        let before = guest.0.guest.stats();
        handle.sleep(Duration::from_millis(20)).await.unwrap();
        assert_eq!(guest.0.guest.stats(), before, "it costs nothing while it waits");
        peer.write_all(b"here").unwrap();
        assert_eq!(guest.0.line().await, "ready 1");
        assert_eq!(guest.ask(&format!("read {other} 100")).await, "data here");
        assert_eq!(guest.ask(&format!("read {one} 100")).await, "would-block");
    });
}

#[test]
fn p1_5_a_component_gets_as_much_randomness_at_once_as_the_host_may_hold_for_it() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        assert_eq!(guest.ask("random 1048576").await, "random 0 true");
        guest.order("random 1048577").await;
        let Exit::Trapped(report) = guest.0.guest.exit().await else { panic!("it trapped") };
        assert!(report.message.contains("exceeds limit 1048576"), "{report}");
    });
}

#[test]
fn p1_3_a_component_that_only_waits_is_never_preempted() {
    run(async |handle| {
        let Some(guest) = Guest::start(&handle, steady()) else { return };
        let (host, _) = compiled(steady()).unwrap();
        let (socket, _peer) = guest.connect().await;
        let spinner = wat::parse_str(r#"(module (func (export "_start") (loop $spin (br $spin))))"#).unwrap();
        let spinning = host.spawn(&handle, &host.compile(&spinner).unwrap(), GuestConfig::new()).unwrap();
        let before = guest.0.guest.stats().preemptions;
        for _ in 0..20 {
            assert_eq!(guest.ask(&format!("read {socket} 100")).await, "would-block");
            assert_eq!(guest.ask(&format!("poll {socket} read 1")).await, "not ready");
        }
        spinning.kill();
        spinning.exit().await;
        assert!(spinning.stats().preemptions > 0, "the clock of slices went on all the time");
        assert_eq!(guest.0.guest.stats().preemptions, before, "it waited and did not run");
    });
}
