//! Seeing and steering a daemon: `tap`, `logs`, `trace` without arguments, `restart`, `reload`,
//! timers and dead letters of everybody, and what a token may do.

use crate::fake::{stderr, stdout};
use crate::real::Real;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A capability that says what it does on standard error, and fails over what it is told to.
const WORKER: &str = "[[capability]]
id = 'worker'
description = 'Works.'
restart = { backoff_ms = 10 }
inbound = { oneOf = [
  { properties = { kind = { const = 'command' }, type = { const = 'App.Work' } } },
  { properties = { kind = { const = 'query' }, type = { const = 'App.Ask' } } },
] }
program = { process = ['python3', 'worker.py'] }
";

const PROGRAM: &str = r#"
import json, os, sys
print("ready", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    print("got", message["type"], file=sys.stderr, flush=True)
    if message["data"].get("crash"):
        sys.exit(3)
    metadata = {"id": "r-" + message["metadata"]["id"], "timestamp": 0, "causation": message["metadata"]["id"]}
    data = {"pid": os.getpid(), "data": message["data"]}
    print(json.dumps({"kind": "reply", "type": message["type"], "data": data, "metadata": metadata}), flush=True)
"#;

fn start(config: &str) -> Real {
    Real::start_with(config, |folder| std::fs::write(folder.join("worker.py"), PROGRAM).unwrap())
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command that goes on, and its lines.
struct Following(Child, BufReader<std::process::ChildStdout>);

impl Following {
    fn start(daemon: &Real, arguments: &[&str]) -> Following {
        let mut command = daemon.command(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following(child, lines)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn logs_shows_what_capabilities_wrote_and_follows() {
    let daemon = start(WORKER);
    daemon.ok(&["send", "App.Work"]);
    let page = daemon.ok(&["logs"]);
    let lines: Vec<&str> = page.lines().collect();
    assert!(
        lines[0].ends_with("  worker | ready") && lines[1].ends_with("  worker | got App.Work"),
        "{page}"
    );
    assert_eq!(daemon.ok(&["logs", "worker", "--lines", "1"]).lines().count(), 1);
    let mut following = Following::start(&daemon, &["logs", "worker", "--follow", "--json"]);
    let line: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!((&line["capabilityId"], &line["text"]), (&json!("worker"), &json!("ready")));
    following.line();
    daemon.ok(&["query", "App.Ask"]);
    let line: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!(line["text"], "got App.Ask");
    let output = daemon.run(&["logs", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no capability \"nobody\""), "{}", stderr(&output));
}

#[test]
fn tap_shows_messages_as_they_pass_with_their_data() {
    let daemon = start(WORKER);
    let mut tap = Following::start(&daemon, &["tap", "App.*", "--count", "2"]);
    let mut json = Following::start(&daemon, &["tap", "--json", "--kind", "command", "--failed"]);
    // Until both have come.
    eventually("they tap", || {
        let data: Value = serde_json::from_str(&daemon.ok(&["query", "Sys.Stats"])).unwrap();
        data["gauges"]["connections"].as_u64() >= Some(3)
    });
    daemon.ok(&["query", "App.Ask", "a=1"]);
    let line = tap.line();
    assert!(line.contains("query   App.Ask  client -> worker  reply after "), "{line}");
    assert!(line.contains("{\"a\":\"1\"} =>") && line.contains("\"pid\":"), "{line}");
    daemon.run(&["send", "App.Work", "crash:=true"]);
    let record: Value = serde_json::from_str(&json.line()).unwrap();
    assert_eq!((&record["type"], &record["outcome"]["code"]), (&json!("App.Work"), &json!(502)));
    assert!(tap.line().contains("error 502 after "));
    assert!(tap.0.wait().unwrap().success());
}

#[test]
fn trace_without_arguments_lists_the_latest() {
    let daemon = start(WORKER);
    daemon.ok(&["send", "App.Work", "--correlation", "first"]);
    daemon.run(&["send", "App.Work", "crash:=true"]);
    let page = daemon.ok(&["trace"]);
    let rows: Vec<&str> = page.lines().collect();
    assert!(
        rows[1].starts_with('1') && rows[1].contains("command App.Work") && rows[1].contains("error 502"),
        "{page}"
    );
    assert!(rows[2].contains("client  worker  reply") && rows[2].ends_with("first"), "{page}");
    assert_eq!(daemon.ok(&["trace", "--failed"]).lines().count(), 2);
    assert_eq!(daemon.ok(&["trace", "--type", "Other.*"]), "no message is remembered\n");
}

#[test]
fn a_scheduled_message_is_in_the_trace_without_arguments_once_it_was_sent() {
    let daemon = start(WORKER);
    daemon.ok(&["send", "App.Work", "--delay", "1h", "--timer", "late"]);
    let page = daemon.ok(&["trace"]);
    assert_eq!(page, "no message is remembered; 1 message is for later: see `mainspring timers`\n");
    daemon.ok(&["send", "App.Work", "--delay", "1ms"]);
    eventually("it is listed", || {
        daemon.ok(&["trace"]).contains("command App.Work  the daemon  worker  reply")
    });
    assert_eq!(daemon.ok(&["trace", "--type", "App.*"]).lines().count(), 2);
}

#[test]
fn a_query_that_is_sent_as_a_command_is_told_with_what_to_type() {
    let daemon = start(WORKER);
    for (words, told) in [
        (["send", "App.Ask"], "it is a query; ask it with `mainspring query App.Ask`\n"),
        (["query", "App.Work"], "it is a command; give it with `mainspring send App.Work`\n"),
        (["send", "Sys.Stats"], "it is a query; ask it with `mainspring query Sys.Stats`\n"),
    ] {
        let output = daemon.run(&words);
        assert!(stderr(&output).ends_with(told), "{}", stderr(&output));
    }
}

#[test]
fn restart_starts_a_capability_anew() {
    let daemon = start(WORKER);
    let pid = || -> Value {
        let said: Value = serde_json::from_str(&daemon.ok(&["query", "App.Ask"])).unwrap();
        said["pid"].clone()
    };
    let before = pid();
    let told = daemon.ok(&["restart", "worker"]);
    assert!(told.starts_with("worker is up again, after "), "{told}");
    assert_ne!(before, pid());
    let output = daemon.run(&["restart", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("(404)"), "{}", stderr(&output));
}

#[test]
fn reload_takes_over_what_has_changed_and_tells_what_is_wrong() {
    let daemon = start(WORKER);
    assert_eq!(daemon.ok(&["reload"]), "no capability has changed\n");
    let config = daemon.folder().join("mainspring.toml");
    let good = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, good.replace("'Works.'", "'Works hard.'")).unwrap();
    assert_eq!(daemon.ok(&["reload"]), "changed: worker\n");
    eventually("the new words are told", || {
        daemon.ok(&["describe", "worker"]).starts_with("worker: Works hard.\n")
    });
    std::fs::write(&config, good.replace("kind = { const", "kind = { cnst")).unwrap();
    let output = daemon.run(&["reload", "--socket", "it.sock"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("Sys.SchemaError (422)"), "{}", stderr(&output));
    std::fs::write(&config, good).unwrap();
}

#[test]
fn dead_letters_are_sent_again_by_filter_and_each_is_told_with_its_fate() {
    let daemon = start(WORKER);
    for data in ["crash:=true", "crash:=1"] {
        daemon.run(&["send", "App.Work", data]);
        eventually("it is up again", || stdout(&daemon.run(&["query", "App.Ask"])).contains("pid"));
    }
    let listing = daemon.ok(&["dead-letters", "list", "--type", "App.*", "--capability", "worker"]);
    assert_eq!(listing.lines().count(), 3, "{listing}");
    assert_eq!(daemon.ok(&["dead-letters", "list", "--type", "Other.*"]), "no dead letters\n");
    let output = daemon.run(&["dead-letters", "requeue", "1", "--data", "{\"mended\": 1}"]);
    assert!(output.status.success() && stdout(&output).ends_with(": done\n"), "{}", stdout(&output));
    let output = daemon.run(&["dead-letters", "requeue", "--all", "--type", "App.*"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("2 sent again as ")
            && stdout(&output).contains(": failed again: Sys.ActorCrash (502)"),
        "{}",
        stdout(&output)
    );
    daemon.ok(&["dead-letters", "drop", "--all"]);
    assert_eq!(daemon.ok(&["dead-letters", "requeue", "--all"]), "no dead letter fits\n");
}

/// A token, as the first line has it.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_token_may_do_what_its_table_says_and_is_told_what_it_may_not() {
    let config = format!(
        "{WORKER}[[listen]]\ntcp = '127.0.0.1:0'\ntokens = [{{ name = 'ci', token = '{TOKEN}', allow = ['App.Ask'] }}]\n"
    );
    let daemon = start(&config);
    let by_token = |arguments: &[&str]| {
        let mut command = daemon.command(arguments);
        command.args(["--tcp", daemon.tcp()]).env("MAINSPRING_TOKEN", TOKEN).stdin(Stdio::null());
        command.output().unwrap()
    };
    assert!(by_token(&["query", "App.Ask"]).status.success());
    for (arguments, words) in [
        (
            &["send", "App.Work"][..],
            "App.Work is not among the types that this connection may send (allow = [\"App.Ask\"])",
        ),
        (&["watch", "--count", "1"], "reaches beyond the types that this connection may see"),
        (
            &["down"],
            "Syscall.Shutdown needs an operator; set operator = true for the token \"ci\" in mainspring.toml",
        ),
        (&["logs"], "Sys.Logs needs an operator"),
        (&["tap"], "Sys.Tap needs an operator"),
        (&["restart", "worker"], "Sys.RestartActor needs an operator"),
        (&["dead-letters"], "Sys.DeadLetters needs an operator"),
    ] {
        let output = by_token(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains("(403)") && stderr(&output).contains(words), "{}", stderr(&output));
    }
    let described = by_token(&["describe"]);
    assert!(
        stdout(&described).contains("App.Ask") && !stdout(&described).contains("App.Work"),
        "{}",
        stdout(&described)
    );
    // The user of the Unix socket sees the timers of the token, and ends them.
    assert!(by_token(&["query", "App.Ask", "--delay", "1h", "--timer", "late"]).status.success());
    let timers = daemon.ok(&["timers"]);
    let row = timers.lines().nth(1).unwrap();
    assert!(row.starts_with("late") && row.contains("  ci  "), "{timers}");
    daemon.ok(&["timers", "--cancel", "late", "--peer", "ci"]);
    assert_eq!(daemon.ok(&["timers"]), "no timers\n");
}
