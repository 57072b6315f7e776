//! The page, and the sessions that it runs under.

use crate::support::{ONCE, SESSION, connect, request, start};
use mainspring_http::Limits;
use serde_json::{Value, json};

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn h6_1_the_page_needs_no_token_and_lets_nothing_else_into_itself() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    for (path, media_type) in [
        ("/", "text/html"),
        ("/console.js", "text/javascript"),
        ("/console.css", "text/css"),
        ("/icon.svg", "image/svg"),
    ] {
        let answer = client.raw("GET", path, "", "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.headers["content-type"].starts_with(media_type), "{answer:?}");
        let policy = &answer.headers["content-security-policy"];
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("connect-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
        assert!(!answer.headers.contains_key("content-encoding"));
        let packed = client.raw("GET", path, "Accept-Encoding: gzip\r\n", "");
        assert_eq!(packed.headers["content-encoding"], "gzip");
        assert!(packed.body.len() < answer.body.len() && packed.body.starts_with(&[0x1f, 0x8b]));
    }
    assert_eq!(client.raw("POST", "/", "", "").status, 405);
    assert_eq!(client.raw("GET", "/index.html", "", "").status, 404);
}

#[test]
fn h6_1_a_page_that_the_browser_has_is_not_sent_again() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let tag = client.raw("GET", "/console.js", "", "").headers["etag"].clone();
    let again = client.raw("GET", "/console.js", &format!("If-None-Match: {tag}\r\n"), "");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let other = client.raw("GET", "/console.js", "If-None-Match: \"x\"\r\n", "");
    assert_eq!(other.status, 200);
}

#[test]
fn h6_2_a_token_opens_one_session_and_no_second() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let open = json!({ "token": ONCE }).to_string();
    let answer = client.raw("POST", "/v1/console/session", "", &open);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["session"], SESSION);
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(client.raw("POST", "/v1/console/session", "", &open).status, 401);
    for wrong in ["", "{}", "[]", "{\"token\":1}", "{\"token\":\"a\",\"more\":1}"] {
        assert_eq!(client.raw("POST", "/v1/console/session", "", wrong).status, 400, "{wrong}");
    }
    assert_eq!(client.raw("GET", "/v1/console/session", "", "").status, 405);
}

#[test]
fn h6_2_pages_of_others_cannot_open_a_session() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let open = json!({ "token": ONCE }).to_string();
    let foreign = client.raw("POST", "/v1/console/session", "Origin: https://evil.example\r\n", &open);
    assert_eq!(foreign.status, 403);
    assert_eq!(client.raw("POST", "/v1/console/session", "", &open).status, 200, "it was not used up");
}

#[test]
fn h6_3_a_session_is_sent_as_a_token_is() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let answer = client.raw("POST", "/v1/queries/Test.Echo", &bearer(SESSION), "7");
    assert_eq!((answer.status, answer.text()), (200, "7"));
    for wrong in ["session", "session-1x", ONCE] {
        assert_eq!(client.raw("POST", "/v1/queries/Test.Echo", &bearer(wrong), "7").status, 401, "{wrong}");
    }
}

#[test]
fn h3_6_messages_that_pass_are_told_on_the_stream_of_events() {
    let server = start(Limits::default());
    let mut watcher = connect(&server);
    let path = "/v1/events?tap=%7B%22data%22%3Atrue%2C%22gatherMs%22%3A20%7D";
    watcher.write(request("GET", path, "Accept: application/x-ndjson\r\n", "").as_bytes());
    assert_eq!(watcher.read_head().0, 200);
    connect(&server).ask("POST", "/v1/commands/Test.Echo", "", "[1]");
    let event: Value = serde_json::from_slice(&watcher.read_chunk()).unwrap();
    assert_eq!(event["type"], "Sys.Tapped");
    let record = &event["data"]["records"][0];
    assert_eq!(
        (&record["type"], &record["data"], &record["outcome"]["data"]),
        (&json!("Test.Echo"), &json!([1]), &json!([1]))
    );
    let mut client = connect(&server);
    assert_eq!(client.ask("GET", "/v1/events?tap=nonsense", "", "").status, 400);
    assert_eq!(client.ask("GET", "/v1/events?tap=%7B%22what%22%3A1%7D", "", "").status, 422);
}
