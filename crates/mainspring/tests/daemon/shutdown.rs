//! The end of a daemon: by signal or by message, gently, then firmly.

use crate::support::{Daemon, code, eventually, is_alive, line, process, with_programs};
use serde_json::{Value, json};
use std::io::Write;

#[test]
fn a_shutdown_by_message_is_answered_and_ends_with_zero() {
    let mut daemon = Daemon::start();
    let mut client = daemon.connect();
    client.command("Syscall.Shutdown", json!({}));
    assert_eq!(client.next(), None);
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn sigterm_under_load_loses_no_request_that_was_accepted() {
    let slow = "import lib, time\nlib.serve(lambda m: (time.sleep(0.002), m['data'])[1])\n";
    let config = process("slow", &["query:Slow.Ask"], &["python3", "slow.py"], "");
    let mut daemon = with_programs(&config, &[("slow.py", slow)]);
    let mut client = daemon.connect();
    let mut writer = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let mut sent = 0;
        for n in 0..100_000 {
            let kind = if n % 2 == 0 { "Slow.Ask" } else { "Syscall.Ping" };
            if writer.write_all(line("query", kind, &format!("q-{n}"), &json!(n)).as_bytes()).is_err() {
                break;
            }
            sent += 1;
        }
        sent
    });
    let mut answers: Vec<Value> = (0..200).map(|_| client.receive()).collect();
    let before = daemon.stats()["counters"]["requestsAccepted"].as_u64().unwrap();
    daemon.signal("TERM");
    answers.extend(client.rest());
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
    let sent = sending.join().unwrap();
    assert!(answers.len() as u64 >= before - 1, "{} answers for {before} accepted requests", answers.len());
    assert!(answers.len() <= sent);
    let mut ids: Vec<&str> =
        answers.iter().map(|answer| answer["metadata"]["causation"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "one outcome each");
    // What was accepted was answered in order, so the answers have no gaps: nothing in between was
    // lost.
    let mut numbers: Vec<usize> = ids.iter().map(|id| id[2..].parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..all).collect::<Vec<usize>>());
}

#[test]
fn a_daemon_that_was_started_with_signals_blocked_ends_by_sigterm() {
    let mut daemon = Daemon::prepared("", &[], |command| {
        use std::os::unix::process::CommandExt;
        let block = || {
            // SAFETY: all zeroes is a valid set, which is then filled; both calls are safe between
            // fork and exec.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
            }
            Ok(())
        };
        // SAFETY: it makes two calls that are safe between fork and exec.
        unsafe { command.pre_exec(block) };
    });
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
}

#[test]
fn what_cannot_finish_is_answered_at_the_deadline() {
    let stuck = "import lib, time\nlib.serve(lambda m: time.sleep(1000))\n";
    let config = "[timeouts]\ndrain = \"200ms\"\n".to_owned()
        + &process("stuck", &["query:Stuck.Ask"], &["python3", "stuck.py"], "");
    let mut daemon = with_programs(&config, &[("stuck.py", stuck)]);
    let mut client = daemon.connect();
    client.send(line("query", "Stuck.Ask", "s-1", &json!(1)));
    client.query("Syscall.Ping", json!(1));
    daemon.signal("TERM");
    assert_eq!(code(&client.receive()), 503);
    assert_eq!(client.next(), None);
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_firmly() {
    let stuck = "import lib, os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nlib.serve(lambda m: lib.reply(m, os.getpid()) or time.sleep(1000))\n";
    // Without the second signal it would wait for longer than this test does.
    let config = "[timeouts]\ndrain = \"10m\"\n".to_owned()
        + &process("stuck", &["query:Stuck.Ask"], &["python3", "stuck.py"], "");
    let mut daemon = with_programs(&config, &[("stuck.py", stuck)]);
    let mut client = daemon.connect();
    let pid = client.query("Stuck.Ask", json!(1)).as_u64().unwrap() as u32;
    client.send(line("query", "Stuck.Ask", "s-2", &json!(1)));
    client.query("Syscall.Ping", json!(1));
    daemon.signal("INT");
    eventually("the first signal says what is waited for, and what a second one does", || {
        let log = daemon.log();
        let waits = "shutting down: SIGINT; waiting at most 600s for stuck (1 request)";
        let first = log.find(waits);
        let hint = log.find("Ctrl-C again ends it at once; unfinished requests then end with an error");
        first.is_some() && hint > first
    });
    eventually("after a while it says so again", || {
        daemon.log().contains("still waiting for stuck (1 request)")
    });
    daemon.signal("INT");
    assert_eq!(code(&client.receive()), 503);
    assert_eq!(client.next(), None);
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(!is_alive(pid));
}

#[test]
fn processes_are_told_by_the_end_of_their_input() {
    let polite = "import lib\nlib.serve(lambda m: 1)\nopen('goodbye', 'w').write('bye')\n";
    let config = process("polite", &["query:Polite.Ask"], &["python3", "polite.py"], "");
    let mut daemon = with_programs(&config, &[("polite.py", polite)]);
    daemon.connect().query("Polite.Ask", json!(1));
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(std::fs::read_to_string(daemon.path("goodbye")).unwrap(), "bye");
}

#[test]
fn a_process_that_ignores_the_end_of_its_input_is_told_and_then_killed() {
    let stubborn = "import lib, os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: open('told', 'w').write('1'))\nlib.serve(lambda m: os.getpid())\nwhile True: time.sleep(1)\n";
    let config =
        process("stubborn", &["query:Stubborn.Ask"], &["python3", "stubborn.py"], "") + "grace = \"300ms\"\n";
    let mut daemon = with_programs(&config, &[("stubborn.py", stubborn)]);
    let pid = daemon.connect().query("Stubborn.Ask", json!(1)).as_u64().unwrap() as u32;
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(!is_alive(pid));
    assert!(daemon.path("told").exists());
}
