//! Who may say what: the NATS accounts of the documents, and nodes that lie.

use crate::bus::{NatsServer, Plan};
use crate::support::eventually;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

/// The configuration of the page, as it stands there.
fn documented() -> String {
    let page = include_str!("../../../../docs/how-to/nodes.md");
    let block = page.split("```nats\n").nth(1).expect("a block of NATS configuration");
    block.split("```").next().expect("its end").to_owned()
}

/// A bare connection to a server, as this user.
struct Raw {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Raw {
    fn connect(nats: &NatsServer, user: &str, password: &str) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", nats.port)).expect("a connection");
        stream.set_read_timeout(Some(crate::support::PATIENCE)).expect("a timeout");
        let reader = BufReader::new(stream.try_clone().expect("a second descriptor"));
        let mut raw = Raw { stream, reader };
        raw.say(&format!(
            "CONNECT {{\"verbose\":false,\"headers\":true,\"no_responders\":true,\"user\":\"{user}\",\"pass\":\"{password}\"}}\r\nPING\r\n"
        ));
        raw.until("PONG");
        raw
    }

    fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("the server reads");
    }

    /// Reads lines until one begins with this; gives all of them.
    fn until(&mut self, start: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            assert!(self.reader.read_line(&mut all).expect("a line") > 0, "{all}");
            if all[before..].starts_with(start) {
                return all;
            }
        }
    }

    fn publish(&mut self, subject: &str, head: &str, payload: &str) {
        let length = head.len() + 1 + payload.len();
        self.say(&format!("PUB {subject} {length}\r\n{head}\n{payload}\r\nPING\r\n"));
    }
}

fn secret(node: &str) -> String {
    format!("secret-of-{node}")
}

fn plan(name: &str, nats: &NatsServer, folder: &std::path::Path) -> Plan {
    let file = folder.join(format!("password-{name}"));
    std::fs::write(&file, secret(name)).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    Plan::new(name, nats)
        .uplink(&format!("user = {name:?}\npassword_file = {:?}", file.display().to_string()))
}

const SHARED: &str = "share = true\nlimits = { concurrency = 16 }";

#[test]
fn n6_1_with_the_documented_accounts_nobody_speaks_in_anothers_name() {
    let nats = NatsServer::with_config(&documented());
    let folder = tempfile::TempDir::new().expect("a folder");
    let _b = plan("b", &nats, folder.path()).serves(SHARED).start();
    let a = plan("a", &nats, folder.path()).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    assert_eq!(a.connect().query("Test.Where", json!({}))["node"], json!("b"));
    let mut c = Raw::connect(&nats, "c", &secret("c"));
    for subject in
        ["ms.test.a.node", "ms.test.b.rep.a", "ms.test.a.req.x.command.Test.Do", "ms.test.b.evt.Test.Mark"]
    {
        c.publish(subject, "hello", "{}");
        let told = c.until("PONG");
        assert!(told.contains("Permissions Violation for Publish"), "{subject}: {told}");
    }
    // And it does not hear what is for others.
    for subject in ["ms.test.*.rep.a", "ms.test.*.to.b.>", "ms.test.>", "ms.test.a.none.*"] {
        c.say(&format!("SUB {subject} 1\r\nPING\r\n"));
        let told = c.until("PONG");
        assert!(told.contains("Permissions Violation for Subscription"), "{subject}: {told}");
    }
}

#[test]
fn n6_2_a_remote_peer_sends_shared_types_only_and_as_what_they_are() {
    let nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves(SHARED).start();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    let hash = a.bus()["imports"][0]["hash"].as_str().expect("a hash").to_owned();
    let mut evil = Raw::connect(&nats, "", "");
    evil.say("SUB ms.test.*.rep.evil 1\r\n");
    let message = |kind: &str, type_name: &str| {
        json!({ "kind": kind, "type": type_name, "data": {}, "metadata": { "id": "x", "timestamp": 1 } })
            .to_string()
    };
    let cases = [
        ("command.Syscall.Shutdown", message("command", "Syscall.Shutdown")),
        ("command.Test.Do", message("command", "Syscall.Shutdown")),
        ("command.Test.Do", message("command", "Timer.Schedule")),
        ("command.Test.Do", message("query", "Test.Where")),
        ("query.Sys.Stats", message("query", "Sys.Stats")),
        ("command.Test.Unknown", message("command", "Test.Unknown")),
        ("command.Test.Do", "nonsense".to_owned()),
    ];
    for (number, (tail, payload)) in cases.into_iter().enumerate() {
        let subject = format!("ms.test.evil.to.b.req.{hash}.{tail}");
        evil.publish(&subject, &format!("req 1-1 {number} 5000 0 root"), &payload);
        let told = evil.until("failed ");
        let refused = told.lines().last().expect("a line");
        assert!(
            refused.ends_with(" no") && refused.contains(&format!(" 1-1 {number} Sys.")),
            "{tail}: {told}"
        );
    }
    // The same in one message: each is looked at, until something is none.
    let wrong = format!("req 1-1 20 5000 0 root\n{}", message("command", "Syscall.Shutdown"));
    let nested = format!("many\n{}\n{wrong}", wrong.len());
    let part = |text: &str| format!("{}\n{text}", text.len());
    let last = wrong.replace(" 20 ", " 21 ");
    let bundle = [part(&wrong), part(&nested), part(&last), "99999\nx".to_owned()].concat();
    evil.publish(&format!("ms.test.evil.to.b.req.{hash}.command.Test.Do"), "many", &bundle);
    let told = evil.until("failed ") + &evil.until("failed ");
    assert!(told.contains(" 1-1 20 Sys.") && told.contains(" 1-1 21 Sys."), "{told}");
    // Answers that nobody waits for, and what is none at all, do no harm.
    for (subject, head) in [
        ("ms.test.evil.rep.a", "out 1-1 1-1 1"),
        ("ms.test.evil.rep.a", "nonsense"),
        ("ms.test.evil.rep.a", "many"),
        ("ms.test.evil.node", "many"),
        ("ms.test.evil.to.a.catalogue", "x"),
        ("ms.test.evil.node", "hello"),
        ("ms.test.evil.evt.Test.Mark", "event 0"),
        ("ms.test.evil.to.a.evt.Test.Mark", "durable 1 1 0"),
        ("ms.test.evil.to.b.ack", "durable 1 1 0"),
    ] {
        evil.publish(subject, head, "{\"boot\":7}");
        evil.until("PONG");
    }
    assert_eq!(b.lines("done"), Vec::<String>::new());
    eventually("all goes on", || a.connect().query("Test.Where", json!({}))["node"] == json!("b"));
    let health = a.connect().query("Sys.Actors", json!({}));
    let import = health["actors"].as_array().expect("actors")[0].clone();
    assert_eq!((&import["state"], &import["faults"]), (&json!("up"), &json!(0)), "{import}");
}

#[test]
fn n6_7_a_node_learns_nothing_of_others_requests_by_asking_for_traces() {
    let nats = NatsServer::start();
    let _b = Plan::new("b", &nats).serves(SHARED).start();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    let hash = a.bus()["imports"][0]["hash"].as_str().expect("a hash").to_owned();
    let mut client = a.connect();
    let secret = json!({ "kind": "query", "type": "Test.Where", "data": {}, "metadata": { "id": "secret", "timestamp": 1 } });
    client.send(format!("{secret}\n"));
    assert_eq!(client.receive()["data"]["node"], "b");
    let told = client.query("Sys.NodeTrace", json!({ "id": "secret" }));
    assert_eq!(told["node"], "b", "{told}");
    let peer = told["trace"]["nodes"][0]["from"].as_str().unwrap_or_default().to_owned();

    let mut evil = Raw::connect(&nats, "", "");
    evil.say("SUB ms.test.*.rep.evil 1\r\n");
    let hello = json!({ "boot": "1-1", "seq": 1, "digest": "", "takes": true });
    evil.publish("ms.test.evil.node", "hello", &hello.to_string());
    // With a request of its own it is a peer that may ask for what it asked itself.
    let own = json!({ "kind": "query", "type": "Test.Where", "data": {}, "metadata": { "id": "own", "timestamp": 1 } });
    let subject = format!("ms.test.evil.to.b.req.{hash}.query.Test.Where");
    evil.publish(&subject, "req 1-1 1 5000 0 me", &own.to_string());
    evil.until("out ");
    let mut number = 0;
    let mut ask = |peer: &str, id: &str| {
        number += 1;
        evil.publish("ms.test.evil.to.b.trace", &format!("trace {number} {peer}"), id);
        evil.until(&format!("traced {number}"));
        let mut told = String::new();
        evil.reader.read_line(&mut told).expect("a trace, or nothing");
        told.contains("Test.Where")
    };
    assert!(ask("me", "own"), "its own request is told");
    let long = "x".repeat(300_000);
    let names = [peer.as_str(), "me", "a/me", "a/user:0", "../a", "%61/user:0", "nobody"];
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        for id in ["secret", "", "\"", long.as_str()] {
            assert!(!ask(name, id), "{name} is told of {:.20}", id);
        }
    }
    // More questions than may be open end the oldest, and answers that nobody asked for end none.
    for number in 1000..1200 {
        evil.publish("ms.test.evil.to.b.trace", &format!("trace {number} me"), "secret");
        evil.publish("ms.test.evil.rep.a", &format!("traced {}", number - 999), r#"{"nodes":[]}"#);
    }
    evil.until("traced 1199");
    let told = client.query("Sys.NodeTrace", json!({ "id": "secret" }));
    assert_eq!((&told["node"], told["trace"]["nodes"].is_array()), (&json!("b"), true), "{told}");
}
