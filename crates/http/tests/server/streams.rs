//! Streams: events as they happen, and the protocol itself.

use crate::support::{connect, request, start};
use mainspring_http::Limits;
use serde_json::{Value, json};
use std::time::Duration;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn h3_1_events_come_as_server_sent_events() {
    let server = start(Limits::default());
    let mut watcher = connect(&server);
    watcher.write(request("GET", "/v1/events?types=Test.*", "Accept: text/event-stream\r\n", "").as_bytes());
    let (status, headers) = watcher.read_head();
    assert_eq!((status, headers["content-type"].as_str()), (200, "text/event-stream"));
    assert_eq!(text(&watcher.read_chunk()), ": events\n\n");
    let mut client = connect(&server);
    for n in 0..3 {
        client.ask("POST", "/v1/commands/Test.Add", "", &json!({ "a": n }).to_string());
        let chunk = watcher.read_chunk();
        let lines: Vec<&str> = text(&chunk).lines().collect();
        assert!(lines[0].starts_with("id: "), "{lines:?}");
        assert_eq!(lines[1], "event: Test.Added");
        let message: Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(message["data"]["a"], n);
        assert_eq!(lines[3], "");
    }
}

#[test]
fn h3_1_a_silent_stream_is_kept_open_by_comments() {
    let server = start(Limits { keep_alive: Duration::from_millis(50), ..Limits::default() });
    let mut watcher = connect(&server);
    watcher.write(request("GET", "/v1/events", "", "").as_bytes());
    watcher.read_head();
    watcher.read_chunk();
    for _ in 0..3 {
        assert_eq!(text(&watcher.read_chunk()), ": still here\n\n");
    }
}

#[test]
fn h3_2_events_come_as_cloud_events_if_asked() {
    let server = start(Limits::default());
    let mut watcher = connect(&server);
    let path = "/v1/events?types=Test.Added&format=cloudevents";
    watcher.write(request("GET", path, "Accept: application/x-ndjson\r\n", "").as_bytes());
    assert_eq!(watcher.read_head().1["content-type"], "application/x-ndjson");
    connect(&server).ask("POST", "/v1/commands/Test.Add", "", r#"{"a":1}"#);
    let event: Value = serde_json::from_slice(&watcher.read_chunk()).unwrap();
    assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("Test.Added")));
    assert_eq!(event["data"], json!({ "a": 1 }));
    assert!(event["time"].as_str().unwrap().ends_with('Z'));
}

/// Has events said until the client is answered: its subscription may not be there yet.
fn while_events_come(server: &crate::support::Running, path: &str, headers: &str) -> crate::support::Answer {
    let mut watcher = connect(server);
    watcher.write(request("GET", path, headers, "").as_bytes());
    let is_answered = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut teller = connect(server);
            while !is_answered.load(std::sync::atomic::Ordering::Relaxed) {
                let more = "X-Correlation-Id: fl%w 1\r\n";
                teller.ask("POST", "/v1/commands/Test.Add", more, r#"{"a": 7}"#);
            }
        });
        let answer = watcher.read_answer();
        is_answered.store(true, std::sync::atomic::Ordering::Relaxed);
        answer
    })
}

#[test]
fn h3_7_the_next_event_alone_comes_as_a_message_or_as_a_cloud_event_of_either_mode() {
    let server = start(Limits::default());
    let path = "/v1/events?types=Test.Added&one=true";
    let message = while_events_come(&server, path, "");
    assert_eq!((message.status, message.headers["content-type"].as_str()), (200, "application/json"));
    assert_eq!(message.json()["type"], "Test.Added");
    assert_eq!(message.headers["last-event-id"], message.json()["metadata"]["id"]);
    let path = format!("{path}&format=cloudevents");
    let structured = while_events_come(&server, &path, "Accept: application/cloudevents+json\r\n");
    assert_eq!(structured.headers["content-type"], "application/cloudevents+json");
    assert_eq!(
        (&structured.json()["specversion"], &structured.json()["data"]["a"]),
        (&json!("1.0"), &json!(7))
    );
    let binary = while_events_come(&server, &path, "");
    assert_eq!((binary.headers["content-type"].as_str(), binary.text()), ("application/json", r#"{"a": 7}"#));
    assert_eq!(
        (binary.headers["ce-specversion"].as_str(), binary.headers["ce-type"].as_str()),
        ("1.0", "Test.Added")
    );
    for name in ["ce-id", "ce-source", "ce-time", "ce-causationid"] {
        assert!(binary.headers.contains_key(name), "{name}: {binary:?}");
    }
    // What came out can go in again.
    let event = binary.headers.iter().filter(|(name, _)| name.starts_with("ce-"));
    let headers: String = event.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.replace("Test.Added", "Test.Happened");
    let answer = connect(&server).ask("POST", "/v1/events", &headers, binary.text());
    assert_eq!(answer.status, 202, "{answer:?}");
}

#[test]
fn h3_7_no_event_in_time_is_204() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let path = "/v1/events?types=Test.Added&one=true";
    assert_eq!(client.ask("GET", path, "Prefer: wait=0.05\r\n", "").status, 204);
    assert_eq!(client.ask("GET", "/livez", "", "").status, 200, "the connection goes on");
}

#[test]
fn h3_3_bad_streams_are_refused_in_words() {
    let server = start(Limits { streams_max: 1, ..Limits::default() });
    let mut client = connect(&server);
    assert_eq!(client.ask("GET", "/v1/events?types=,", "", "").status, 400);
    assert_eq!(client.ask("GET", "/v1/events?types=a%20b", "", "").status, 422);
    assert_eq!(client.ask("GET", "/v1/events?format=xml", "", "").status, 400);
    assert_eq!(client.ask("GET", "/v1/events", "Accept: image/png\r\n", "").status, 406);
    let mut first = connect(&server);
    first.write(request("GET", "/v1/events", "", "").as_bytes());
    assert_eq!(first.read_head().0, 200);
    assert_eq!(client.ask("GET", "/v1/events", "", "").status, 503, "there is one stream too many");
    drop(first);
    let ended = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let mut again = connect(&server);
        again.write(request("GET", "/v1/events", "", "").as_bytes());
        if again.read_head().0 == 200 {
            break;
        }
        assert!(std::time::Instant::now() < ended, "the place of a stream that ended stays taken");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn h3_4_messages_go_both_ways_on_one_request() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let message = |id: &str, kind: &str, name: &str, data: Value| {
        json!({ "kind": kind, "type": name, "data": data, "metadata": { "id": id, "timestamp": 1 } })
            .to_string()
    };
    let lines = [
        message("1", "query", "Test.Echo", json!([1])),
        "nonsense".to_owned(),
        String::new(),
        message("2", "command", "Test.Fail", json!(null)),
        message("3", "query", "Test.Echo", json!({ "last": true })),
    ];
    // The last line has no end.
    let answer =
        client.ask("POST", "/v1/messages", "Content-Type: application/x-ndjson\r\n", &lines.join("\n"));
    assert_eq!(answer.status, 200);
    let answers: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 4, "{answers:?}");
    let of = |id: &str| answers.iter().find(|answer| answer["metadata"]["causation"] == id).unwrap();
    assert_eq!(of("1")["data"], json!([1]));
    assert_eq!(of("2")["data"]["code"], 418);
    assert_eq!(of("3")["data"]["last"], true);
    assert!(answers.iter().any(|answer| answer["type"] == "Sys.MalformedError"));
    assert_eq!(client.ask("GET", "/livez", "", "").status, 200, "the connection goes on");
}

#[test]
fn h3_4_answers_come_while_the_request_is_still_being_sent() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    client.write(
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for n in 0..3 {
        let line = json!({ "kind": "query", "type": "Test.Echo", "data": n, "metadata": { "id": n.to_string(), "timestamp": 1 } });
        let line = format!("{line}\n");
        client.write(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes());
        if n == 0 {
            assert_eq!(client.read_head().0, 200);
        }
        let answer: Value = serde_json::from_slice(&client.read_chunk()).unwrap();
        assert_eq!(answer["data"], n);
    }
    client.write(b"0\r\n\r\n");
    assert!(client.read_chunk().is_empty(), "the response ends with the request");
}

/// The ids of so many events of a stream.
fn ids(watcher: &mut crate::support::Client<std::net::TcpStream>, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let chunk = watcher.read_chunk();
        let lines = text(&chunk).lines().filter_map(|line| line.strip_prefix("id: "));
        ids.extend(lines.map(str::to_owned));
    }
    ids
}

#[test]
fn h3_5_a_stream_with_a_cursor_goes_on_after_the_last_event_id() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let watch = |headers: &str| {
        let mut watcher = connect(&server);
        let path = "/v1/events?types=Test.*&cursor=page";
        watcher.write(request("GET", path, headers, "").as_bytes());
        let status = watcher.read_head().0;
        (status, watcher)
    };
    let (status, mut watcher) = watch("");
    assert_eq!(status, 200);
    watcher.read_chunk();
    for n in 0..4 {
        client.ask("POST", "/v1/commands/Test.Add", "", &json!({ "a": n }).to_string());
    }
    assert_eq!(ids(&mut watcher, 4), ["1", "2", "3", "4"]);
    drop(watcher);
    let (_, mut watcher) = watch("Last-Event-ID: 2\r\n");
    assert_eq!(ids(&mut watcher, 2), ["3", "4"]);
    drop(watcher);
    // What was acknowledged by a header stays so.
    let (_, mut watcher) = watch("");
    assert_eq!(ids(&mut watcher, 2), ["3", "4"]);
    drop(watcher);
    assert_eq!(watch("Last-Event-ID: none\r\n").0, 400);
    assert_eq!(watch("Last-Event-ID: 99\r\n").0, 409);
}
