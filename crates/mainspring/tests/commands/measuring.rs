//! `bench`.

use crate::fake::{command, stderr, stdout};
use crate::real::Real;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

#[test]
fn bench_measures_a_daemon_of_its_own_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let bench = |arguments: &[&str]| {
        let all =
            [&["bench", "--duration", "50ms", "--connections", "2", "--depth", "16"][..], arguments].concat();
        let output = command(&all, folder.path()).env("TMPDIR", folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        stdout(&output).to_owned()
    };
    let page = bench(&[]);
    assert!(page.contains("shipped defaults: ") && page.contains("REQUESTS/S"), "{page}");
    let row: Vec<&str> = page.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row.len()), ("2", "16", 9), "{page}");
    let figures: Value = serde_json::from_str(&bench(&["--json"])).unwrap();
    let case = &figures["cases"][0];
    assert!(case["replies"].as_u64() > Some(0) && case["errors"] == 0, "{figures}");
    let latency = &case["latencyNs"];
    assert!(
        latency["p50"].as_u64() > Some(0) && latency["p50"].as_u64() <= latency["max"].as_u64(),
        "{figures}"
    );
}

/// The process that listens in a folder of its own below this one.
fn daemon_below(folder: &Path) -> Pid {
    loop {
        let sockets =
            std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path().join("bench.sock"));
        for socket in sockets {
            if let Ok(stream) = UnixStream::connect(socket) {
                return rustix::net::sockopt::socket_peercred(stream).unwrap().pid;
            }
        }
    }
}

#[test]
fn bench_leaves_no_daemon_and_no_folder_behind_when_a_signal_ends_it() {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::KILL] {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = command(&["bench", "--duration", "60s"], folder.path());
        bench.env("TMPDIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bench = bench.spawn().unwrap();
        // What it writes first it writes when the daemon is there.
        BufReader::new(bench.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let daemon = rustix::process::pidfd_open(daemon_below(folder.path()), PidfdFlags::empty()).unwrap();
        kill_process(Pid::from_child(&bench), signal).unwrap();
        let status = bench.wait().unwrap();
        // A process can be polled for its end.
        let mut ended = [PollFd::new(&daemon, PollFlags::IN)];
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut ended, Some(&limit)), Ok(1), "{signal:?}: the daemon goes on");
        if signal != Signal::KILL {
            assert_eq!(status.code(), Some(128 + signal.as_raw()), "{signal:?}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{signal:?}");
        }
    }
}

#[test]
fn bench_measures_a_daemon_that_runs_already() {
    let daemon = Real::start("");
    let socket = daemon.folder().join("it.sock");
    let page = daemon.ok(&[
        "bench",
        "--duration",
        "50ms",
        "--connections",
        "1",
        "--depth",
        "1",
        "--socket",
        socket.to_str().unwrap(),
    ]);
    assert!(page.contains("as it is set"), "{page}");
    assert!(daemon.ok(&["query", "Memory.List"]).contains("bench-0"));
}
