//! The loop and NATS share a thread, and take turns on it.

use crate::bus::{NatsServer, Plan};
use crate::support::{code, eventually, fresh_id, line, line_with};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SHARED: &str = "share = true\nlimits = { concurrency = 64 }";

/// Publishes on a subject as fast as the server takes it, until it is told to stop.
fn flood(nats: &NatsServer, subject: &str, is_over: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", nats.port)).expect("the server");
    let batch = format!("PUB {subject} 64\r\n{}\r\n", "x".repeat(64)).repeat(1000);
    let is_over = Arc::clone(is_over);
    std::thread::spawn(move || {
        stream.write_all(b"CONNECT {\"verbose\":false}\r\n").expect("the server reads");
        while !is_over.load(Ordering::Relaxed) {
            stream.write_all(batch.as_bytes()).expect("the server reads");
        }
    })
}

/// Keeps requests coming on a connection until it is told to stop; counts bytes of what is
/// answered.
fn keep_busy(socket: &Path, is_over: &Arc<AtomicBool>, answered: &Arc<AtomicU64>) {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    let mut reader = stream.try_clone().expect("a second descriptor");
    let (is_over, answered) = (Arc::clone(is_over), Arc::clone(answered));
    std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            let batch: String =
                (0..256).map(|_| line("query", "Sys.Actors", &fresh_id(), &json!({}))).collect();
            if stream.write_all(batch.as_bytes()).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            answered.fetch_add(count as u64, Ordering::Relaxed);
        }
    });
}

#[test]
fn n5_3_a_flood_from_nats_does_not_keep_local_clients_waiting() {
    let nats = NatsServer::start();
    let a = Plan::new("a", &nats).start();
    eventually("it is on the bus", || a.bus()["connected"] == json!(true));
    let is_over = Arc::new(AtomicBool::new(false));
    let flooding = flood(&nats, "ms.test.x.rep.a", &is_over);
    let mut client = a.connect();
    let (until, mut slowest) = (Instant::now() + Duration::from_secs(3), Duration::ZERO);
    while Instant::now() < until {
        let asked = Instant::now();
        client.query("Sys.Actors", json!({}));
        slowest = slowest.max(asked.elapsed());
    }
    is_over.store(true, Ordering::Relaxed);
    flooding.join().expect("the server took it all");
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
}

#[test]
fn n5_3_local_clients_that_are_never_idle_do_not_keep_other_nodes_waiting() {
    let nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves(SHARED).start();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::default());
    for _ in 0..3 {
        keep_busy(&b.path("socket"), &is_over, &answered);
    }
    let mut client = a.connect();
    // Longer than the server, or another node, waits for a sign of life.
    let until = Instant::now() + Duration::from_secs(6);
    while Instant::now() < until {
        let asked = Instant::now();
        assert_eq!(client.query("Test.Where", json!({}))["node"], json!("b"));
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(answered.load(Ordering::Relaxed) > 1 << 20, "{answered:?} bytes were answered");
    assert!(!b.log().contains("is lost"), "it answered the server's pings");
}

#[test]
fn n5_4_a_daemon_whose_server_is_stopped_ends_as_soon_as_it_is_told() {
    let nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves(SHARED).start();
    let mut a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    nats.signal("STOP");
    // More than fits on the way to the server: something is left to be said.
    let mut client = a.connect();
    let (text, in_time) = ("x".repeat(100_000), json!({ "timeout": 300 }));
    for _ in 0..200 {
        client.send(line_with("command", "Test.Do", &fresh_id(), &json!(text), &in_time));
    }
    for _ in 0..200 {
        assert!([503, 504].contains(&code(&client.receive())));
    }
    let told = Instant::now();
    a.signal("TERM");
    a.wait();
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    drop(b);
}
