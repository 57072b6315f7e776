//! `top` and `trace`.

use crate::fake::{stderr, stdout};
use crate::real::Real;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn top_shows_lanes_rates_and_capabilities_once_where_there_is_no_terminal() {
    let daemon = Real::start("");
    daemon.ok(&["send", "Memory.Set", r#"{"key":"a","value":1}"#]);
    daemon.ok(&["send", "Memory.Delete", r#"{"key":"a"}"#]);
    let page = daemon.ok(&["top", "--interval", "50ms"]);
    for words in [
        "requests/s ",
        "latency   mean ",
        "requests 2\n",
        "P50",
        "user 0",
        "CAPABILITY",
        "\nMemory ",
        "keys=0",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains('\x1b'), "{page}");
}

#[test]
fn top_gives_the_terminal_to_the_shell_while_it_is_stopped() {
    let daemon = Real::start("");
    let output = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/suspended.py"))
        .args(["CAPABILITY", env!("CARGO_BIN_EXE_mainspring"), "top", "--interval", "50ms"])
        .current_dir(daemon.folder())
        .env_remove("MAINSPRING_SOCKET")
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let expected = "stopped True
restored True
left the screen True
entered again True
quiet again True
exit 0
restored at the end True
";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn top_gives_the_terminal_back_however_it_ends() {
    let daemon = Real::start("");
    for how in ["q", "SIGINT", "SIGTERM", "SIGHUP"] {
        let output = Command::new("python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/terminal.py"))
            .args(["CAPABILITY", how, env!("CARGO_BIN_EXE_mainspring"), "top", "--interval", "50ms"])
            .current_dir(daemon.folder())
            .env_remove("MAINSPRING_SOCKET")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            stdout(&output),
            "exit 0\nwas quiet True\nrestored True\ncursor True\n",
            "{how}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn top_gives_the_terminal_back_when_the_daemon_ends() {
    let daemon = Real::start("");
    let mut terminal = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/terminal.py"))
        // A key that means nothing: what ends it is the daemon's end.
        .args(["CAPABILITY", "x", env!("CARGO_BIN_EXE_mainspring"), "top", "--interval", "50ms"])
        .current_dir(daemon.folder())
        .env_remove("MAINSPRING_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it has come: then there are two connections, its own and that of the question.
    let connections = || {
        let data: serde_json::Value = serde_json::from_str(&daemon.ok(&["query", "Sys.Stats"])).unwrap();
        data["gauges"]["connections"].as_u64().unwrap()
    };
    while connections() < 2 {
        assert!(terminal.try_wait().unwrap().is_none());
    }
    daemon.ok(&["send", "Syscall.Shutdown"]);
    let output = terminal.wait_with_output().unwrap();
    assert!(
        stdout(&output).starts_with("exit 1\n") && stdout(&output).contains("restored True"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn top_looks_once_on_a_terminal_that_cannot_move_its_cursor() {
    let daemon = Real::start("");
    let output = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/terminal.py"))
        .args(["CAPABILITY", "x", env!("CARGO_BIN_EXE_mainspring"), "top", "--interval", "50ms"])
        .current_dir(daemon.folder())
        .env_remove("MAINSPRING_SOCKET")
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    // It has ended by itself, and left the terminal alone.
    assert_eq!(
        stdout(&output),
        "exit 0\nwas quiet False\nrestored True\ncursor False\n",
        "{}",
        stderr(&output)
    );
}

/// A capability that tells an event about every command, and answers it.
const TELLER: &str = "[[capability]]
id = 'teller'
description = 'Tells.'
inbound = { properties = { kind = { const = 'command' }, type = { const = 'App.Tell' } } }
program = { process = ['python3', '-c', '''
import json, sys
for line in sys.stdin:
    cause = json.loads(line)[\"metadata\"][\"id\"]
    for kind, name in ((\"event\", \"App.Told\"), (\"reply\", \"App.Tell\")):
        metadata = {\"id\": kind + cause, \"timestamp\": 0, \"causation\": cause}
        print(json.dumps({\"kind\": kind, \"type\": name, \"data\": {}, \"metadata\": metadata}), flush=True)
'''] }
";

#[test]
fn trace_shows_what_a_command_caused() {
    let daemon = Real::start(TELLER);
    daemon.ok(&["send", "App.Tell", "--id", "first", "--correlation", "flow"]);
    for arguments in [&["trace", "flow"][..], &["trace", "--id", "first"]] {
        let page = daemon.ok(arguments);
        let rows: Vec<&str> = page.lines().collect();
        assert!(rows[0].ends_with(", 2 messages"), "{page}");
        assert!(rows[3].ends_with("command App.Tell  client -> teller  reply"), "{page}");
        assert!(rows[4].ends_with("└─ event App.Told  teller -> nobody"), "{page}");
    }
    let nothing = daemon.run(&["trace", "unknown"]);
    assert_eq!(nothing.status.code(), Some(1));
    let text = stderr(&nothing);
    assert!(text.contains("no message with the correlation \"unknown\"") && text.contains("--id"), "{text}");
    assert!(text.contains("limits.history_bytes_max") && text.contains(" bytes of them now"), "{text}");
    let nothing = daemon.run(&["trace", "--id", "unknown"]);
    assert!(stderr(&nothing).contains("with the id \"unknown\""), "{}", stderr(&nothing));
    daemon.ok(&["emit", "App.Done", "--correlation", "alone"]);
    assert!(daemon.ok(&["trace", "alone"]).contains(", 1 message\n"));
}
