//! Commands that reach their daemon by TCP.

use crate::fake::{command, stderr, stdout};
use crate::real::Real;
use crate::shop::reserve_port;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const TOKEN: &str = "0123456789abcdef";

fn daemon() -> Real {
    Real::start(&format!(
        "[[listen]]\ntcp = '127.0.0.1:0'\ntokens = [{{ name = 'ann', token = '{TOKEN}', operator = true }}]\n"
    ))
}

/// A file with a token that only its owner may read.
fn token_file(daemon: &Real, token: &str) -> PathBuf {
    let path = daemon.folder().join("token");
    fs::write(&path, format!("{token}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// A command that can find the daemon by TCP alone: it runs where no `mainspring.toml` is.
fn by_tcp(daemon: &Real, arguments: &[&str]) -> Command {
    let elsewhere = daemon.folder().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let mut command = command(arguments, &elsewhere);
    command.args(["--tcp", daemon.tcp()]).stdin(Stdio::null());
    command
}

fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output).to_owned()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn every_command_works_by_tcp() {
    let daemon = daemon();
    let file = token_file(&daemon, TOKEN);
    let run = |arguments: &[&str]| ok(by_tcp(&daemon, arguments).arg("--token-file").arg(&file));
    assert_eq!(
        run(&["send", "Memory.Set", r#"{"key":"a","value":1}"#, "--correlation", "w"]),
        "{\"created\":true}\n"
    );
    assert_eq!(run(&["query", "Memory.Get", r#"{"key":"a"}"#]), "{\"value\":1}\n");
    assert!(run(&["emit", "App.Done"]).starts_with("nobody took it: "));
    assert!(run(&["describe"]).contains("Memory.Set"));
    assert!(run(&["actors"]).contains("Memory"));
    assert_eq!(run(&["timers"]), "no timers\n");
    assert_eq!(run(&["dead-letters"]), "no dead letters\n");
    assert_eq!(
        run(&["dead-letters", "drop", "--all"]),
        "0 dropped\n",
        "the flags may stand behind the action"
    );
    assert!(run(&["trace", "w"]).contains("command Memory.Set  client -> Memory  reply"));
    assert!(run(&["top", "--interval", "50ms"]).contains("CAPABILITY"));
    let figures = run(&["bench", "--duration", "20ms", "--connections", "2", "--depth", "8", "--json"]);
    let figures: Value = serde_json::from_str(&figures).unwrap();
    assert!(figures["cases"][0]["replies"].as_u64() > Some(0), "{figures}");
}

#[test]
fn pipe_and_watch_work_by_tcp() {
    let daemon = daemon();
    let mut watch = by_tcp(&daemon, &["watch", "--json", "--count", "1", "App.*"])
        .env("MAINSPRING_TOKEN", TOKEN)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = by_tcp(&daemon, &["pipe"])
        .env("MAINSPRING_TOKEN", TOKEN)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "{\"kind\":\"event\",\"type\":\"App.Done\"}\n{\"kind\":\"query\",\"type\":\"Syscall.Ping\",\"data\":7}\n";
    pipe.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let piped = pipe.wait_with_output().unwrap();
    assert!(piped.status.success() && stdout(&piped).contains("\"data\":7"), "{}", stdout(&piped));
    // Events before the subscription are not for it, so they are repeated until it has one.
    while watch.try_wait().unwrap().is_none() {
        daemon.ok(&["emit", "App.Done"]);
    }
    let watched = watch.wait_with_output().unwrap();
    assert!(watched.status.success() && stdout(&watched).contains("App.Done"), "{}", stdout(&watched));
}

#[test]
fn variables_name_the_door_and_the_token_and_flags_come_before_them() {
    let daemon = daemon();
    let file = token_file(&daemon, TOKEN);
    let ping = ["query", "Syscall.Ping", "1"];
    let elsewhere = tempfile::tempdir().unwrap();
    let by_variable = || {
        let mut command = command(&ping, elsewhere.path());
        command.env("MAINSPRING_TCP", daemon.tcp()).stdin(Stdio::null());
        command
    };
    assert_eq!(ok(by_variable().env("MAINSPRING_TOKEN", TOKEN)), "1\n");
    assert_eq!(ok(by_variable().env("MAINSPRING_TOKEN_FILE", &file)), "1\n");
    assert_eq!(ok(by_variable().env("MAINSPRING_TOKEN", "wrong").arg("--token-file").arg(&file)), "1\n");
    assert_eq!(
        ok(by_tcp(&daemon, &ping).env("MAINSPRING_TCP", "nowhere").env("MAINSPRING_TOKEN", TOKEN)),
        "1\n"
    );
    // The door that is asked for is the one that is used.
    let socket = daemon.folder().join("it.sock");
    assert_eq!(ok(by_variable().env("MAINSPRING_TCP", "nowhere").arg("--socket").arg(socket)), "1\n");
}

#[test]
fn a_missing_or_wrong_token_is_told_and_never_shown() {
    let daemon = daemon();
    let ping = ["query", "Syscall.Ping"];
    let missing = by_tcp(&daemon, &ping).output().unwrap();
    assert_eq!(code(&missing), Some(2));
    assert!(stderr(&missing).contains("--token-file") && stderr(&missing).contains("MAINSPRING_TOKEN"));
    for arguments in [&ping[..], &["watch"], &["pipe"], &["top"], &["emit", "App.Done"]] {
        let wrong =
            by_tcp(&daemon, arguments).env("MAINSPRING_TOKEN", "not-the-token-at-all").output().unwrap();
        assert_eq!(code(&wrong), Some(1), "{arguments:?}");
        let text = stderr(&wrong);
        assert!(text.contains("does not take this token") && text.contains(daemon.tcp()), "{text}");
        assert!(!text.contains("not-the-token-at-all"), "{text}");
    }
    let file = token_file(&daemon, TOKEN);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let readable = by_tcp(&daemon, &ping).arg("--token-file").arg(&file).output().unwrap();
    assert_eq!(code(&readable), Some(2));
    assert!(stderr(&readable).contains("chmod 600"), "{}", stderr(&readable));
    let absent = by_tcp(&daemon, &ping).args(["--token-file", "absent"]).output().unwrap();
    assert_eq!(code(&absent), Some(2));
    assert!(stderr(&absent).contains("absent: there is no such file"), "{}", stderr(&absent));
}

#[test]
fn a_place_that_cannot_be_a_daemon_is_told_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |place: &str| {
        let mut command = command(&["query", "Syscall.Ping", "--tcp", place], folder.path());
        let output = command.env("MAINSPRING_TOKEN", TOKEN).output().unwrap();
        (output.status.code().unwrap(), stderr(&output).to_owned())
    };
    for place in ["7700", "127.0.0.1", "127.0.0.1:0", ":7700", "127.0.0.1:99999"] {
        let (code, text) = ask(place);
        assert!(code == 2 && text.contains("such as 127.0.0.1:7700"), "{text}");
    }
    let (code, text) = ask("192.0.2.1:7700");
    assert!(code == 2 && text.contains("unencrypted") && text.contains("ssh -L"), "{text}");
    let (_held, port) = reserve_port();
    let free = format!("127.0.0.1:{port}");
    let (code, text) = ask(&free);
    assert!(code == 3 && text.contains(&format!("no daemon listens at {free}")), "{text}");
    let output = command(&["query", "Syscall.Ping", "--token-file", "x"], folder.path()).output().unwrap();
    assert!(output.status.code() == Some(2) && stderr(&output).contains("--tcp"), "{}", stderr(&output));
}

#[test]
fn what_is_not_a_daemon_is_told_apart_from_one() {
    for greeting in ["", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let stranger = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Read first: what is closed with bytes unread is reset.
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(greeting.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(&["query", "Syscall.Ping", "--tcp", &place], folder.path());
        let output = command.env("MAINSPRING_TOKEN", TOKEN).output().unwrap();
        stranger.join().unwrap();
        assert_eq!(code(&output), Some(3));
        assert!(stderr(&output).contains("does not answer like a daemon"), "{}", stderr(&output));
    }
}

#[test]
fn a_configuration_with_a_tcp_door_alone_is_enough_to_find_the_daemon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[[listen]]\ntcp = '{}'\ntokens = [{{ name = 'ann', token = '{TOKEN}', operator = true }}]\n",
        listener.local_addr().unwrap()
    );
    fs::write(folder.path().join("mainspring.toml"), config).unwrap();
    let fake = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), format!("{{\"token\":\"{TOKEN}\"}}"));
        for line in lines {
            let request: Value = serde_json::from_str(&line).unwrap();
            let answer = serde_json::json!({ "kind": "reply", "type": request["type"], "data": "here",
                "metadata": { "id": "a", "timestamp": 1, "causation": request["metadata"]["id"] } });
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
    });
    assert_eq!(ok(&mut command(&["query", "Syscall.Ping"], folder.path())), "\"here\"\n");
    fake.join().unwrap();
}

#[test]
fn a_daemon_that_turns_clients_away_is_quoted() {
    let daemon = Real::start("[limits]\nconnections_max = 1\n");
    let mut first = std::os::unix::net::UnixStream::connect(daemon.folder().join("it.sock")).unwrap();
    let ping = "{\"kind\":\"query\",\"type\":\"Syscall.Ping\",\"data\":1,\"metadata\":{\"id\":\"a\",\"timestamp\":1}}\n";
    first.write_all(ping.as_bytes()).unwrap();
    BufReader::new(first.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
    for arguments in [&["query", "Syscall.Ping"][..], &["watch"]] {
        let output = daemon.run(arguments);
        assert_eq!(code(&output), Some(1));
        assert!(stderr(&output).contains("refused the connection (503)"), "{}", stderr(&output));
    }
}
