//! The console as far as the daemon and the command go. The page itself is tested in a browser:
//! `cargo xtask console`.

use crate::support::{Daemon, PATIENCE, eventually, mainspring};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

const CONFIG: &str = r#"
[[listen]]
http = "127.0.0.1:0"
tokens = [{ name = "ann", token = "0123456789abcdef", operator = true }]
"#;

/// What the command prints: where the page is, and the token.
fn console(daemon: &Daemon) -> (String, String) {
    let output = mainspring().args(["console", "--print", "--socket"]).arg(daemon.socket()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (url, once) = text.trim_end().split_once("/#t=").unwrap_or_else(|| panic!("{text}"));
    (url.strip_prefix("http://").unwrap().to_owned(), once.to_owned())
}

/// One request; its status and body.
fn ask(place: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let authorization =
        if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n{authorization}Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Swaps a one-time token for a session.
fn session(place: &str, once: &str) -> (u16, String) {
    let (status, body) = ask(place, "POST", "/v1/console/session", "", &json!({ "token": once }).to_string());
    let told: Value = serde_json::from_str(&body).unwrap();
    (status, told["session"].as_str().unwrap_or_default().to_owned())
}

/// What a session may do.
fn rights(place: &str, session: &str) -> Value {
    let (status, body) = ask(place, "POST", "/v1/commands/Sys.Restrict", session, "{}");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn the_console_opens_once_by_the_address_that_the_command_prints() {
    let daemon = Daemon::with_config(CONFIG);
    let (place, once) = console(&daemon);
    let (status, page) = ask(&place, "GET", "/", "", "");
    assert!(status == 200 && page.contains("/console.js"), "{page}");
    let (status, session_text) = session(&place, &once);
    assert_eq!(status, 200);
    assert_eq!(session(&place, &once).0, 401, "it opened a second session");
    let rights = rights(&place, &session_text);
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(
        (&rights["peer"], &rights["operator"], &rights["allow"]),
        (&json!(format!("user:{user}")), &json!(true), &json!(["*"]))
    );
    for secret in [&once, &session_text] {
        assert!(!daemon.log().contains(secret), "a secret is in the log");
    }
    daemon.end();
}

#[test]
fn a_daemon_without_http_listens_for_the_console_when_it_is_asked_for() {
    let daemon = Daemon::start();
    let before = daemon.descriptors();
    let (place, once) = console(&daemon);
    assert!(place.starts_with("127.0.0.1:"), "{place}");
    assert_eq!(console(&daemon).0, place, "one place for all of them");
    let (status, session_text) = session(&place, &once);
    assert_eq!(status, 200);
    assert_eq!(rights(&place, &session_text)["operator"], json!(true));
    let (status, _) = ask(&place, "POST", "/v1/queries/Syscall.Ping", "", "1");
    assert_eq!(status, 401, "whoever has no session is nobody");
    // The socket, and the descriptor that is kept for turning somebody away.
    eventually("clients are gone", || daemon.descriptors() <= before + 2);
    daemon.end();
    assert!(TcpStream::connect(&place).is_err(), "somebody still listens");
}

#[test]
fn a_token_does_not_open_a_console_of_its_daemons_owner() {
    let daemon = Daemon::with_config(CONFIG);
    let (place, _) = console(&daemon);
    let (status, body) = ask(&place, "POST", "/v1/commands/Sys.Console", "0123456789abcdef", "{}");
    assert!(status == 403 && body.contains("sign in"), "{status} {body}");
    daemon.end();
}

#[test]
fn a_session_of_the_console_outlives_a_restart_of_the_daemon() {
    let daemon = Daemon::with_config(CONFIG);
    let (place, once) = console(&daemon);
    let session_text = session(&place, &once).1;
    let key = daemon.path("socket.console");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read(&key).unwrap();
    daemon.end();
    // The next one in another folder, with the same key beside its socket.
    let next = Daemon::with_config(CONFIG);
    let path = next.path("socket.console");
    std::fs::write(&path, kept).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let adapters = next.boot["data"]["adapters"].as_array().unwrap();
    let place = adapters.iter().find_map(|adapter| adapter.as_str()?.strip_prefix("http:http://")).unwrap();
    assert_eq!(rights(place, &session_text)["operator"], json!(true));
    next.end();
    let stranger = Daemon::with_config(CONFIG);
    let (place, _) = console(&stranger);
    let (status, _) = ask(&place, "POST", "/v1/queries/Syscall.Ping", &session_text, "1");
    assert_eq!(status, 401, "another daemon's session");
    stranger.end();
}

#[test]
fn the_browser_finds_the_address_in_a_file_and_not_on_its_command_line() {
    let daemon = Daemon::with_config(CONFIG);
    let browser = daemon.path("browser.sh");
    let told = daemon.path("told");
    std::fs::write(&browser, format!("#!/bin/sh\nprintf '%s' \"$1\" > '{}'\n", told.display())).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o700)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Without the usual program the one that BROWSER names is started.
    let output = mainspring()
        .args(["console", "--socket"])
        .arg(daemon.socket())
        .env("BROWSER", &browser)
        .env("PATH", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let url = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
    let read = || std::fs::read_to_string(&told).unwrap_or_default();
    eventually("the browser was started", || read().ends_with(".html"));
    let path = std::path::PathBuf::from(read());
    assert_eq!(path.parent(), Some(folder.path()), "{path:?} is no file of ours");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&path).unwrap().contains(&format!("url={url}")));
    daemon.end();
}
