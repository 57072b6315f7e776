//! The daemon as a service: readiness, logs, numbers.

use crate::support::{Client, Daemon, PATIENCE, eventually, process, start_at};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
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
fn the_service_managers_watchdog_hears_from_a_daemon_that_has_nothing_to_do() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let daemon = Daemon::prepared("", &[], |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    });
    let mut heard = Vec::new();
    while heard.iter().filter(|word| *word == "WATCHDOG=1").count() < 3 {
        let mut buffer = [0; 256];
        let count = manager.recv(&mut buffer).unwrap();
        heard.push(String::from_utf8_lossy(&buffer[..count]).lines().next().unwrap().to_owned());
    }
    assert!(heard.contains(&"READY=1".to_owned()), "{heard:?}");
    daemon.end();
}

/// A daemon that is started as a service manager starts it, with this socket as its descriptor 3.
fn start_with_socket(socket: OwnedFd, words: &[&str], log: Stdio) -> Child {
    let script = r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_mainspring"), "up"]).args(words);
    command.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

#[test]
fn a_unix_socket_that_the_service_manager_passed_is_served_and_stays_where_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // It may be connected to before there is a daemon.
    let early = UnixStream::connect(&path).unwrap();
    let words = ["--no-config", "--socket", path.to_str().unwrap()];
    let mut child = start_with_socket(listener.into(), &words, Stdio::null());
    let mut client = Client::new(early);
    assert_eq!(client.query("Syscall.Ping", json!("early")), json!("early"));
    client.command("Syscall.Shutdown", json!({}));
    assert!(child.wait().unwrap().success());
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["socket"], "the service manager's socket stays, and no lock was needed");
}

#[test]
fn a_tcp_socket_that_the_service_manager_passed_is_served_with_its_tokens() {
    let folder = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = folder.path().join("mainspring.toml");
    let token = "0123456789abcdef";
    let text = format!(
        "[[listen]]\ntcp = \"{address}\"\ntokens = [{{ name = \"ann\", token = \"{token}\", operator = true }}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let early = TcpStream::connect(address).unwrap();
    let mut child =
        start_with_socket(listener.into(), &["--config", config.to_str().unwrap()], Stdio::null());
    let mut lines = BufReader::new(early.try_clone().unwrap()).lines();
    writeln!(&early, "{{\"token\":\"{token}\"}}").unwrap();
    let ask = |kind: &str, name: &str| {
        writeln!(
            &early,
            r#"{{"kind":"{kind}","type":"{name}","data":{{}},"metadata":{{"id":"{name}","timestamp":0}}}}"#
        )
        .unwrap();
    };
    ask("query", "Sys.Stats");
    let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&answer["kind"], &answer["type"]), (&json!("reply"), &json!("Sys.Stats")));
    ask("command", "Syscall.Shutdown");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_passed_socket_that_no_listener_names_is_not_used_and_the_log_says_so() {
    let folder = TempDir::new().unwrap();
    let (passed, named) = (folder.path().join("passed"), folder.path().join("named"));
    let listener = UnixListener::bind(&passed).unwrap();
    let words = ["--no-config", "--socket", named.to_str().unwrap()];
    let mut child = start_with_socket(listener.into(), &words, Stdio::piped());
    eventually("it listens", || UnixStream::connect(&named).is_ok());
    assert!(UnixStream::connect(&passed).is_err(), "nobody listens there any more");
    Client::new(UnixStream::connect(&named).unwrap()).command("Syscall.Shutdown", json!({}));
    let mut log = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut log).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(log.contains("which no `[[listen]]` names; it is not used"), "{log}");
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

/// Has a daemon whose log tells everything write so many lines: each client that comes and goes is
/// two.
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
