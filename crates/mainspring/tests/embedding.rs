//! The daemon as a library: a program runs one with capabilities of its own.

use mainspring::daemon::{Native, Natives, Options, Port, Report, run};
use mainspring::settings::{Capability, Listener, Program, Settings};
use mainspring_message::{Draft, Envelope};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Counts what it is asked, and panics when it is asked for that.
#[derive(Default)]
struct Moody {
    asked: u64,
}

impl Native for Moody {
    fn handle(&mut self, message: &Envelope, port: &Port) {
        assert!(message.data() != "\"panic\"", "as it was asked to");
        self.asked += 1;
        port.message(Draft::reply(message, json!(self.asked).into()));
    }

    fn stats(&self) -> Value {
        json!({ "asked": self.asked })
    }
}

fn settings(socket: &std::path::Path) -> Settings {
    let manifest = json!({
        "id": "moody", "description": "Panics when it is asked to.",
        "inbound": { "properties": { "kind": { "const": "query" }, "type": { "const": "Moody.Ask" } } },
        "restart": { "backoff_ms": 10 },
    });
    let moody = Capability {
        manifest: serde_json::from_value(manifest).unwrap(),
        program: Program::Native("moody".into()),
        file: None,
    };
    let mut settings = mainspring::config::defaults();
    settings.listeners = vec![Listener::Unix { path: socket.to_owned() }];
    settings.capabilities.push(moody);
    settings
}

#[test]
fn a_native_capability_that_panics_is_made_anew_and_nobody_else_notices() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let settings = settings(&socket);
    let daemon = std::thread::spawn(move || {
        let mut natives = Natives::built_in();
        natives.add("moody", || Box::new(Moody::default()));
        run(settings, Options { report: Report::Quiet, natives, ..Options::default() }).unwrap()
    });
    let stream = connect(&socket);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut count = 0;
    let mut ask = |kind: &str, name: &str, data: Value| -> Value {
        count += 1;
        let message = json!({ "kind": kind, "type": name, "data": data, "metadata": { "id": format!("q-{count}"), "timestamp": 1 } });
        writeln!(&stream, "{message}").unwrap();
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    assert_eq!(ask("query", "Moody.Ask", json!(1))["data"], json!(1));
    assert_eq!(ask("query", "Moody.Ask", json!(1))["data"], json!(2));
    let crash = ask("query", "Moody.Ask", json!("panic"));
    assert_eq!(crash["data"]["code"], json!(502), "{crash}");
    assert!(crash["data"]["message"].as_str().unwrap().contains("panicked: as it was asked to"), "{crash}");
    assert_eq!(ask("command", "Memory.Set", json!({ "key": "a", "value": 1 }))["kind"], json!("reply"));
    assert_eq!(ask("query", "Moody.Ask", json!(1))["data"], json!(1), "a new life counts anew");
    assert_eq!(ask("command", "Syscall.Shutdown", json!({}))["kind"], json!("reply"));
    assert_eq!(daemon.join().unwrap(), 0);
    assert!(!socket.exists());
}

fn connect(socket: &std::path::Path) -> UnixStream {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
