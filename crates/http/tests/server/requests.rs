//! Commands, queries and events; who may send them.

use crate::support::{connect, request, start};
use mainspring_http::Limits;
use serde_json::json;

#[test]
fn h1_1_a_command_is_answered_with_the_data_of_its_reply() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let answer = client.ask("POST", "/v1/commands/Test.Echo", "", r#"{"a": 1.50, "b": "ä"}"#);
    assert_eq!((answer.status, answer.text()), (200, r#"{"a": 1.50, "b": "ä"}"#), "data travels as written");
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert!(answer.headers.contains_key("x-message-id"));
    // Many on one connection, and several at once.
    for n in 0..100 {
        assert_eq!(client.ask("POST", "/v1/commands/Test.Echo", "", &n.to_string()).text(), n.to_string());
    }
    let pipelined: String =
        (0..20).map(|n| request("POST", "/v1/queries/Test.Echo", "", &n.to_string())).collect();
    client.write(pipelined.as_bytes());
    for n in 0..20 {
        assert_eq!(client.read_answer().text(), n.to_string());
    }
}

#[test]
fn h1_1_a_query_may_have_its_data_in_the_address() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let answer = client.ask("GET", "/v1/queries/Test.Echo?data=%7B%22a%22%3A%22%2B%20b%22%7D", "", "");
    assert_eq!(answer.json(), json!({ "a": "+ b" }));
    assert_eq!(client.ask("GET", "/v1/queries/Test.Echo", "", "").text(), "null");
    assert_eq!(client.ask("GET", "/v1/queries/Test.Echo?data=%7B", "", "").status, 400);
    let head = request("HEAD", "/v1/queries/Test.Echo?data=1", "", "");
    client.write(head.as_bytes());
    assert_eq!(client.read_head().0, 200);
}

/// A number of the kernel.
fn stat(client: &mut crate::support::Client<std::net::TcpStream>, group: &str, name: &str) -> u64 {
    client.ask("POST", "/v1/queries/Sys.Stats", "", "{}").json()[group][name].as_u64().unwrap()
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !check() {
        assert!(std::time::Instant::now() < until, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn h1_7_closing_the_connection_cancels_a_query_and_a_command_without_a_key() {
    // A key makes a command go on; a query has no effect to go on with.
    for (path, key) in
        [("/v1/commands/Test.Never", ""), ("/v1/queries/Test.Silent", "Idempotency-Key: q\r\n")]
    {
        let server = start(Limits::default());
        let mut observer = connect(&server);
        let mut leaver = connect(&server);
        leaver.write(request("POST", path, key, "1").as_bytes());
        eventually("it is being worked on", || stat(&mut observer, "gauges", "inFlight") == 1);
        drop(leaver);
        eventually("it is cancelled", || stat(&mut observer, "counters", "requestsCancelled") == 1);
    }
}

#[test]
fn h1_7_a_command_with_a_key_goes_on_and_its_answer_can_be_asked_for_again() {
    let server = start(Limits::default());
    let mut observer = connect(&server);
    let before = stat(&mut observer, "gauges", "connections");
    let mut leaver = connect(&server);
    let headers = "Idempotency-Key: k-1\r\nPrefer: wait=1\r\n";
    leaver.write(request("POST", "/v1/commands/Test.Never", headers, "1").as_bytes());
    eventually("it is being worked on", || stat(&mut observer, "gauges", "inFlight") == 1);
    drop(leaver);
    eventually("the client is gone", || stat(&mut observer, "gauges", "connections") == before);
    assert_eq!(stat(&mut observer, "counters", "requestsCancelled"), 0);
    let again = connect(&server).ask("POST", "/v1/commands/Test.Never", headers, "1");
    assert_eq!((again.status, &again.json()["originalId"]), (504, &json!("k-1")), "{again:?}");
    assert_eq!(stat(&mut observer, "counters", "duplicates"), 1, "it was one request");
}

#[test]
fn h1_6_a_traceparent_reaches_what_a_request_causes_and_nonsense_does_not() {
    let server = start(Limits::default());
    let mut watcher = connect(&server);
    let path = "/v1/events?types=Test.Added";
    watcher.write(request("GET", path, "Accept: application/x-ndjson\r\n", "").as_bytes());
    watcher.read_head();
    let mut client = connect(&server);
    let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (sent, told) in [(span, json!(span)), ("00-nonsense", json!(null))] {
        let headers = format!("traceparent: {sent}\r\ntracestate: a=1\r\n");
        assert_eq!(client.ask("POST", "/v1/commands/Test.Add", &headers, r#"{"a":1}"#).status, 200);
        let event: serde_json::Value = serde_json::from_slice(&watcher.read_chunk()).unwrap();
        assert_eq!(event["metadata"]["traceparent"], told, "{event}");
    }
}

#[test]
fn h1_2_an_error_is_a_problem_with_its_code_as_status() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let cases = [
        ("/v1/commands/Test.Fail", "1", 418, "Test.Fail"),
        ("/v1/commands/Test.Nothing", "1", 404, "Sys.RoutingError"),
        ("/v1/commands/Test.Add", r#"{"a":"x"}"#, 422, "Sys.SchemaError"),
        ("/v1/commands/nonsense", "1", 422, "Sys.SchemaError"),
        ("/v1/queries/Test.Never", "1", 404, "Sys.RoutingError"),
    ];
    for (path, body, status, kind) in cases {
        let answer = client.ask("POST", path, "", body);
        assert_eq!((answer.status, &answer.json()["type"]), (status, &json!(kind)), "{path}: {answer:?}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert_eq!(answer.json()["status"], status);
    }
    let late = client.ask("POST", "/v1/commands/Test.Never", "Prefer: wait=0.05\r\n", "1");
    assert_eq!((late.status, &late.json()["started"]), (504, &json!("yes")), "{late:?}");
    assert_eq!(late.json()["originalId"], late.headers["x-message-id"]);
}

#[test]
fn h1_3_the_same_key_gets_the_same_answer_and_another_body_is_a_conflict() {
    let server = start(Limits::default());
    let key = "Idempotency-Key: \"order-1\"\r\n";
    let first = connect(&server).ask("POST", "/v1/commands/Test.Add", key, r#"{"a":1}"#);
    assert_eq!((first.status, first.headers["x-message-id"].as_str()), (200, "order-1"));
    let mut other = connect(&server);
    let again = other.ask("POST", "/v1/commands/Test.Add", key, r#"{"a":1}"#);
    assert_eq!((again.status, again.body), (200, first.body));
    assert_eq!(other.ask("POST", "/v1/commands/Test.Add", key, r#"{"a":2}"#).status, 409);
    let long = format!("Idempotency-Key: {}\r\n", "k".repeat(257));
    assert_eq!(other.ask("POST", "/v1/commands/Test.Add", &long, "{}").status, 400);
}

#[test]
fn h1_4_an_event_is_taken_or_refused() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    assert_eq!(client.ask("POST", "/v1/events/Test.Happened", "", "{}").status, 202);
    let refused = client.ask("POST", "/v1/events/Sys.BootComplete", "", "{}");
    assert_eq!((refused.status, &refused.json()["type"]), (403, &json!("Sys.ForbiddenError")), "{refused:?}");
    assert_eq!(
        client.ask("POST", "/v1/events/Test.Happened", "", "{}").status,
        202,
        "the connection goes on"
    );
}

#[test]
fn h1_5_cloud_events_come_in_structured_and_binary() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let structured = "Content-Type: application/cloudevents+json; charset=utf-8\r\n";
    let body = r#"{"specversion":"1.0","id":"x","source":"/a","type":"Test.Happened","data":{"n":1}}"#;
    assert_eq!(client.ask("POST", "/v1/events", structured, body).status, 202);
    let binary = "ce-specversion: 1.0\r\nce-id: y\r\nce-source: /a\r\nce-type: Test.Happened\r\n";
    assert_eq!(client.ask("POST", "/v1/events", binary, "{}").status, 202);
    for (headers, body) in [("", "{}"), (structured, "{}"), ("ce-id: y\r\n", "{}")] {
        let answer = client.ask("POST", "/v1/events", headers, body);
        assert_eq!(answer.status, 400, "{answer:?}");
    }
}

#[test]
fn h2_1_without_a_token_nothing_but_probes_is_answered() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    for path in ["/v1/queries/Test.Echo", "/metrics", "/openapi.json", "/v1/events"] {
        client.write(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let answer = client.read_answer();
        assert_eq!(
            (answer.status, answer.headers["www-authenticate"].as_str()),
            (401, "Bearer realm=\"mainspring\"")
        );
    }
    for path in ["/livez", "/readyz"] {
        client.write(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert_eq!(client.read_answer().text(), "ok\n");
    }
    client.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret2\r\n\r\n");
    assert_eq!(client.read_answer().status, 401);
}

#[test]
fn h2_2_other_hosts_and_origins_are_refused() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    client.write(b"GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(client.read_answer().status, 421);
    client.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n");
    let answer = client.read_answer();
    assert_eq!(answer.status, 403);
    assert!(!answer.headers.keys().any(|name| name.starts_with("access-control")), "{answer:?}");
    client.write(b"OPTIONS /v1/commands/Test.Echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = client.read_answer();
    assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "POST"));
}

#[test]
fn h1_6_trace_and_correlation_travel_with_the_message() {
    let server = start(Limits::default());
    let mut watcher = connect(&server);
    watcher.write(
        request("GET", "/v1/events?types=Test.Added", "Accept: application/x-ndjson\r\n", "").as_bytes(),
    );
    assert_eq!(watcher.read_head().0, 200);
    let headers = "X-Correlation-Id: order-7\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    assert_eq!(connect(&server).ask("POST", "/v1/commands/Test.Add", headers, r#"{"a":1}"#).status, 200);
    let event: serde_json::Value = serde_json::from_slice(&watcher.read_chunk()).unwrap();
    assert_eq!(event["metadata"]["correlation"], "order-7");
}
