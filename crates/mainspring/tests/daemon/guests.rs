//! Capabilities that are WebAssembly guests, mostly faulty ones: each fault has its outcome, and
//! the neighbours never notice.

use crate::guest_module::guest_module as module;
use crate::support::{Client, Daemon, code, eventually, line, line_with, mainspring};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::PathBuf;

const QUICK: &str = "restart = { backoff_ms = 10, max_restarts = 3, window_ms = \"1m\", probe_ms = \"30s\" }";

/// A capability of a guest, as it is written in `mainspring.toml`: `more` belongs to its manifest,
/// `program` to its program.
pub(crate) fn guest(id: &str, handle: &str, module: &str, more: &str, program: &str) -> String {
    let (kind, name) = handle.split_once(':').expect("kind:Type");
    format!(
        "[[capability]]\nid = {id:?}\ndescription = \"For a test.\"\n\
         inbound = {{ properties = {{ kind = {{ const = {kind:?} }}, type = {{ const = {name:?} }} }} }}\n{more}\n\
         [capability.program]\nwasm = {module:?}\n{program}\n"
    )
}

/// Where compiled guests are kept for the tests of this program, so that each is compiled once.
pub(crate) fn cache() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("code-cache")
}

/// Starts a daemon with a guest that echoes, and one more that does what it is asked to.
fn beside_echo(settings: &str, more: &str, program: &str) -> Option<Daemon> {
    let (echo, hostile) = (module("capability")?, module("hostile")?);
    let config = settings.to_owned()
        + &guest("echo", "query:Echo.Say", echo.to_str().unwrap(), "", "")
        + &guest("hostile", "command:Hostile.Do", hostile.to_str().unwrap(), more, program);
    Some(Daemon::prepared(&config, &[], |command| {
        command.env("XDG_CACHE_HOME", cache());
    }))
}

fn check_neighbours(client: &mut Client) {
    assert_eq!(client.query("Echo.Say", json!("well?")), json!("well?"));
    client.command("Memory.Set", json!({ "key": "alive", "value": 1 }));
}

fn hostile_in(actors: &Value) -> Value {
    let actors = actors["actors"].as_array().unwrap();
    actors.iter().find(|actor| actor["capabilityId"] == json!("hostile")).unwrap().clone()
}

fn message_of(error: &Value) -> &str {
    error["data"]["message"].as_str().unwrap_or_else(|| panic!("no message: {error}"))
}

#[test]
fn a_guest_answers_and_its_numbers_tell_why_it_was_awake() {
    let Some(daemon) = beside_echo("", "", "") else { return };
    let mut client = daemon.connect();
    for number in 0..10 {
        assert_eq!(client.query("Echo.Say", json!({ "number": number })), json!({ "number": number }));
    }
    let stats = daemon.stats();
    let echo = find(&stats, "echo").unwrap_or_else(|| panic!("no numbers: {stats}"));
    assert_eq!(echo["kind"], json!("guest"));
    assert_eq!(echo["phase"], json!("waiting"));
    assert_eq!((&echo["emptyPolls"], &echo["zeroTimeoutPolls"]), (&json!(0), &json!(0)));
    assert_eq!(echo["wakeups"], json!(10), "once for each message and never else");
    daemon.end();
}

/// The object under a key, wherever it is.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    object.get(key).filter(|found| found.is_object()).or_else(|| object.values().find_map(|it| find(it, key)))
}

#[test]
fn many_requests_at_once_wake_a_guest_a_few_times() {
    const REQUESTS: usize = 2000;
    let Some(echo) = module("capability") else { return };
    let concurrent = "limits = { concurrency = 64 }";
    let config = guest("echo", "query:Echo.Say", echo.to_str().unwrap(), concurrent, "");
    let daemon = Daemon::prepared(&config, &[], |command| {
        command.env("XDG_CACHE_HOME", cache());
    });
    let mut client = daemon.connect();
    let many: String =
        (0..REQUESTS).map(|n| line("query", "Echo.Say", &format!("q-{n}"), &json!(n))).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sending =
        std::thread::spawn(move || std::io::Write::write_all(&mut writer, many.as_bytes()).unwrap());
    for number in 0..REQUESTS {
        assert_eq!(client.receive()["data"], json!(number), "answers come in order");
    }
    sending.join().unwrap();
    let wakeups = find(&daemon.stats(), "echo").unwrap()["wakeups"].as_u64().unwrap();
    assert!(wakeups <= (REQUESTS / 4) as u64, "{wakeups} wake-ups for {REQUESTS} messages");
    daemon.end();
}

#[test]
fn answers_of_a_guest_that_works_on_one_request_at_a_time_leave_many_in_one_write() {
    const REQUESTS: usize = 2000;
    let Some(daemon) = beside_echo("", "", "") else { return };
    let mut client = daemon.connect();
    let writes = || daemon.stats()["floors"]["clients"]["writes"].as_u64();
    let many: String =
        (0..REQUESTS).map(|n| line("query", "Echo.Say", &format!("q-{n}"), &json!(n))).collect();
    let before = writes();
    client.send(many);
    for number in 0..REQUESTS {
        assert_eq!(client.receive()["data"], json!(number));
    }
    let (Some(before), Some(after)) = (before, writes()) else { panic!("no numbers: {}", daemon.stats()) };
    assert!(after - before < (REQUESTS / 2) as u64, "{} writes", after - before);
    daemon.end();
}

#[test]
fn a_message_larger_than_its_pipe_goes_through_a_guest_and_back() {
    let Some(daemon) = beside_echo("", "", "") else { return };
    let mut client = daemon.connect();
    let large = json!("x".repeat(500_000));
    assert_eq!(client.query("Echo.Say", large.clone()), large);
    check_neighbours(&mut client);
    daemon.end();
}

#[test]
fn a_guest_that_spins_is_preempted_and_restarted_as_hung() {
    let Some(daemon) = beside_echo("[timeouts]\nhang = \"200ms\"\n", QUICK, "") else { return };
    let mut client = daemon.connect();
    client.send(line_with("command", "Hostile.Do", "s-1", &json!(["spin"]), &json!({ "timeout": 300 })));
    let mut neighbour = daemon.connect();
    eventually("it is preempted", || {
        check_neighbours(&mut neighbour);
        find(&daemon.stats(), "hostile").is_some_and(|it| it["preemptions"].as_u64() > Some(2))
    });
    let outcome = client.receive();
    assert_eq!((code(&outcome), &outcome["data"]["started"]), (504, &json!("yes")));
    assert_eq!(client.command("Hostile.Do", json!(["behave"])), json!(["behave"]));
    daemon.end();
}

#[test]
fn a_guest_that_traps_or_returns_answers_what_it_had_and_comes_back() {
    let Some(daemon) = beside_echo("", QUICK, "limits = { memory = \"8MiB\" }") else { return };
    let mut client = daemon.connect();
    for (deed, reason) in [("trap", "it trapped: "), ("fail", "it returned 1"), ("grow", "it trapped: ")] {
        let outcome = client.ask("command", "Hostile.Do", json!([deed]));
        assert_eq!((code(&outcome), &outcome["data"]["started"]), (502, &json!("yes")), "{deed}");
        assert!(message_of(&outcome).contains(reason), "{deed}: {outcome}");
        check_neighbours(&mut client);
        assert_eq!(client.command("Hostile.Do", json!(["behave"])), json!(["behave"]), "{deed}");
    }
    let log = daemon.log();
    assert!(log.contains("asked to trap") && log.contains("capability=\"hostile\""), "{log}");
    assert!(log.contains("wasm backtrace") && log.contains("hostile::"), "{log}");
    daemon.end();
}

#[test]
fn a_guest_that_uses_up_its_cpu_time_is_ended_for_that() {
    let Some(daemon) = beside_echo("", QUICK, "limits = { cpu = \"50ms\" }") else { return };
    let mut client = daemon.connect();
    let outcome = client.ask("command", "Hostile.Do", json!(["spin"]));
    assert_eq!(code(&outcome), 502);
    assert!(message_of(&outcome).contains("it used up its limit: limits.cpu"), "{outcome}");
    check_neighbours(&mut client);
    daemon.end();
}

#[test]
fn a_guest_that_floods_is_held_back_and_not_the_others() {
    let Some(daemon) = beside_echo("", "", "") else { return };
    let mut client = daemon.connect();
    client.send(line_with("command", "Hostile.Do", "f-1", &json!(["flood"]), &json!({ "timeout": 500 })));
    let mut neighbour = daemon.connect();
    for _ in 0..50 {
        check_neighbours(&mut neighbour);
    }
    assert_eq!(code(&client.receive()), 504);
    check_neighbours(&mut neighbour);
    let stats = daemon.stats();
    assert_eq!(stats["counters"]["actorFaults"], json!(0), "it is loud, not at fault");
    assert!(stats["counters"]["eventsAccepted"].as_u64() > Some(0), "{stats}");
    assert!(daemon.resident_bytes() < 400 << 20);
    daemon.end();
}

#[test]
fn faults_of_every_kind_end_the_life_and_not_the_neighbours() {
    for deed in ["garbage", "endless line", "answer twice"] {
        let Some(daemon) = beside_echo("", QUICK, "") else { return };
        let mut client = daemon.connect();
        client.subscribe(&["Sys.ActorFault"]);
        client.send(line("command", "Hostile.Do", "f-1", &json!([deed])));
        let fault = client.event("Sys.ActorFault");
        assert_eq!(fault["data"]["capabilityId"], json!("hostile"), "{deed}: {fault}");
        check_neighbours(&mut client);
        assert_eq!(client.command("Hostile.Do", json!(["behave"])), json!(["behave"]), "{deed}");
        assert!(daemon.resident_bytes() < 400 << 20, "{deed}");
        daemon.end();
    }
}

#[test]
fn a_guest_that_does_not_read_is_given_no_more_and_its_neighbours_are_served() {
    let Some(daemon) = beside_echo("", "subscribes = [\"App.Noise\"]", "") else { return };
    let mut client = daemon.connect();
    client.send(line_with("command", "Hostile.Do", "d-1", &json!(["sleep"]), &json!({ "timeout": 60_000 })));
    let noise = json!("n".repeat(10_000));
    for number in 0..1000 {
        client.send(line("event", "App.Noise", &format!("n-{number}"), &noise));
    }
    let mut neighbour = daemon.connect();
    check_neighbours(&mut neighbour);
    eventually("it is given no more", || {
        hostile_in(&neighbour.query("Sys.Actors", json!({})))["blocked"] == json!(true)
    });
    assert!(daemon.resident_bytes() < 400 << 20);
    daemon.end();
}

#[test]
fn a_guest_that_closes_a_stream_and_goes_on_is_ended() {
    for stream in ["input", "output"] {
        let Some(daemon) = beside_echo("", QUICK, "") else { return };
        let mut client = daemon.connect();
        client.subscribe(&["Sys.ActorCrash"]);
        client.command("Hostile.Do", json!([format!("close {stream}")]));
        client.send(line("command", "Hostile.Do", "c-2", &json!(["behave"])));
        let crash = client.event("Sys.ActorCrash");
        assert!(message_of(&crash).contains(&format!("it closed its standard {stream}")), "{crash}");
        check_neighbours(&mut client);
        daemon.end();
    }
}

#[test]
fn a_program_for_wasi_is_a_capability_too_as_a_module_and_as_a_component() {
    for name in ["wasi-hello", "wasi-hello.component"] {
        let Some(path) = module(name) else { return };
        let arguments = "arguments = [\"capability\"]";
        let config = guest("plain", "query:Plain.Ask", path.to_str().unwrap(), QUICK, arguments);
        let daemon = Daemon::prepared(&config, &[], |command| {
            command.env("XDG_CACHE_HOME", cache());
        });
        let mut client = daemon.connect();
        for number in 0..3 {
            let id = format!("w-{number}");
            client.send(line("query", "Plain.Ask", &id, &json!(number)));
            assert_eq!(client.receive()["data"], json!(id), "{name}");
        }
        eventually("it waits", || find(&daemon.stats(), "plain").unwrap()["phase"] == json!("waiting"));
        daemon.end();
    }
}

#[test]
fn what_a_guest_writes_to_standard_error_is_in_the_log_within_measure() {
    let Some(daemon) = beside_echo("", QUICK, "limits = { cpu = \"100ms\" }") else { return };
    let mut client = daemon.connect();
    client.command("Hostile.Do", json!(["complain"]));
    let log = daemon.log();
    let is_named = |line: &str| line.starts_with("hostile") && line.ends_with(" | nothing is right");
    assert!(log.lines().any(is_named), "{log}");
    assert_eq!(code(&client.ask("command", "Hostile.Do", json!(["complain for ever"]))), 502);
    check_neighbours(&mut client);
    let log = daemon.log();
    let complaints = log.lines().filter(|line| line.contains("nothing is ever right")).count();
    assert!((1..2000).contains(&complaints), "{complaints} lines");
    assert!(log.contains("more lines on standard error"), "what was left out is counted");
    daemon.end();
}

#[test]
fn a_guest_connects_where_its_rules_allow_it_and_nowhere_else() {
    let (allowed, other) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let place = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    let rule = format!("allow_connect = [{:?}]", place(&allowed));
    let Some(daemon) = beside_echo("", "", &rule) else { return };
    let mut client = daemon.connect();
    assert_eq!(client.command("Hostile.Do", json!(["connect", place(&allowed)])), json!("connected"));
    assert_eq!(client.command("Hostile.Do", json!(["connect", place(&other)])), json!("PermissionDenied"));
    assert_eq!(find(&daemon.stats(), "hostile").unwrap()["refused"], json!({ "network": 1 }));
    // Its owner is told what is missing, in the log and in what the capability said last.
    let (log, words) = (daemon.log(), client.query("Sys.Logs", json!({ "capability": "hostile" })));
    let told = format!(
        "denied: it may not connect to {0}; add \"{0}\" to program.allow_connect in its manifest",
        place(&other)
    );
    assert!(log.contains(&told), "{log}");
    assert_eq!(words["lines"][0]["text"], json!(told));
    daemon.end();
}

#[test]
fn a_guest_is_asked_to_end_before_it_is_made_to() {
    for deed in ["linger", "spin"] {
        let settings = "[timeouts]\ndrain = \"3s\"\n";
        let Some(mut daemon) = beside_echo(settings, "", "grace = \"400ms\"") else { return };
        let mut client = daemon.connect();
        client.send(line("command", "Hostile.Do", "l-1", &json!([deed])));
        if deed == "linger" {
            client.receive();
        }
        check_neighbours(&mut daemon.connect());
        daemon.signal("TERM");
        assert!(daemon.wait().success(), "{deed}");
        assert_eq!(daemon.log().contains("was interrupted"), deed == "linger", "{deed}: {}", daemon.log());
    }
}

#[test]
fn every_request_is_answered_while_a_guest_restarts_a_hundred_times() {
    const REQUESTS: usize = 300;
    let quick = "restart = { backoff_ms = 0, max_restarts = 100000, window_ms = \"1m\" }";
    let Some(daemon) = beside_echo("", quick, "") else { return };
    let (mut client, mut neighbour) = (daemon.connect(), daemon.connect());
    let deed = |number: usize| if number.is_multiple_of(3) { json!(["trap"]) } else { json!(["behave"]) };
    let many: String =
        (0..REQUESTS).map(|n| line("command", "Hostile.Do", &format!("q-{n}"), &deed(n))).collect();
    client.send(many);
    let mut outcomes = vec![None; REQUESTS];
    for seen in 0..REQUESTS {
        let answer = client.receive();
        let number: usize = answer["metadata"]["causation"].as_str().unwrap()[2..].parse().unwrap();
        assert_eq!(outcomes[number].replace(()), None, "one outcome each");
        assert_eq!(answer["kind"] == json!("reply"), !number.is_multiple_of(3), "{answer}");
        if seen % 50 == 0 {
            check_neighbours(&mut neighbour);
        }
    }
    assert_eq!(daemon.stats()["counters"]["actorCrashes"], json!(100));
    daemon.end();
}

#[test]
fn a_guest_that_was_replaced_on_disk_is_new_in_its_next_life() {
    let (Some(echo), Some(hostile)) = (module("capability"), module("hostile")) else { return };
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("guest.wasm");
    std::fs::copy(&hostile, &path).unwrap();
    let config = guest("hostile", "command:Hostile.Do", path.to_str().unwrap(), QUICK, "");
    let daemon = Daemon::prepared(&config, &[], |command| {
        command.env("XDG_CACHE_HOME", cache());
    });
    let mut client = daemon.connect();
    let aside = folder.path().join("aside");
    std::fs::copy(&echo, &aside).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(code(&client.ask("command", "Hostile.Do", json!(["trap"]))), 502);
    assert_eq!(client.command("Hostile.Do", json!(["trap"])), json!(["trap"]), "the other one does not trap");
    daemon.end();
}

#[test]
fn a_module_that_cannot_run_fails_the_boot_with_a_reason() {
    let folder = tempfile::TempDir::new().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("broken.wasm", b"\0asm\x01\0\0\0\x01\xff\xff");
    write("mainspring.toml", guest("broken", "query:Broken.Ask", "broken.wasm", "", "").as_bytes());
    let output = mainspring()
        .args(["up", "--config"])
        .arg(folder.path().join("mainspring.toml"))
        .arg("--socket")
        .arg(folder.path().join("socket"))
        .env("XDG_CACHE_HOME", cache())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("broken.wasm: cannot compile the guest"), "{text}");
}

#[test]
fn a_module_beyond_its_bounds_is_refused_with_the_key_that_raises_them() {
    let folder = tempfile::TempDir::new().unwrap();
    let Some(echo) = module("capability") else { return };
    let check = |program: &str| {
        let config = guest("echo", "query:Echo.Say", echo.to_str().unwrap(), "", program);
        std::fs::write(folder.path().join("mainspring.toml"), config).unwrap();
        let output = mainspring()
            .arg("check")
            .arg(folder.path().join("mainspring.toml"))
            .env("XDG_CACHE_HOME", folder.path())
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    for (limit, words) in [
        ("module = \"1KiB\"", "`limits.module` of its program raises that"),
        ("function = \"10B\"", "`limits.function` of its program raises that"),
        ("compile_time = \"1ms\"", "compiling the guest takes more than 1ms of CPU time"),
    ] {
        let (passed, said) = check(&format!("limits = {{ {limit} }}"));
        assert!(!passed && said.contains(words), "{limit}: {said}");
    }
    let (passed, said) = check(
        "limits = { module = \"1GiB\", function = \"1GiB\", compile_time = \"5m\", compile_memory = \"4GiB\" }",
    );
    assert!(passed, "{said}");
}

/// `(module (func (export "_start") unreachable))`
const TRAPS_AT_ITS_START: &[u8] =
    b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x05\x01\x03\0\0\x0b";

#[test]
fn a_guest_that_traps_at_its_start_is_a_crash_of_that_capability_alone() {
    let folder = tempfile::TempDir::new().unwrap();
    let Some(echo) = module("capability") else { return };
    let path = folder.path().join("traps.wasm");
    std::fs::write(&path, TRAPS_AT_ITS_START).unwrap();
    // Compiled anew, the other one takes longer than this one's whole life.
    let config = guest("echo", "query:Echo.Say", echo.to_str().unwrap(), "", "")
        + &guest("hostile", "query:Traps.Ask", path.to_str().unwrap(), QUICK, "");
    let daemon = Daemon::prepared(&config, &[], |command| {
        command.env("XDG_CACHE_HOME", folder.path());
    });
    let mut client = daemon.connect();
    check_neighbours(&mut client);
    eventually("its restarts are used up", || {
        hostile_in(&client.query("Sys.Actors", json!({})))["state"] == json!("unhealthy")
    });
    assert!(daemon.log().contains("it trapped: "), "{}", daemon.log());
    daemon.end();
}

#[test]
fn a_module_that_is_no_file_is_refused_and_not_waited_for() {
    let folder = tempfile::TempDir::new().unwrap();
    let pipe = folder.path().join("pipe.wasm");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = guest("pipe", "query:Pipe.Ask", pipe.to_str().unwrap(), "", "");
    std::fs::write(folder.path().join("mainspring.toml"), config).unwrap();
    let mut up = mainspring();
    up.args(["up", "--config"]).arg(folder.path().join("mainspring.toml"));
    up.arg("--socket").arg(folder.path().join("socket"));
    let output = up.env("XDG_CACHE_HOME", cache()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("pipe.wasm is not a file"), "{said}");
}
