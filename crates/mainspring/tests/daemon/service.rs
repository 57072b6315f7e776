//! The daemon as a service: readiness, logs, numbers.

use crate::support::{Client, Daemon, PATIENCE, eventually, process, start_at};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

#[test]
fn the_service_manager_is_told_of_readiness_reloads_and_the_end() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut buffer = [0; 256];
        let count = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).lines().next().unwrap().to_owned()
    };
    let daemon = Daemon::prepared("", &[], |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert_eq!(hear(), "READY=1");
    daemon.signal("HUP");
    assert_eq!(hear(), "RELOADING=1");
    assert_eq!(hear(), "READY=1");
    daemon.end();
    assert_eq!(hear(), "STOPPING=1");
}

#[test]
fn children_are_not_the_service_and_do_not_see_its_socket() {
    let script = r#"read -r line
id=${line#*'"id":"'}; id=${id%%'"'*}
printf '{"kind":"reply","type":"Env.Ask","data":"%s","metadata":{"id":"r","timestamp":1,"causation":"%s"}}\n' "${NOTIFY_SOCKET-none}" "$id"
cat"#;
    let config = process("env", &["query:Env.Ask"], &["sh", "env.sh"], "");
    let daemon = Daemon::prepared(&config, &[("env.sh", script)], |command| {
        command.env("NOTIFY_SOCKET", "@nobody-listens-here");
    });
    assert_eq!(daemon.connect().query("Env.Ask", json!(1)), json!("none"));
    daemon.end();
}

#[test]
fn the_log_can_be_json_with_the_name_of_who_complains() {
    let config = process("loud", &["query:Loud.Ask"], &["sh", "-c", "echo 'an \"odd\" line' >&2; cat"], "");
    let daemon = Daemon::prepared(&config, &[], |command| {
        command.arg("--log-json");
    });
    let complaint = || -> Option<Value> {
        let lines = daemon.log();
        let parsed = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        parsed.into_iter().find(|line| line["capability"] == json!("loud"))
    };
    eventually("it is in the log", || complaint().is_some());
    let complaint = complaint().unwrap();
    assert_eq!((&complaint["level"], &complaint["message"]), (&json!("INFO"), &json!("an \"odd\" line")));
    daemon.end();
}

/// Has a daemon whose log tells everything write so many lines: each client that comes and goes is two.
fn fill_log(socket: &Path, lines: usize) {
    for _ in 0..lines / 2 {
        UnixStream::connect(socket).unwrap();
    }
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("s");
    let mut child = start_at(&socket, &["--log-level", "debug"], Stdio::piped());
    // Far more than a pipe holds.
    fill_log(&socket, 2000);
    let mut client = Client::new(UnixStream::connect(&socket).unwrap());
    client.query("Syscall.Ping", json!(1));
    drop(child.stderr.take());
    client.query("Syscall.Ping", json!(2));
    client.command("Syscall.Shutdown", json!({}));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_log_that_is_read_again_tells_what_is_missing_though_nothing_more_is_logged() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("s");
    let mut child = start_at(&socket, &["--log-json", "--log-level", "debug"], Stdio::piped());
    fill_log(&socket, 5000);
    let mut client = Client::new(UnixStream::connect(&socket).unwrap());
    eventually("all have been heard", || {
        client.query("Sys.Stats", json!({}))["gauges"]["connections"] == json!(1)
    });
    // Nobody sends anything from here on: what is told is told by itself.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let (tell, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(lines.find(|line| line.contains("lines of the log were dropped"))));
    let told = heard.recv_timeout(PATIENCE);
    if told.is_err() {
        let _ = child.kill();
    }
    let told: Value = serde_json::from_str(&told.unwrap().unwrap()).unwrap();
    assert_eq!(told["level"], json!("WARN"));
    client.command("Syscall.Shutdown", json!({}));
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_numbers_tell_of_every_floor() {
    let config = process("cat", &["query:Cat.Ask"], &["sh", "-c", "cat > /dev/null"], "");
    let daemon = Daemon::with_config(&config);
    daemon.connect().command("Memory.Set", json!({ "key": "a", "value": "12345" }));
    let stats = daemon.stats();
    let floors = &stats["floors"];
    assert!(floors["loop"]["turns"].as_u64().unwrap() > 0);
    assert!(floors["clients"]["bytesIn"].as_u64().unwrap() > 100);
    assert_eq!(floors["actors"]["Memory"], json!({ "keys": 1, "bytes": 8 }));
    assert!(floors["actors"]["cat"]["pid"].as_u64().unwrap() > 1);
    assert!(stats["counters"]["requestsAccepted"].as_u64().unwrap() >= 2);
    daemon.end();
}
