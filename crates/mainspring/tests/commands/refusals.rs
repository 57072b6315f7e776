//! What the daemon refuses without being able to say which message it means.

use crate::fake::stderr;
use crate::real::Real;
use std::fs;

#[test]
fn a_message_beyond_the_daemons_limit_is_told_at_once_by_every_command_that_asks() {
    let daemon = Real::start("[limits]\nline_bytes_max = 400\n");
    let long = "x".repeat(400);
    let data = format!("{{\"key\":\"a\",\"value\":\"{long}\"}}");
    for arguments in [
        &["send", "Memory.Set", &data][..],
        &["query", "Memory.Get", &data],
        &["emit", "App.Done", &data],
        &["describe", "--capability", &long],
        &["timers", "--cancel", &long],
        &["trace", &long],
        &["watch", &format!("App.{long}")],
    ] {
        let output = daemon.run(&[arguments, &["--timeout", "10s"]].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{}: {text}", arguments[0]);
        assert!(text.contains("(413)") && text.contains("400"), "{}: {text}", arguments[0]);
    }
    daemon.ok(&["emit", "App.Done", "{}"]);
}

#[test]
fn bench_says_what_a_daemon_complains_about_that_ends_the_connection() {
    let daemon = Real::start("[limits]\nline_bytes_max = 200\n");
    let socket = daemon.folder().join("it.sock");
    let mut bench = daemon.command(&["bench", "--connections", "1", "--duration", "10s"]);
    let output = bench.arg("--socket").arg(socket).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("(413)"), "{}", stderr(&output));
}

#[test]
fn a_message_beyond_the_shipped_limit_is_refused_too() {
    let daemon = Real::start("");
    let path = daemon.folder().join("big.json");
    fs::write(&path, format!("{{\"key\":\"big\",\"value\":\"{}\"}}", "x".repeat(1 << 20))).unwrap();
    for arguments in [["send", "Memory.Set"], ["query", "Memory.Get"], ["emit", "App.Done"]] {
        let mut command = daemon.command(&arguments);
        let output = command.arg("--file").arg(&path).args(["--timeout", "10s"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains("(413)"), "{arguments:?}: {}", stderr(&output));
    }
}
