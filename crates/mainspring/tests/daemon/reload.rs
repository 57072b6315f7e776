//! SIGHUP: what has changed is replaced, what has not is left alone, and no message is lost.

use crate::support::{
    Client, Daemon, code, eventually, line, mainspring, process, signal_process, with_programs,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use tempfile::TempDir;

fn answering(word: &str) -> String {
    format!("import lib, os\nlib.serve(lambda m: [{word:?}, os.getpid()])\n")
}

fn two() -> Daemon {
    let config = "[timeouts]\ndefault = \"10m\"\n".to_owned()
        + &process("first", &["query:First.Ask"], &["python3", "first.py"], "")
        + &process("second", &["query:Second.Ask"], &["python3", "second.py"], "");
    with_programs(&config, &[("first.py", &answering("one")), ("second.py", &answering("one"))])
}

fn reloaded(client: &mut Client, daemon: &Daemon) -> Value {
    daemon.signal("HUP");
    client.event("Sys.CapabilityReloaded")
}

#[test]
fn a_program_that_changed_is_replaced_and_the_others_are_left_alone() {
    let daemon = two();
    let mut client = daemon.connect();
    client.subscribe(&["Sys.CapabilityReloaded"]);
    let (first, second) = (client.query("First.Ask", json!(1)), client.query("Second.Ask", json!(1)));
    std::fs::write(daemon.path("first.py"), answering("two")).unwrap();
    assert_eq!(reloaded(&mut client, &daemon)["data"]["capabilityId"], json!("first"));
    let after = client.query("First.Ask", json!(1));
    assert_eq!(after[0], json!("two"));
    assert_ne!(after[1], first[1]);
    assert_eq!(client.query("Second.Ask", json!(1)), second);
    daemon.end();
}

#[test]
fn nothing_is_lost_when_programs_are_replaced_under_load() {
    const REQUESTS: usize = 2000;
    let daemon = two();
    let mut client = daemon.connect();
    let mut operator = daemon.connect();
    operator.subscribe(&["Sys.CapabilityReloaded"]);
    let many: String =
        (0..REQUESTS).map(|n| line("query", "First.Ask", &format!("q-{n}"), &json!(n))).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || writer.write_all(many.as_bytes()).unwrap());
    let mut words = std::collections::BTreeSet::new();
    for n in 0..REQUESTS {
        if n % 400 == 200 {
            std::fs::write(daemon.path("first.py"), answering(&format!("version {n}"))).unwrap();
            daemon.signal("HUP");
        }
        let answer = client.receive();
        assert_eq!(answer["kind"], json!("reply"), "{answer}");
        assert_eq!(answer["metadata"]["causation"], json!(format!("q-{n}")), "in order");
        words.insert(answer["data"][0].to_string());
    }
    sending.join().unwrap();
    operator.event("Sys.CapabilityReloaded");
    eventually("the last version answers", || {
        client.query("First.Ask", json!(0))[0] == json!("version 1800")
    });
    assert!(words.contains("\"one\""), "{words:?}");
    daemon.end();
}

#[test]
fn capabilities_come_and_go_and_change_what_they_take() {
    let daemon = two();
    let mut client = daemon.connect();
    client.subscribe(&["Sys.CapabilityReloaded", "Sys.CapabilityAdded", "Sys.CapabilityRemoved"]);
    let config = process("first", &["query:First.Ask", "query:First.Other"], &["python3", "first.py"], "")
        + &process("third", &["query:Third.Ask"], &["python3", "second.py"], "");
    assert_eq!(code(&client.ask("query", "First.Other", json!(1))), 404);
    std::fs::write(daemon.path("mainspring.toml"), config).unwrap();
    daemon.signal("HUP");
    eventually("the third answers", || client.ask("query", "Third.Ask", json!(1))["kind"] == json!("reply"));
    assert_eq!(client.query("First.Other", json!(1))[0], json!("one"));
    assert_eq!(code(&client.ask("query", "Second.Ask", json!(1))), 404);
    daemon.end();
}

#[test]
fn a_manifest_that_changed_counts_from_the_next_reload_and_not_from_a_restart() {
    let config =
        |name: &str| process("first", &[name], &["python3", "first.py"], "restart = { backoff_ms = 10 }");
    let program = "import lib, os\nlib.serve(lambda m: os._exit(1) if m['data'] == 'die' else os.getpid())\n";
    let daemon = with_programs(&config("query:First.Ask"), &[("first.py", program)]);
    let mut client = daemon.connect();
    client.subscribe(&["Sys.CapabilityReloaded"]);
    let before = client.query("First.Ask", json!(1));
    std::fs::write(daemon.path("mainspring.toml"), config("query:First.Other")).unwrap();
    assert_eq!(code(&client.ask("query", "First.Ask", json!("die"))), 502);
    assert_ne!(client.query("First.Ask", json!(1)), before, "it was restarted");
    assert_eq!(code(&client.ask("query", "First.Other", json!(1))), 404);
    reloaded(&mut client, &daemon);
    client.query("First.Other", json!(1));
    assert_eq!(code(&client.ask("query", "First.Ask", json!(1))), 404);
    daemon.end();
}

#[test]
fn what_needs_a_new_start_is_named_key_by_key_and_the_rest_is_applied() {
    let daemon = two();
    let mut client = daemon.connect();
    client.subscribe(&["Sys.CapabilityReloaded"]);
    let config = std::fs::read_to_string(daemon.path("mainspring.toml")).unwrap();
    let changed = config.replace("default = \"10m\"", "default = \"9m\"\ndrain = \"1s\"")
        + "[limits]\ntimers_max = 7\n[log]\nlevel = \"warn\"\n[[listen]]\ntcp = \"127.0.0.1:0\"\ntokens = [{ name = \"ann\", token = \"0123456789abcdef\" }]\n";
    std::fs::write(daemon.path("mainspring.toml"), changed).unwrap();
    std::fs::write(daemon.path("first.py"), answering("two")).unwrap();
    reloaded(&mut client, &daemon);
    assert_eq!(client.query("First.Ask", json!(1))[0], json!("two"));
    let log = daemon.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("when the daemon is restarted")).collect();
    let [line] = &told[..] else { panic!("{log}") };
    assert!(
        line.contains("WARN")
            && line.ends_with(": listen, timeouts.default, timeouts.drain, limits.timers_max"),
        "{line}"
    );
    daemon.end();
}

#[test]
fn a_configuration_that_was_found_and_is_gone_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let (file, log) = (folder.path().join("mainspring.toml"), folder.path().join("log"));
    std::fs::write(&file, "native = ['Memory']\n").unwrap();
    let mut child = mainspring()
        .args(["up", "--json", "--socket", "it.sock"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut boot = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut boot).unwrap();
    assert!(boot.contains("Sys.BootComplete"), "{boot}");
    std::fs::rename(&file, folder.path().join("away.toml")).unwrap();
    signal_process(child.id(), "HUP");
    let text = || std::fs::read_to_string(&log).unwrap();
    eventually("that is told", || text().contains("the configuration was not reloaded"));
    assert!(text().contains("mainspring.toml: there is no such file"), "{}", text());
    signal_process(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
    assert!(!text().contains("removed"), "{}", text());
}

#[test]
fn a_configuration_with_a_fault_changes_nothing() {
    let daemon = two();
    let mut client = daemon.connect();
    let before = client.query("First.Ask", json!(1));
    let good = std::fs::read_to_string(daemon.path("mainspring.toml")).unwrap();
    std::fs::write(daemon.path("mainspring.toml"), format!("{good}\nnonsense = 1\n")).unwrap();
    daemon.signal("HUP");
    eventually("that is told", || daemon.log().contains("the configuration was not reloaded"));
    assert!(daemon.log().contains("nonsense"), "{}", daemon.log());
    assert_eq!(client.query("First.Ask", json!(1)), before);
    // And when it is mended, it is as if nothing had been.
    std::fs::write(daemon.path("mainspring.toml"), good).unwrap();
    daemon.signal("HUP");
    eventually("nothing has changed", || daemon.log().contains("no capability has changed"));
    assert_eq!(client.query("First.Ask", json!(1)), before);
    daemon.end();
}
