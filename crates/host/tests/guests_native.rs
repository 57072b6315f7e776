//! Real guests, in Rust and in C, on the bare ABI.

mod guest_modules;

use guest_modules::{Stage, module};
use mainspring_host::{Exit, Limit};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

/// Sends some text and returns all that comes back.
fn talk(port: u16, text: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(text).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Writes and reads at the same time, so that both directions fill up.
fn talk_at_length(port: u16, bytes: usize) -> usize {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        writer.write_all(&vec![7; bytes]).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    writing.join().unwrap();
    answer.len()
}

fn an_echo_server_answers_everyone_without_a_wasted_poll(name: &str) {
    let Some(module) = module(name) else { return };
    let mut stage = Stage::new();
    let player = stage.start(name, &module, &[], |config| {
        config.network.allow_listen("127.0.0.1:*").unwrap();
    });
    stage.run(async {
        let port = player.port().await;
        for _ in 0..20 {
            assert_eq!(player.elsewhere(move || talk(port, b"hello")).await, b"hello");
        }
        assert_eq!(player.elsewhere(move || talk_at_length(port, 4 << 20)).await, 4 << 20);
        let many = (0..10).map(|_| player.elsewhere(move || talk_at_length(port, 1 << 16)));
        for answer in many.collect::<Vec<_>>() {
            assert_eq!(answer.await, 1 << 16);
        }
    });
    let stats = player.guest.stats();
    assert_eq!((stats.zero_timeout_polls, stats.empty_polls), (0, 0), "{stats:?}");
    // The last poll is still waiting.
    assert!(stats.polls <= stats.events + 1, "{stats:?}");
}

#[test]
fn an_echo_server_in_rust_answers_everyone_without_a_wasted_poll() {
    an_echo_server_answers_everyone_without_a_wasted_poll("echo");
}

#[test]
fn an_echo_server_in_c_answers_everyone_without_a_wasted_poll() {
    an_echo_server_answers_everyone_without_a_wasted_poll("c-echo");
}

#[test]
fn a_client_connects_sends_half_closes_and_reads_to_the_end() {
    let Some(module) = module("client") else { return };
    let mut stage = Stage::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut player = stage.start("client", &module, &[&address, "ping"], |config| {
        config.network.allow_connect(&address).unwrap();
    });
    stage.run(async {
        let request = player.elsewhere(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = String::new();
            stream.read_to_string(&mut request).unwrap();
            stream.write_all(b"pong").unwrap();
            request
        });
        assert_eq!(request.await, "ping");
        assert_eq!(player.finish().await, (Exit::Returned(0), "pong".into(), String::new()));
    });
}

#[test]
fn a_client_is_told_what_the_allow_list_denies_and_the_operator_counts_it() {
    let Some(module) = module("client") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("client", &module, &["127.0.0.1:9", "x"], |_| {});
    let (exit, _, stderr) = stage.run(player.finish());
    assert_eq!(exit, Exit::Returned(1));
    assert!(stderr.contains("permission denied"), "{stderr}");
    assert_eq!(player.guest.stats().refused(Limit::Network), 1);
}

#[test]
fn a_client_learns_that_nobody_listens() {
    let Some(module) = module("client") else { return };
    let mut stage = Stage::new();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut player = stage.start("client", &module, &[&unused, "x"], |config| {
        config.network.allow_connect("loopback").unwrap();
    });
    let (exit, _, stderr) = stage.run(player.finish());
    assert_eq!(exit, Exit::Returned(1));
    assert!(stderr.contains("input or output failed") || stderr.contains("ZI_E_IO"), "{stderr}");
}

#[test]
fn timers_are_in_order_and_never_early() {
    let Some(module) = module("timer") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("timer", &module, &[], |_| {});
    let (exit, stdout, stderr) = stage.run(player.finish());
    assert_eq!((exit, stdout.as_str(), stderr.as_str()), (Exit::Returned(0), "ok\n", ""));
    let stats = player.guest.stats();
    assert_eq!((stats.zero_timeout_polls, stats.empty_polls), (0, 0), "{stats:?}");
}

#[test]
fn lines_of_standard_input_are_answered_until_its_end() {
    let Some(module) = module("lines") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("lines", &module, &[], |_| {});
    stage.run(async {
        let stdin = player.stdin.as_ref().unwrap();
        assert!(stdin.write_all(b"one\ntw").await);
        assert_eq!(player.line().await, "ONE");
        assert!(stdin.write_all(b"o\nthree").await);
        assert_eq!(player.line().await, "TWO");
        assert_eq!(player.finish().await, (Exit::Returned(0), "THREE\n".into(), String::new()));
    });
}

#[test]
fn a_spinning_guest_is_preempted_and_its_neighbour_keeps_answering_until_it_is_killed() {
    let (Some(spinner), Some(echo)) = (module("spinner"), module("echo")) else { return };
    let mut stage = Stage::new();
    let mut spinning = stage.start("spinner", &spinner, &[], |_| {});
    let echoing = stage.start("echo", &echo, &[], |config| {
        config.network.allow_listen("127.0.0.1:*").unwrap();
    });
    stage.run(async {
        let port = echoing.port().await;
        let preempted_before = spinning.guest.stats().preemptions;
        for _ in 0..5 {
            assert_eq!(echoing.elsewhere(move || talk(port, b"still here")).await, b"still here");
        }
        assert!(spinning.guest.stats().preemptions > preempted_before);
        spinning.guest.kill();
        assert_eq!(spinning.finish().await.0, Exit::Killed);
        assert_eq!(echoing.elsewhere(move || talk(port, b"and after")).await, b"and after");
    });
}

#[test]
fn a_guest_that_stops_listening_to_ready_sockets_lets_the_loop_sleep() {
    let Some(module) = module("deaf") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("deaf", &module, &["200"], |config| {
        config.network.allow_listen("127.0.0.1:*").unwrap();
    });
    stage.run(async {
        let port = player.port().await;
        let writing = player.elsewhere(move || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(&[1; 1000]).unwrap();
            stream
        });
        // Held open, so that only readiness, and not the end of the stream, is in question.
        let _stream = writing.await;
        assert_eq!(player.finish().await.1, "read 1000\n");
    });
    let stats = player.guest.stats();
    // One for the connection, one for its first byte, one for the timer.
    assert!(stats.polls <= 4 && stats.empty_polls == 0, "{stats:?}");
}

#[test]
fn an_idle_guest_is_interrupted_into_finishing() {
    let Some(module) = module("idle") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("idle", &module, &["64"], |_| {});
    stage.run(async {
        let handle = player.handle.clone();
        while player.guest.stats().polls == 0 {
            handle.sleep(Duration::from_millis(1)).await.unwrap();
        }
        player.guest.interrupt();
        assert_eq!(player.finish().await.0, Exit::Returned(0));
    });
    assert_eq!(player.guest.stats().polls, 1);
}

#[test]
fn arguments_environment_clock_and_randomness_reach_the_guest() {
    let Some(module) = module("info") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("info", &module, &["one", "two words"], |config| {
        config.environment.push(("NAME".into(), "value=with=signs".into()));
    });
    let (exit, stdout, stderr) = stage.run(player.finish());
    let expected = "argument info\nargument one\nargument two words\nvariable NAME=value=with=signs\nclock runs\nrandom yes\n";
    assert_eq!((exit, stdout.as_str(), stderr.as_str()), (Exit::Returned(0), expected, ""));
}

#[test]
fn the_exit_code_is_the_guests() {
    let Some(module) = module("exit") else { return };
    let mut stage = Stage::new();
    for code in [0, 7, 255] {
        let mut player = stage.start("exit", &module, &[&code.to_string()], |_| {});
        assert_eq!(stage.run(player.finish()).0, Exit::Returned(code));
    }
}

#[test]
fn a_panic_says_why_on_standard_error() {
    let Some(module) = module("exit") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("exit", &module, &["panic"], |_| {});
    let (exit, _, stderr) = stage.run(player.finish());
    assert!(matches!(exit, Exit::Trapped(_)), "{exit:?}");
    assert!(stderr.contains("asked to panic"), "{stderr}");
}

#[test]
fn a_trap_is_reported_with_the_names_of_the_guests_functions() {
    let Some(module) = module("exit") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("exit", &module, &["trap"], |_| {});
    let (exit, _, _) = stage.run(player.finish());
    let Exit::Trapped(report) = exit else { panic!("{exit:?}") };
    assert!(report.message.contains("unreachable"), "{report}");
    for name in ["::inner_of_the_trap", "::outer"] {
        assert!(report.backtrace.contains(name), "{report}");
    }
}
