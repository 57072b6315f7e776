//! Clients, mostly hostile ones: what they do to themselves, and that their neighbours never
//! notice.

use crate::support::{Client, Daemon, PATIENCE, code, eventually, line};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

fn ping(id: &str) -> String {
    line("query", "Syscall.Ping", id, &json!(id))
}

#[test]
fn one_byte_at_a_time_is_as_good_as_many_lines_at_once() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for byte in ping("slow").as_bytes() {
        client.send([*byte]);
    }
    assert_eq!(client.receive()["data"], json!("slow"));
    let many: String = (0..500).map(|n| ping(&format!("m-{n}"))).collect();
    client.send(many);
    for n in 0..500 {
        assert_eq!(client.receive()["data"], json!(format!("m-{n}")));
    }
    daemon.end();
}

#[test]
fn lines_that_are_no_messages_are_answered_and_the_next_line_is_served() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let deep = format!("{{\"kind\":\"query\",\"data\":{}1{}}}\n", "[".repeat(5000), "]".repeat(5000));
    let cases: [(&[u8], u64); 6] = [
        (b"garbage\n", 400),
        (b"\xff\xfe{}\n", 400),
        (b"[1,2]\n", 400),
        (b"{}\n", 422),
        (deep.as_bytes(), 400),
        (b"{\"kind\":\"query\",\"type\":\"No.Such\",\"data\":1,\"metadata\":{\"id\":\"a\",\"timestamp\":1}}\n", 404),
    ];
    for (bytes, expected) in cases {
        client.send(bytes);
        let answer = client.receive();
        assert_eq!(code(&answer), expected, "{answer}");
        client.send(ping("between"));
        assert_eq!(client.receive()["data"], json!("between"));
    }
    client.send(b"\n\r\n   \n");
    client.send(ping("after blank lines"));
    assert_eq!(client.receive()["data"], json!("after blank lines"));
    daemon.end();
}

#[test]
fn messages_that_are_almost_right_are_refused_and_the_next_line_is_served() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let whole = ping("whole").trim_end().to_owned();
    let twice = |key: &str| whole.replacen(&format!("\"{key}\":"), &format!("\"{key}\":0,\"{key}\":"), 1);
    let number = |text: &str| whole.replacen("\"data\":\"whole\"", &format!("\"data\":{text}"), 1);
    let timeout = |text: &str| whole.replacen("\"id\":", &format!("\"timeout\":{text},\"id\":"), 1);
    let broken = ["01", "1.", "1e", "-", "NaN", "Infinity", "0x10"].map(number);
    let unreadable =
        ["\0\0".to_owned(), format!("\u{feff}{whole}"), format!("{whole}\0"), format!("{whole}{whole}")];
    let by_return = format!("{whole}\r{whole}");
    let doubled = ["kind", "type", "metadata", "id", "timestamp"].map(twice);
    let beyond = ["-1", "1.5", "1e3", "9007199254740992", "18446744073709551616", "null"].map(timeout);
    let malformed = broken.into_iter().chain(unreadable).chain([by_return]).map(|line| (line, 400));
    let wrong = doubled.into_iter().chain(beyond).map(|line| (line, 422));
    for (line, expected) in malformed.chain(wrong) {
        client.send(format!("{line}\n{}", ping("between")));
        let answer = client.receive();
        assert_eq!(code(&answer), expected, "{line}: {answer}");
        assert_eq!(client.receive()["data"], json!("between"), "{line}");
    }
    daemon.end();
}

#[test]
fn a_line_beyond_the_limit_is_413_and_costs_no_memory() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.query("Syscall.Ping", json!(0));
    let before = daemon.resident_bytes();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        client.send(&piece);
    }
    client.send(b"\n");
    client.send(ping("after"));
    assert_eq!(code(&client.receive()), 413);
    assert_eq!(client.receive()["data"], json!("after"));
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "64 MiB were sent in one line, and memory grew by {grown}");
    daemon.end();
}

#[test]
fn a_connection_that_sends_only_nonsense_is_closed_and_told_why_each_time() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let _ = client.stream.write_all(&b"nonsense\n".repeat(1000));
    let answers = client.rest();
    assert_eq!(answers.len(), 101);
    daemon.connect().query("Syscall.Ping", json!(1));
    daemon.end();
}

#[test]
fn a_client_that_sends_no_more_gets_its_answers_and_then_the_end() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let many: String = (0..1000).map(|n| ping(&format!("h-{n}"))).collect();
    client.send(many + ping("last").trim_end());
    client.end_input();
    let answers = client.rest();
    assert_eq!(answers.len(), 1001);
    assert_eq!(answers[1000]["data"], json!("last"));
    daemon.end();
}

#[test]
fn a_request_and_the_end_of_the_input_that_come_together_are_both_heard() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.send(ping("first"));
    client.receive();
    // The daemon finds both at once, and is told of them once.
    daemon.signal("STOP");
    client.send(ping("last"));
    client.end_input();
    daemon.signal("CONT");
    let answers = client.rest();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["data"], json!("last"));
    daemon.end();
}

#[test]
fn what_a_client_sent_while_its_lane_was_full_is_served_though_nothing_more_comes() {
    // Reads are small, and the lane is full after each: the client is paused again and again.
    let daemon = Daemon::with_config("[limits]\nlane_messages_max = 2\n");
    for ends in [false, true] {
        let mut client = daemon.connect();
        client.send(ping("first"));
        client.receive();
        daemon.signal("STOP");
        client.send((0..200).map(|n| ping(&format!("p-{n}"))).collect::<String>());
        if ends {
            client.end_input();
        }
        daemon.signal("CONT");
        for n in 0..200 {
            assert_eq!(client.receive()["data"], json!(format!("p-{n}")), "ends: {ends}");
        }
        if ends {
            assert_eq!(client.rest(), Vec::<Value>::new());
        }
    }
    daemon.end();
}

#[test]
fn a_subscriber_that_sends_no_more_still_gets_events_and_is_forgotten_when_it_leaves() {
    let daemon = Daemon::start();
    let mut subscriber = daemon.connect();
    subscriber.subscribe(&["Memory.*"]);
    subscriber.end_input();
    daemon.connect().command("Memory.Set", json!({ "key": "a", "value": 1 }));
    assert_eq!(subscriber.event("Memory.Changed")["data"]["key"], json!("a"));
    drop(subscriber);
    eventually("the subscriber is forgotten", || daemon.stats()["gauges"]["connections"] == json!(1));
    daemon.end();
}

#[test]
fn a_client_that_leaves_with_requests_in_flight_harms_nobody_and_its_work_is_done() {
    let daemon = Daemon::start();
    let mut neighbour = daemon.connect();
    for round in 0..50 {
        let mut client = daemon.connect();
        let many: String = (0..100)
            .map(|n| {
                let key = format!("{round}-{n}");
                line("command", "Memory.Set", &key, &json!({ "key": key, "value": n }))
            })
            .collect();
        client.send(many);
        drop(client);
        neighbour.query("Syscall.Ping", json!(round));
    }
    eventually("everything that was sent is done", || {
        daemon.stats()["floors"]["actors"]["Memory"]["keys"] == json!(5000)
    });
    eventually("the clients are gone", || daemon.stats()["gauges"]["connections"] == json!(2));
    daemon.end();
}

#[test]
fn a_client_that_never_reads_is_held_back_and_its_neighbour_is_served() {
    let daemon = Daemon::start();
    let mut neighbour = daemon.connect();
    neighbour.query("Syscall.Ping", json!(0));
    let before = daemon.resident_bytes();
    let stream = UnixStream::connect(daemon.socket()).unwrap();
    stream.set_nonblocking(true).unwrap();
    // Echoes of 64 KiB, never read: the daemon must stop taking more long before this loop ends by
    // itself.
    let text = line("query", "Syscall.Ping", "big", &json!("y".repeat(64 << 10)));
    let (mut writer, mut taken, mut at, mut refused) = (&stream, 0usize, 0usize, 0u32);
    let start = Instant::now();
    while refused < 200 && taken < 256 << 20 {
        match writer.write(&text.as_bytes()[at..]) {
            Ok(count) => {
                taken += count;
                at = (at + count) % text.len();
                refused = 0;
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                refused += 1;
                neighbour.query("Syscall.Ping", json!(refused));
            }
        }
        assert!(start.elapsed() < PATIENCE);
    }
    assert!(taken < 64 << 20, "it took {taken} bytes from somebody who does not read");
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 96 << 20, "memory grew by {grown}");
    // Whoever reads again is served again.
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut read = 0;
    let mut buffer = vec![0; 1 << 16];
    while read < taken / 2 {
        read += (&stream).read(&mut buffer).unwrap();
    }
    daemon.end();
}

#[test]
fn a_slow_subscriber_loses_events_and_is_told_or_is_closed_as_it_chose() {
    let daemon = Daemon::with_config("[limits]\negress_bytes_max = \"64KiB\"\nsubscriber_events_max = 16\n");
    let mut dropping = daemon.connect();
    dropping.subscribe(&["App.*"]);
    let mut closing = daemon.connect();
    closing.command("Sys.Subscribe", json!({ "types": ["App.*"], "slow": "disconnect" }));
    let mut source = daemon.connect();
    let data = json!("z".repeat(8 << 10));
    for n in 0..2000 {
        source.send(line("event", "App.Happened", &format!("e-{n}"), &data));
    }
    source.query("Syscall.Ping", json!(1));
    let dropped = dropping.event("Sys.EventsDropped");
    assert!(dropped["data"]["count"].as_u64().unwrap() > 0);
    let got = closing.rest().len();
    assert!(got < 2000, "it got {got} events and the end");
    daemon.end();
}

#[test]
fn more_connections_than_there_may_be_are_refused_in_words() {
    let daemon = Daemon::with_config("[limits]\nconnections_max = 10\n");
    let mut clients: Vec<Client> = (0..10).map(|_| daemon.connect()).collect();
    for client in &mut clients {
        client.query("Syscall.Ping", json!(1));
    }
    let mut late = daemon.connect();
    assert_eq!(code(&late.receive()), 503);
    assert_eq!(late.next(), None);
    drop(clients.pop());
    eventually("there is room again", || {
        let mut client = daemon.connect();
        let _ = client.stream.write_all(ping("room").as_bytes());
        client.next().is_some_and(|answer| answer["kind"] == json!("reply"))
    });
    daemon.end();
}

#[test]
fn ten_thousand_clients_are_served_at_once() {
    const CLIENTS: usize = 10_000;
    if !raise_descriptors(CLIENTS as u64 + 200) {
        println!("skipped: this process may not open so many descriptors");
        return;
    }
    let daemon = Daemon::start();
    let mut streams: Vec<UnixStream> = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        streams.push(stream);
    }
    for (n, stream) in streams.iter_mut().enumerate() {
        stream.write_all(ping(&format!("k-{n}")).as_bytes()).unwrap();
    }
    let mut buffer = [0; 1024];
    for (n, stream) in streams.iter_mut().enumerate() {
        let count = stream.read(&mut buffer).unwrap();
        let answer: Value = serde_json::from_slice(&buffer[..count]).unwrap();
        assert_eq!(answer["data"], json!(format!("k-{n}")));
    }
    let used = daemon.resident_bytes();
    assert!(used < 200 << 20, "{used} bytes for {CLIENTS} clients");
    drop(streams);
    eventually("they are gone", || daemon.stats()["gauges"]["connections"] == json!(1));
    daemon.end();
}

/// Lets this process open so many descriptors, if it may.
pub(crate) fn raise_descriptors(wanted: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        return false;
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).is_ok()
}

#[test]
fn a_daemon_out_of_descriptors_turns_clients_away_and_does_not_spin() {
    let daemon = Daemon::prepared("", &[], |command| limit_descriptors(command, 40));
    let mut first = daemon.connect();
    first.query("Syscall.Ping", json!(1));
    let mut crowd: Vec<Client> = (0..100).map(|_| daemon.connect()).collect();
    let turned_away =
        crowd.iter_mut().rev().take(50).filter_map(Client::next).filter(|answer| code(answer) == 503).count();
    assert_eq!(turned_away, 50);
    let turns = |client: &mut Client| {
        client.query("Sys.Stats", json!({}))["floors"]["loop"]["turns"].as_u64().unwrap()
    };
    let before = turns(&mut first);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let after = turns(&mut first);
    assert!(after - before < 20, "{} turns while nothing happened", after - before);
    drop(crowd);
    eventually("there is room again", || {
        let mut client = daemon.connect();
        let _ = client.stream.write_all(ping("room").as_bytes());
        client.next().is_some_and(|answer| answer["kind"] == json!("reply"))
    });
    daemon.end();
}

#[test]
fn a_daemon_out_of_descriptors_turns_clients_of_http_away_in_their_language() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("http");
    let config = format!("[[listen]]\nhttp_unix = {:?}\n", path.to_str().unwrap());
    let daemon = Daemon::prepared(&config, &[], |command| limit_descriptors(command, 40));
    let connect = || std::os::unix::net::UnixStream::connect(&path).unwrap();
    let mut crowd: Vec<_> = (0..100).map(|_| connect()).collect();
    let mut last = crowd.pop().unwrap();
    last.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut last, &mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{said}");
    assert!(said.contains("application/problem+json") && said.contains("\"started\":\"no\""), "{said}");
    drop(crowd);
    daemon.end();
}

/// Has a program start with so few descriptors, and no more to be had.
pub(crate) fn limit_descriptors(command: &mut std::process::Command, count: u64) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::os::unix::process::CommandExt;
    let limit = Rlimit { current: Some(count), maximum: Some(count) };
    // SAFETY: one system call between fork and exec, and nothing else.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
}

#[test]
fn another_user_is_refused_and_that_is_logged() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be somebody else");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let daemon = Daemon::start();
    // Even if somebody opened the way to the socket.
    let folder = daemon.socket().parent().unwrap().to_owned();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(daemon.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let script = format!(
        "import os, socket\nos.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\ns.connect({:?})\nprint(s.recv(100))",
        daemon.socket().display().to_string()
    );
    let output = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "b''",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(daemon.log().contains("a client of user 65534"), "{}", daemon.log());
    daemon.connect().query("Syscall.Ping", json!(1));
    daemon.end();
}
