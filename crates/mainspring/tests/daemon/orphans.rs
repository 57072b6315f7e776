//! What processes start and leave behind, and what was there before the daemon.

use crate::support::{
    Daemon, code, eventually, is_alive, mainspring, process, signal_process, with_programs,
};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const QUICK: &str = "restart = { backoff_ms = 10, max_restarts = 3, window_ms = \"1m\", probe_ms = \"30s\" }";

/// A daemon with one process under test.
fn with_program(id: &str, handle: &str, program: &str) -> Daemon {
    let config = process(id, &[handle], &["python3", "tested.py"], QUICK);
    with_programs(&config, &[("tested.py", program)])
}

fn pids(answer: &Value) -> Vec<u32> {
    answer.as_array().unwrap().iter().map(|pid| pid.as_u64().unwrap() as u32).collect()
}

#[test]
fn a_process_that_moved_into_the_daemons_group_is_killed_before_its_successor_serves() {
    let program = "
import lib, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ours = os.getpgid(os.getppid())
join = lambda: os.setpgid(0, ours)
beside = subprocess.Popen(['sleep', '1000'], preexec_fn=join, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
join()
for m in lib.messages():
    if m['data'] == 'fault':
        sys.stdout.write('this is no message\\n')
        sys.stdout.flush()
        break
    lib.reply(m, [os.getpid(), beside.pid])
while True: time.sleep(1000)
";
    let daemon = with_program("mover", "query:Mover.Ask", program);
    let mut client = daemon.connect();
    let first = pids(&client.query("Mover.Ask", json!(1)));
    assert_eq!(code(&client.ask("query", "Mover.Ask", json!("fault"))), 502);
    let second = pids(&client.query("Mover.Ask", json!(2)));
    assert_ne!(first, second);
    eventually("the first is gone, and what it started", || first.iter().all(|pid| !is_alive(*pid)));
    // To stop it, it is told and then killed, wherever it is.
    daemon.end();
    assert!(second.iter().all(|pid| !is_alive(*pid)), "the second is still there");
}

#[test]
fn a_thousand_orphans_do_not_slow_down_a_bystander() {
    const PINGS: usize = 200;
    // Each orphan lives on in a group of its own; then others come and go without end.
    let program = "
import lib, os, threading, time
def orphan(seconds):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            for stream in range(3): os.close(stream)
            time.sleep(seconds)
        os._exit(0)
    os.wait()
for _ in range(1000): orphan(1000)
def churn():
    while True: orphan(0)
threading.Thread(target=churn, daemon=True).start()
lib.serve(lambda m: 1)
";
    let daemon = with_program("breeder", "query:Breeder.Ask", program);
    let mut client = daemon.connect();
    client.query("Breeder.Ask", json!(1));
    let mut times: Vec<Duration> = (0..PINGS)
        .map(|n| {
            let began = Instant::now();
            client.query("Syscall.Ping", json!(n));
            began.elapsed()
        })
        .collect();
    times.sort();
    // Half of them: how busy the machine is shows in the others.
    assert!(times[PINGS / 2] < Duration::from_millis(10), "{:?}", times[PINGS / 2]);
    daemon.end();
}

#[test]
fn a_life_that_leaves_a_thousand_orphans_behind_takes_them_along() {
    let program = "
import lib, os, time
for _ in range(1000):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        os._exit(0)
    os.wait()
lib.serve(lambda m: os._exit(3) if m['data'] == 'die' else os.getpid())
";
    let config = process(
        "breeder",
        &["query:Breeder.Ask"],
        &["python3", "tested.py"],
        "restart = { when = \"never\" }",
    );
    let daemon = with_programs(&config, &[("tested.py", program)]);
    let mut client = daemon.connect();
    client.query("Breeder.Ask", json!(1));
    assert!(daemon.children() > 1000);
    assert_eq!(code(&client.ask("query", "Breeder.Ask", json!("die"))), 502);
    eventually("nobody is left", || daemon.children() == 0);
    daemon.end();
}

/// The parent of a process.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

fn pid_in(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()
}

#[test]
fn a_helper_that_was_there_before_the_daemon_outlives_it() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    // A helper, and one that loses its own parent while the daemon runs and falls to it.
    let script = "sleep 1000 & echo $! > helper
(sleep 1000 & echo $! > orphan; while [ ! -e go ]; do sleep 0.01; done) &
exec \"$0\" up --no-config --socket s";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(mainspring().get_program()).current_dir(folder.path());
    shell.env_remove("MAINSPRING_SOCKET").stdout(Stdio::null()).stderr(Stdio::null());
    let mut daemon = shell.spawn().unwrap();
    eventually("it listens", || UnixStream::connect(&socket).is_ok());
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (helper, orphan) = (folder.path().join("helper"), folder.path().join("orphan"));
    eventually("the orphan is the daemon's", || pid_in(&orphan).and_then(parent_of) == Some(daemon.id()));
    signal_process(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
    let left = [pid_in(&helper).unwrap(), pid_in(&orphan).unwrap()];
    let alive = left.map(is_alive);
    for (pid, alive) in left.into_iter().zip(alive) {
        if alive {
            signal_process(pid, "KILL");
        }
    }
    assert_eq!(alive, [true, true], "the helper and its orphan");
}

#[test]
fn what_hides_from_the_daemon_is_killed_at_its_end_though_a_helper_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = "import os, subprocess, sys
if not os.path.exists('hidden'):
    command = 'echo $$ > hidden; exec sleep 1000'
    middle = ['setsid', 'env', '-i', '/bin/sh', '-c', '/bin/sh -c \"$0\" & exit 0', command]
    none = subprocess.DEVNULL
    subprocess.run(middle, stdin=none, stdout=none, stderr=none)
for line in sys.stdin: pass
";
    std::fs::write(folder.path().join("hidden.py"), hidden).unwrap();
    let config = process("hider", &["query:Hider.Ask"], &["python3", "hidden.py"], "");
    std::fs::write(folder.path().join("mainspring.toml"), config).unwrap();
    let script = "sleep 1000 & echo $! > helper; exec \"$0\" up --socket s";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(mainspring().get_program()).current_dir(folder.path());
    shell.env_remove("MAINSPRING_SOCKET").stdout(Stdio::null()).stderr(Stdio::null());
    let mut daemon = shell.spawn().unwrap();
    let (helper, hidden) = (folder.path().join("helper"), folder.path().join("hidden"));
    eventually("it is the daemon's", || pid_in(&hidden).and_then(parent_of) == Some(daemon.id()));
    signal_process(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
    let (helper, hidden) = (pid_in(&helper).unwrap(), pid_in(&hidden).unwrap());
    let alive = [helper, hidden].map(is_alive);
    signal_process(helper, "KILL");
    assert_eq!(alive, [true, false], "the helper, and what hid");
}
