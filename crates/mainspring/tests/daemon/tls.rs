//! TCP with TLS, by the daemon and by the commands: the certificates are those of the tests of
//! `crates/http`.

use crate::support::{Daemon, PATIENCE, eventually, mainspring};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Output;

const TOKEN: &str = "0123456789abcdef";

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../http/tests/data").join(name);
    path.canonicalize().unwrap().display().to_string()
}

fn config(client_ca: &str) -> String {
    let (certificate, key) = (file("server.pem"), file("server.key"));
    format!(
        "[[listen]]\ntcp = \"127.0.0.1:0\"\ntokens = [{{ name = \"ann\", token = \"{TOKEN}\", operator = true }}]\n\
         tls = {{ certificate = {certificate:?}, key = {key:?}{client_ca} }}\n"
    )
}

/// The port, under the name that the certificate has.
fn place(daemon: &Daemon) -> String {
    let mut adapters = daemon.boot["data"]["adapters"].as_array().unwrap().iter();
    let place = adapters.find_map(|adapter| adapter.as_str()?.strip_prefix("tcp:")).unwrap();
    place.replace("127.0.0.1", "localhost")
}

/// A command of the program, by TCP.
fn run(daemon: &Daemon, words: &[&str], more: &[&str]) -> Output {
    let mut command = mainspring();
    command.args(words).args(["--tcp", &place(daemon)]).args(more).env("MAINSPRING_TOKEN", TOKEN);
    command.output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_commands_reach_a_daemon_by_tls() {
    let daemon = Daemon::with_config(&config(""));
    let trust = ["--tls-ca", &file("authority.pem")];
    let long = "x".repeat(100_000);
    let value = json!({ "key": "a", "value": long }).to_string();
    let set = run(&daemon, &["send", "Memory.Set", &value], &trust);
    assert!(set.status.success(), "{}", told(&set));
    assert_eq!(daemon.connect().query("Memory.Get", json!({ "key": "a" }))["value"], json!(long));
    let get = run(&daemon, &["query", "Memory.Get", "{\"key\":\"a\"}"], &trust);
    assert!(get.status.success() && get.stdout.len() > 100_000, "{}", told(&get));
    daemon.end();
}

#[test]
fn many_requests_by_one_encrypted_connection_are_all_answered() {
    let daemon = Daemon::with_config(&config(""));
    let requests: String =
        (0..2000).map(|n| format!("command Memory.Set {{\"key\":\"k\",\"value\":{n}}}\n")).collect();
    let lines: String = requests
        .lines()
        .enumerate()
        .map(|(n, line)| {
            let data = line.splitn(3, ' ').nth(2).unwrap();
            format!("{{\"kind\":\"command\",\"type\":\"Memory.Set\",\"data\":{data},\"metadata\":{{\"id\":\"c-{n}\",\"timestamp\":1}}}}\n")
        })
        .collect();
    let mut command = mainspring();
    command
        .args(["pipe", "--tcp", &place(&daemon), "--tls-ca", &file("authority.pem")])
        .env("MAINSPRING_TOKEN", TOKEN);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2000);
    daemon.end();
}

#[test]
fn nobody_is_told_anything_without_encryption_and_nobody_is_trusted_by_chance() {
    let daemon = Daemon::with_config(&config(""));
    let mut plain = TcpStream::connect(place(&daemon)).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(format!("{{\"token\":\"{TOKEN}\"}}\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer[0] == 21, "an alert and nothing else: {answer:?}");
    // The client's own certificate signs nobody's.
    let distrust = run(&daemon, &["query", "Syscall.Ping"], &["--tls-ca", &file("client.pem")]);
    assert!(
        !distrust.status.success() && told(&distrust).contains("cannot be encrypted"),
        "{}",
        told(&distrust)
    );
    let by_address = place(&daemon).replace("localhost", "127.0.0.1");
    let mut other_name = mainspring();
    other_name.args(["query", "Syscall.Ping", "--tcp", &by_address, "--tls-ca", &file("authority.pem")]);
    let other_name = other_name.env("MAINSPRING_TOKEN", TOKEN).output().unwrap();
    assert!(
        !other_name.status.success() && told(&other_name).contains("certificate"),
        "{}",
        told(&other_name)
    );
    eventually("nobody is left", || daemon.stats()["floors"]["clients"]["open"] == 1);
    daemon.end();
}

#[test]
fn with_client_ca_a_client_without_a_certificate_is_not_served() {
    let client_ca = format!(", client_ca = {:?}", file("authority.pem"));
    let daemon = Daemon::with_config(&config(&client_ca));
    let authority = file("authority.pem");
    let without = run(&daemon, &["query", "Syscall.Ping"], &["--tls-ca", &authority]);
    assert!(
        !without.status.success() && told(&without).contains("cannot be encrypted"),
        "{}",
        told(&without)
    );
    let (certificate, key) = (file("client.pem"), file("client.key"));
    let shown = ["--tls-ca", &authority, "--tls-certificate", &certificate, "--tls-key", &key];
    let with = run(&daemon, &["query", "Syscall.Ping"], &shown);
    assert!(with.status.success(), "{}", told(&with));
    let half = run(&daemon, &["query", "Syscall.Ping"], &["--tls-ca", &authority, "--tls-key", &key]);
    assert_eq!(half.status.code(), Some(2), "{}", told(&half));
    daemon.end();
}

#[test]
fn a_handshake_that_does_not_come_counts_as_a_stranger_and_holds_nobody_up() {
    let daemon = Daemon::with_config(&config(""));
    let strangers: Vec<TcpStream> = (0..50)
        .map(|n| {
            let mut stream = TcpStream::connect(place(&daemon)).unwrap();
            // Half of a record, or nothing.
            stream.write_all(&[0x16, 3, 1, 2, 0, 1][..6 * (n % 2)]).unwrap();
            stream
        })
        .collect();
    let served = run(&daemon, &["query", "Syscall.Ping"], &["--tls-ca", &file("authority.pem")]);
    assert!(served.status.success(), "{}", told(&served));
    drop(strangers);
    eventually("they are gone", || daemon.stats()["floors"]["clients"]["open"] == 1);
    daemon.end();
}
