//! The floors are joined: whatever capabilities are made of, one thread waits for all of them in
//! one place, and an idle daemon rests.
//!
//! Seen from outside, with strace. Where that is missing or forbidden, the tests say so and pass.

use crate::guest_module::guest_module as module;
use crate::guests::{cache, guest};
use crate::support::{Daemon, LIBRARY, eventually, process};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long an idle daemon is watched.
const REST: Duration = Duration::from_secs(3);

/// A daemon with a capability of each kind: native, a process, a guest.
fn daemon_of_three_kinds() -> Option<Daemon> {
    let echo = module("capability")?;
    let config = process("python", &["query:Python.Say"], &["python3", "python.py"], "")
        + &guest("guest", "query:Guest.Say", echo.to_str().unwrap(), "", "");
    let program = "import lib\nlib.serve(lambda m: m['data'])\n";
    let files = [("lib.py", LIBRARY), ("python.py", program)];
    let daemon = Daemon::prepared(&config, &files, |command| {
        command.env("XDG_CACHE_HOME", cache());
    });
    Some(daemon)
}

fn ask_all(daemon: &Daemon) {
    let mut client = daemon.connect();
    client.command("Memory.Set", json!({ "key": "a", "value": 1 }));
    assert_eq!(client.query("Python.Say", json!("p")), json!("p"));
    assert_eq!(client.query("Guest.Say", json!("g")), json!("g"));
}

/// strace on all threads of a daemon.
struct Trace {
    strace: Child,
    stderr: BufReader<std::process::ChildStderr>,
    file: PathBuf,
}

impl Trace {
    /// `None`, with a line that says so, where there is no strace or it may not look.
    fn attach(daemon: &Daemon) -> Option<Trace> {
        if std::env::var_os("MAINSPRING_STRACE").is_some_and(|value| value == "0") {
            eprintln!("skipped: there is no strace");
            return None;
        }
        let file = daemon.path("trace");
        let started = Command::new("strace")
            .args(["-f", "-p", &daemon.pid().to_string(), "-o"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut strace) = started else {
            eprintln!("skipped: there is no strace");
            return None;
        };
        let mut stderr = BufReader::new(strace.stderr.take().expect("its messages"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("its messages");
        if !line.contains("attached") {
            let _ = strace.wait();
            eprintln!("skipped: {line}");
            return None;
        }
        Some(Trace { strace, stderr, file })
    }

    /// What was seen, a line for each call.
    fn end(mut self) -> String {
        crate::support::signal_process(self.strace.id(), "INT");
        let _ = std::io::copy(&mut self.stderr, &mut std::io::sink());
        self.strace.wait().expect("its end");
        std::fs::read_to_string(&self.file).expect("the trace")
    }
}

/// The thread and the call of a line such as `123 epoll_wait(4, ...`; none for signals and ends.
fn call(line: &str) -> Option<(&str, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let resumed = rest.strip_prefix("<... ").and_then(|rest| rest.split_once(' ')).map(|(name, _)| name);
    let name = resumed.or_else(|| rest.split_once('(').map(|(name, _)| name))?;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some((thread, name))
}

#[test]
fn one_thread_waits_in_one_epoll_for_capabilities_of_every_kind() {
    let Some(daemon) = daemon_of_three_kinds() else { return };
    ask_all(&daemon);
    let Some(trace) = Trace::attach(&daemon) else { return };
    for _ in 0..5 {
        ask_all(&daemon);
    }
    let text = trace.end();
    let waits = ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"];
    let waiting: Vec<(&str, &str)> =
        text.lines().filter_map(call).filter(|(_, name)| waits.contains(name)).collect();
    assert!(waiting.len() >= 5, "{text}");
    let threads: BTreeSet<&str> = waiting.iter().map(|(thread, _)| *thread).collect();
    assert_eq!(threads.into_iter().collect::<Vec<_>>(), [daemon.pid().to_string()], "{text}");
    let polled: Vec<&str> =
        waiting.iter().map(|(_, name)| *name).filter(|name| !name.starts_with("epoll")).collect();
    assert!(polled.is_empty(), "{polled:?} in {text}");
    let sets: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_once("epoll_")?.1.split_once("wait").map(|(_, rest)| rest))
        .filter_map(|rest| rest.split_once('(')?.1.split([',', ' ']).next())
        .collect();
    assert_eq!(sets.len(), 1, "one set for all: {sets:?} in {text}");
    // What clients and the process say is read by that thread as well; the guest's needs no call at
    // all.
    let readers: BTreeSet<&str> = text
        .lines()
        .filter_map(call)
        .filter(|(_, name)| ["read", "recvfrom", "recvmsg", "readv"].contains(name))
        .map(|(thread, _)| thread)
        .collect();
    assert_eq!(readers.into_iter().collect::<Vec<_>>(), [daemon.pid().to_string()], "{text}");
    daemon.end();
}

#[test]
fn an_idle_daemon_makes_no_system_call_on_any_thread() {
    let Some(daemon) = daemon_of_three_kinds() else { return };
    // Somebody taps and watches: that costs nothing while nothing passes.
    let mut operator = daemon.connect();
    operator.command("Sys.Tap", json!({ "data": true }));
    operator.command("Sys.Subscribe", json!({ "types": ["*"] }));
    ask_all(&daemon);
    // Threads for blocking calls end by themselves after a while without work.
    let tasks = format!("/proc/{}/task", daemon.pid());
    eventually("no thread is left that waits for work", || {
        let names = std::fs::read_dir(&tasks)
            .unwrap()
            .map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
        names.into_iter().all(|name| !name.starts_with("mainspring-bloc"))
    });
    let Some(trace) = Trace::attach(&daemon) else { return };
    std::thread::sleep(REST);
    let text = trace.end();
    // Calls that each thread was in when strace came, and that it is in still.
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let Some((thread, name)) = call(line) else { continue };
        let rests = ["epoll_wait", "epoll_pwait", "epoll_pwait2", "futex", "restart_syscall"].contains(&name);
        assert!(
            rests && line.contains("unfinished") || line.contains("detached"),
            "{thread} is awake: {text}"
        );
        assert!(seen.insert(thread), "{thread} was awake: {text}");
    }
    assert!(seen.contains(daemon.pid().to_string().as_str()), "{text}");
    ask_all(&daemon);
    daemon.end();
}
