//! Spans for other systems. What they look like to a collector is proven in `crates/http/proof`;
//! here is what the daemon does when there is one, and when there is none.

use crate::support::{Daemon, eventually, line_with};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

fn config(port: u16) -> String {
    format!("[telemetry]\notlp = \"http://127.0.0.1:{port}\"\nservice = \"test\"\n")
}

/// A collector that gives every body that it gets.
fn collector() -> (u16, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let body = loop {
                let mut piece = [0; 4096];
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "{}", String::from_utf8_lossy(&request));
                request.extend_from_slice(&piece[..count]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
                if body.len() == length.parse::<usize>().unwrap() {
                    break body.to_owned();
                }
            };
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            let _ = tell.send(serde_json::from_str(&body).unwrap());
        }
    });
    (port, bodies)
}

#[test]
fn a_request_becomes_a_span_with_the_span_that_asked_as_its_parent() {
    let (port, bodies) = collector();
    let daemon = Daemon::with_config(&config(port));
    let mut client = daemon.connect();
    let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let data = json!({ "key": "a", "value": 1 });
    client.send(line_with("command", "Memory.Set", "c-1", &data, &json!({ "traceparent": span })));
    let reply = client.receive();
    assert_eq!(reply["metadata"]["traceparent"], json!(span));
    let body = bodies.recv_timeout(crate::support::PATIENCE).unwrap();
    let resource = &body["resourceSpans"][0]["resource"]["attributes"];
    assert_eq!(resource[0], json!({ "key": "service.name", "value": { "stringValue": "test" } }));
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let set = spans.iter().find(|span| span["name"] == "Memory.Set").unwrap();
    assert_eq!(set["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(set["parentSpanId"], "b7ad6b7169203331");
    eventually("it is counted", || {
        daemon.stats()["floors"]["telemetry"]["spansExported"].as_u64() >= Some(1)
    });
    daemon.end();
}

#[test]
fn a_collector_that_is_away_costs_nobody_anything_and_what_it_misses_is_counted() {
    // A port on which nobody listens.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let daemon = Daemon::with_config(&config(port));
    let mut client = daemon.connect();
    for number in 0..100 {
        client.command("Memory.Set", json!({ "key": "a", "value": number }));
    }
    eventually("spans are dropped and counted", || {
        daemon.stats()["floors"]["telemetry"]["spansDropped"].as_u64() >= Some(200)
    });
    assert!(daemon.log().contains("does not take spans"), "{}", daemon.log());
    daemon.end();
}

#[test]
fn a_collector_that_never_answers_holds_up_neither_requests_nor_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let daemon = Daemon::with_config(&config(listener.local_addr().unwrap().port()));
    let mut client = daemon.connect();
    for number in 0..100 {
        client.command("Memory.Set", json!({ "key": "a", "value": number }));
    }
    let (_connection, _) = listener.accept().unwrap();
    let began = std::time::Instant::now();
    daemon.end();
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn an_idle_daemon_with_a_collector_makes_no_system_call() {
    let (port, bodies) = collector();
    let daemon = Daemon::with_config(&config(port));
    daemon.connect().command("Memory.Set", json!({ "key": "a", "value": 1 }));
    bodies.recv_timeout(crate::support::PATIENCE).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    // Context switches of every thread.
    let switches = || -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
        let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("schedstat")).unwrap();
        tasks.map(|task| stat(task.unwrap()).split(' ').nth(2).unwrap().trim().to_owned()).collect()
    };
    let before = switches();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(switches(), before, "a thread was scheduled though nobody asked anything");
    daemon.end();
}

#[test]
fn a_collector_that_is_no_plain_url_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mainspring.toml");
    std::fs::write(&file, "[telemetry]\notlp = \"https://collector:4318\"\n").unwrap();
    let output = crate::support::mainspring().arg("check").arg(&file).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && text.contains("mainspring.toml:2") && text.contains("http://"),
        "{text}"
    );
}
