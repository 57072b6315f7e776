//! Clients that ask for much, read little or begin what they do not end, all at the shipped
//! settings: who waits for whom, who pays, and what it costs in memory.

use crate::support::{Client, Daemon, PATIENCE, code, fresh_id, line, line_with, mainspring};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// What a bystander may wait, in 99 of 100 cases, besides what the machine makes it wait anyhow.
/// Work is cut by count, and a program that is not optimised takes ten times as long for each piece
/// of it.
const BYSTANDER_P99_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 60 } else { 10 });
/// How often somebody comes.
const EVERY: Duration = Duration::from_micros(500);
/// An attack is tried so often; the machine may be busy with something else in most of them.
const ROUNDS_MAX: usize = 8;

/// Sends pings, one after the other, until `done`; returns the 99th percentile of what somebody
/// waits who comes at any time.
fn p99_of_pings(bystander: &mut Client, done: impl Fn(usize) -> bool) -> Duration {
    let (mut waits, mut pings) = (Vec::new(), 0);
    while !done(pings) {
        let start = Instant::now();
        bystander.query("Syscall.Ping", json!(pings));
        pings += 1;
        // Whoever had come in the meantime would have waited for the rest of it.
        let mut left = start.elapsed();
        loop {
            waits.push(left);
            left = match left.checked_sub(EVERY) {
                Some(left) => left,
                None => break,
            };
        }
        std::thread::sleep(EVERY);
    }
    waits.sort_unstable();
    waits[waits.len() * 99 / 100]
}

/// Attacks a daemon while a bystander sends pings, and checks that it did not have to wait.
fn bystander_does_not_wait_for(daemon: &Daemon, what: &str, attack: impl Fn() + Sync) {
    let mut bystander = daemon.connect();
    bystander.query("Syscall.Ping", json!(0));
    let mut seen = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let usual = p99_of_pings(&mut bystander, |count| count >= 100);
        let over = AtomicBool::new(false);
        let p99 = std::thread::scope(|scope| {
            scope.spawn(|| {
                attack();
                over.store(true, Ordering::SeqCst);
            });
            p99_of_pings(&mut bystander, |count| count >= 100 && over.load(Ordering::SeqCst))
        });
        if p99 < BYSTANDER_P99_MAX + usual {
            return;
        }
        seen.push((usual, p99));
    }
    panic!("{what}: a bystander waited in every round (usually, and then): {seen:?}");
}

/// Makes the history long: messages of one workflow.
fn fill_history(client: &mut Client) {
    for batch in 0..10 {
        let lines: String = (0..500)
            .map(|n| {
                let more = json!({ "correlation": "flow", "causation": format!("h-{batch}-{}", n / 2) });
                line_with("query", "Syscall.Ping", &format!("h-{batch}-{n}"), &json!(1), &more)
            })
            .collect();
        client.send(lines);
        (0..500).for_each(|_| drop(client.receive()));
    }
}

#[test]
fn a_bystander_does_not_wait_while_somebody_traces_a_long_history() {
    let daemon = Daemon::start();
    fill_history(&mut daemon.connect());
    bystander_does_not_wait_for(&daemon, "traces", || {
        let mut attacker = daemon.connect();
        let lines: String = (0..24)
            .map(|n| {
                let what =
                    if n % 2 == 0 { json!({ "id": "h-3-7" }) } else { json!({ "correlation": "flow" }) };
                line("query", "Sys.Trace", &fresh_id(), &what)
            })
            .collect();
        attacker.send(lines);
        (0..24).for_each(|_| drop(attacker.receive()));
    });
    daemon.end();
}

#[test]
fn a_bystander_does_not_wait_while_somebody_lists_a_thousand_dead_letters() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for n in 0..1000 {
        let data = json!({ "code": 500, "message": "x".repeat(1000) });
        let more = json!({ "causation": "nobody" });
        client.send(line_with("error", "App.Error", &format!("e-{n}"), &data, &more));
    }
    client.query("Syscall.Ping", json!(1));
    bystander_does_not_wait_for(&daemon, "lists of dead letters", || {
        let mut attacker = daemon.connect();
        let lines: String = (0..10)
            .map(|_| line("query", "Sys.DeadLetters", &fresh_id(), &json!({ "limit": 1000 })))
            .collect();
        attacker.send(lines);
        let answer = attacker.receive();
        assert_eq!(answer["data"]["letters"].as_array().map(Vec::len), Some(1000), "{answer}");
        (0..9).for_each(|_| drop(attacker.receive()));
    });
    daemon.end();
}

#[test]
fn a_bystander_does_not_wait_while_others_ask_for_large_answers_that_they_do_not_read() {
    let daemon = Daemon::start();
    // One answer is made in one piece, which takes a program that is not optimised a millisecond or
    // two.
    daemon.connect().command("Memory.Set", json!({ "key": "big", "value": "x".repeat(70_000) }));
    let before = daemon.resident_bytes();
    bystander_does_not_wait_for(&daemon, "large unread answers", || {
        let attackers: Vec<Client> = (0..8)
            .map(|_| {
                let mut attacker = daemon.connect();
                let lines: String = (0..100)
                    .map(|_| line("query", "Memory.Get", &fresh_id(), &json!({ "key": "big" })))
                    .collect();
                attacker.send(lines);
                attacker
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        drop(attackers);
    });
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 192 * MIB, "memory grew by {grown}");
    daemon.end();
}

#[test]
fn a_client_that_reads_gets_32_large_answers_that_it_asked_for_at_once() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.command("Memory.Set", json!({ "key": "big", "value": "x".repeat(900_000) }));
    let lines: String =
        (0..32).map(|n| line("query", "Memory.Get", &format!("q-{n}"), &json!({ "key": "big" }))).collect();
    client.send(&lines);
    for n in 0..32 {
        let answer = client.receive();
        assert_eq!(answer["metadata"]["causation"], json!(format!("q-{n}")));
        assert_eq!(answer["data"]["value"].as_str().map(str::len), Some(900_000));
    }
    assert_eq!(daemon.stats()["gauges"]["userHeld"], json!(0));
    // The same by the command that is made for it.
    let mut pipe = mainspring()
        .args(["pipe", "--socket"])
        .arg(daemon.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut input = pipe.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || input.write_all(lines.replace("q-", "pipe-").as_bytes()));
    let mut output = String::new();
    pipe.stdout.take().expect("its output").read_to_string(&mut output).expect("text");
    writer.join().expect("a thread").expect("it reads");
    assert!(pipe.wait().expect("its end").success());
    assert_eq!(output.lines().count(), 32);
    daemon.end();
}

#[test]
fn large_events_for_hundreds_that_do_not_read_are_in_memory_once() {
    let daemon = Daemon::start();
    let mut subscribers: Vec<Client> = (0..300).map(|_| daemon.connect()).collect();
    for subscriber in &mut subscribers {
        subscriber.subscribe(&["App.*"]);
    }
    let mut source = daemon.connect();
    source.query("Syscall.Ping", json!(1));
    let before = daemon.resident_bytes();
    for n in 0..12 {
        source.send(line("event", "App.Happened", &format!("e-{n}"), &json!("x".repeat(900_000))));
        source.query("Syscall.Ping", json!(n));
    }
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 128 * MIB, "memory grew by {grown} for 300 subscribers");
    // Whoever reads gets every event, or is told how many were lost.
    let mut told = 0;
    while told < 12 {
        let event = subscribers[0].receive();
        told += if event["type"] == json!("Sys.EventsDropped") {
            event["data"]["count"].as_u64().unwrap()
        } else {
            1
        };
    }
    daemon.end();
}

#[test]
fn who_has_begun_the_longest_line_pays_and_not_a_bystander_with_a_shorter_one() {
    let daemon = Daemon::start();
    let mut bystander = daemon.connect();
    let text = line("query", "Syscall.Ping", "by", &json!("y".repeat(500_000)));
    let (first, rest) = text.split_at(400_000);
    bystander.send(first);
    let begun = vec![b' '; (1 << 20) - 4096];
    let mut attackers: Vec<Client> = Vec::new();
    for _ in 0..270 {
        let mut attacker = daemon.connect();
        // One that was closed in the middle of it says so when it is read.
        let _ = attacker.stream.write_all(&begun);
        attackers.push(attacker);
    }
    // Up to the very bound.
    for _ in 0..60 {
        let mut attacker = daemon.connect();
        let _ = attacker.stream.write_all(&begun[..30_000]);
        attackers.push(attacker);
    }
    daemon.stats();
    bystander.send(rest);
    let answer = bystander.receive();
    assert_eq!(answer["kind"], json!("reply"), "{}", answer["data"]);
    let stats = daemon.stats();
    let memory = stats["gauges"]["memoryBytes"].as_u64().expect("a number");
    assert!(memory <= 260 * MIB, "{memory} bytes");
    let evicted = attackers.len() as u64 + 2 - stats["gauges"]["connections"].as_u64().expect("a number");
    assert!((10..40).contains(&evicted), "{evicted} of them were closed");
    let told = attackers.iter_mut().filter(|attacker| {
        attacker.stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
        let mut buffer = [0; 1024];
        (&attacker.stream).read(&mut buffer).is_ok_and(|count| {
            count > 0 && code(&serde_json::from_slice(&buffer[..count]).expect("a message")) == 503
        })
    });
    assert!(told.count() as u64 >= evicted / 2);
    daemon.end();
}

#[test]
fn at_the_bound_of_its_memory_the_daemon_sheds_whoever_has_most_and_tells_it() {
    let daemon = Daemon::with_config("[limits]\nmemory_bytes_max = \"64MiB\"\n");
    let mut bystander = daemon.connect();
    bystander.command("Memory.Set", json!({ "key": "big", "value": "x".repeat(900_000) }));
    let before = daemon.resident_bytes();
    let streams: Vec<UnixStream> = (0..60)
        .map(|_| {
            let mut stream = UnixStream::connect(daemon.socket()).expect("a connection");
            let lines: String =
                (0..20).map(|_| line("query", "Memory.Get", &fresh_id(), &json!({ "key": "big" }))).collect();
            stream.write_all(lines.as_bytes()).expect("the daemon reads");
            bystander.query("Syscall.Ping", json!(1));
            stream
        })
        .collect();
    let stats = bystander.query("Sys.Stats", json!({}));
    let (held, most) = (&stats["gauges"]["memoryBytes"], &stats["gauges"]["memoryBytesMax"]);
    assert_eq!(*most, json!(64 << 20));
    assert!(held.as_u64().expect("a number") <= 72 * MIB, "{held} bytes");
    assert!(stats["counters"]["shed"].as_u64().expect("a number") > 10, "{stats}");
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 128 * MIB, "memory grew by {grown}");
    // Those who pay are told, between two messages and not in the middle of one.
    let told = streams.into_iter().filter(|stream| {
        let mut client = Client::new(stream.try_clone().expect("a second descriptor"));
        client.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        for _ in 0..20 {
            match client.next() {
                Some(message) if message["metadata"]["causation"] == json!("connection") => {
                    assert!(message.to_string().contains("limits.memory_bytes_max"), "{message}");
                    assert_eq!(code(&message), 503);
                    return true;
                }
                Some(_) => {}
                None => return false,
            }
        }
        false
    });
    assert!(told.count() > 5);
    assert!(daemon.log().contains("limits.memory_bytes_max"), "{}", daemon.log());
    bystander.query("Syscall.Ping", json!(1));
    daemon.end();
}

#[test]
fn a_client_that_is_closed_and_never_reads_is_let_go_after_a_while() {
    let daemon = Daemon::with_config("[limits]\nbad_lines_max = 2000\n");
    let mut hostile = daemon.connect();
    // Refusals fill the socket before the connection is closed for them.
    for _ in 0..2_200 {
        if hostile.stream.write_all(b"nonsense that is no message\n").is_err() {
            break;
        }
    }
    crate::support::eventually("it is let go", || daemon.stats()["floors"]["clients"]["open"] == json!(1));
    daemon.end();
}
