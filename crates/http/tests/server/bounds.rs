//! What a stranger can do, and what it costs: every bound of `Limits`.

use crate::support::{connect, request, start};
use mainspring_http::Limits;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn quick() -> Limits {
    Limits {
        head_time_max: Duration::from_millis(300),
        body_time_max: Duration::from_millis(300),
        idle_time_max: Duration::from_millis(300),
        stall_time_max: Duration::from_millis(300),
        ..Limits::default()
    }
}

#[test]
fn h4_1_a_head_that_comes_too_slowly_is_closed() {
    let server = start(quick());
    let began = Instant::now();
    let mut client = connect(&server);
    client.write(b"GET /livez HTTP/1.1\r\nHost: loc");
    assert!(client.is_closed());
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn h4_1_a_connection_that_says_nothing_is_closed_before_and_after_a_request() {
    let server = start(quick());
    assert!(connect(&server).is_closed());
    let mut used = connect(&server);
    assert_eq!(used.ask("GET", "/livez", "", "").status, 200);
    assert!(used.is_closed());
}

#[test]
fn h4_1_a_request_that_takes_its_time_is_answered_though_the_limits_for_waiting_are_shorter() {
    let server = start(quick());
    let mut client = connect(&server);
    let answer = client.ask("POST", "/v1/commands/Test.Never", "Prefer: wait=1\r\n", "1");
    assert_eq!(answer.status, 504, "the limits of time are for the client, not for the capability");
}

#[test]
fn h4_1_a_silent_stream_is_kept_though_the_limits_for_waiting_are_shorter() {
    let server = start(quick());
    let mut watcher = connect(&server);
    watcher.write(request("GET", "/v1/events?types=Test.*", "", "").as_bytes());
    watcher.read_head();
    watcher.read_chunk();
    std::thread::sleep(Duration::from_millis(700));
    connect(&server).ask("POST", "/v1/commands/Test.Add", "", r#"{"a":1}"#);
    assert!(!watcher.read_chunk().is_empty(), "a silent stream is kept");
}

#[test]
fn h4_2_a_body_that_does_not_come_is_408() {
    let server = start(quick());
    let mut client = connect(&server);
    client.write(
        b"POST /v1/commands/Test.Echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 10\r\n\r\n123",
    );
    let answer = client.read_answer();
    assert_eq!((answer.status, answer.headers["connection"].as_str()), (408, "close"));
    assert!(client.is_closed());
}

#[test]
fn h4_3_a_body_that_is_too_long_is_413_whether_its_length_is_said_or_not() {
    let server = start(Limits { body_bytes_max: 1000, ..Limits::default() });
    let exact = format!("\"{}\"", "x".repeat(998));
    assert_eq!(connect(&server).ask("POST", "/v1/commands/Test.Echo", "", &exact).status, 200);
    let mut client = connect(&server);
    client.write(
        b"POST /v1/commands/Test.Echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 1001\r\n\r\n",
    );
    assert_eq!(client.read_answer().status, 413, "before a byte of it was sent");
    let mut client = connect(&server);
    client.write(
        b"POST /v1/commands/Test.Echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    for _ in 0..3 {
        client.write(chunk.as_bytes());
    }
    assert_eq!(client.read_answer().status, 413);
    let mut client = connect(&server);
    let line = format!("{}\n", "x".repeat(1001));
    let answer = client.ask("POST", "/v1/messages", "", &line);
    assert!(answer.text().contains("Sys.TooLargeError"), "{answer:?}");
}

#[test]
fn h4_4_a_head_that_is_too_long_or_has_too_many_lines_is_refused() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    client.write(
        format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(40 << 10)).as_bytes(),
    );
    assert_eq!(client.read_head().0, 431);
    let mut client = connect(&server);
    let headers: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    client.write(format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes());
    assert_eq!(client.read_head().0, 431);
}

#[test]
fn h4_5_nothing_is_served_after_a_request_whose_length_is_ambiguous() {
    let server = start(Limits::default());
    let hidden = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // The length is said in two ways: chunks count, and the connection ends with the answer.
    let both = "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n";
    let turned = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n";
    let mut cases = vec![(both, "200"), (turned, "200")];
    cases.extend(
        [
            "Content-Length: 4\r\nContent-Length: 5\r\n",
            "Content-Length: +4\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Content-Length: 4, 5\r\n",
        ]
        .map(|headers| (headers, "400")),
    );
    for (headers, status) in cases {
        let mut client = connect(&server);
        let token = "Authorization: Bearer secret";
        let head =
            format!("POST /v1/commands/Test.Echo HTTP/1.1\r\nHost: localhost\r\n{token}\r\n{headers}\r\n");
        client.write(format!("{head}1\r\n1\r\n0\r\n\r\n{hidden}").as_bytes());
        let mut all = String::new();
        client.stream.read_to_string(&mut all).expect("the answer is not lost");
        assert!(all.starts_with(&format!("HTTP/1.1 {status}")), "{headers:?}: {all}");
        assert_eq!(all.matches("HTTP/1.1").count(), 1, "{headers:?}: what followed was served: {all}");
    }
}

#[test]
fn h4_6_the_oldest_stranger_makes_room_and_neighbours_with_a_token_stay() {
    let server = start(Limits { strangers_max: 8, ..Limits::default() });
    let mut known = connect(&server);
    assert_eq!(known.ask("POST", "/v1/commands/Test.Echo", "", "1").status, 200);
    let mut strangers: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert_eq!(known.ask("POST", "/v1/commands/Test.Echo", "", "2").text(), "2");
    let mut byte = [0];
    for stranger in &mut strangers[..12] {
        stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(stranger.read(&mut byte).unwrap_or(0), 0, "the oldest are closed");
    }
    let newest = strangers.last_mut().unwrap();
    newest.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(newest.read(&mut byte).unwrap(), 1, "the newest are served");
}

#[test]
fn h4_7_a_client_that_does_not_read_is_closed_and_its_neighbour_does_not_wait() {
    let server = start(quick());
    let mut slow = connect(&server);
    slow.write(request("GET", "/v1/events?types=Test.Added", "", "").as_bytes());
    let mut client = connect(&server);
    let body = format!("{{\"a\":1,\"text\":\"{}\"}}", "x".repeat(100_000));
    let mut slowest = Duration::ZERO;
    let ended = Instant::now() + Duration::from_secs(20);
    while is_open(slow.stream.get_ref()) {
        let began = Instant::now();
        assert!(began < ended, "a client that reads nothing is still there");
        assert_eq!(client.ask("POST", "/v1/commands/Test.Add", "", &body).status, 200);
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

/// Whether the server has neither closed nor reset.
fn is_open(stream: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).expect("a poll");
    !fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}

#[test]
fn h4_9_a_client_that_asks_on_and_reads_nothing_is_not_read_and_loses_nothing() {
    let server = start(Limits::default());
    let mut greedy = TcpStream::connect(server.address).unwrap();
    greedy.set_nonblocking(true).unwrap();
    let text = "x".repeat(1000);
    let ask = |number: usize| {
        request("POST", "/v1/queries/Test.Echo", "", &format!("[{number},\"{text}\"]")).into_bytes()
    };
    // Until the server has taken nothing for a while.
    let (mut bytes, mut asked, mut waited) = (ask(0), 1, 0);
    while waited < 50 {
        match greedy.write(&bytes) {
            Ok(count) => {
                bytes.drain(..count);
                waited = 0;
                if bytes.is_empty() {
                    bytes = ask(asked);
                    asked += 1;
                }
            }
            Err(_) => {
                waited += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        assert!(asked < 50_000, "requests are taken though no answer is read");
    }
    assert_eq!(connect(&server).ask("GET", "/livez", "", "").status, 200, "nobody waits for it");
    greedy.set_nonblocking(false).unwrap();
    greedy.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = greedy.try_clone().unwrap();
    let last = std::thread::spawn(move || rest.write_all(&bytes).unwrap());
    let mut client = crate::support::Client { stream: std::io::BufReader::new(greedy) };
    for number in 0..asked {
        assert!(client.read_answer().text().starts_with(&format!("[{number},")), "in order, and all");
    }
    last.join().unwrap();
}

#[test]
fn h4_8_hostile_bytes_never_end_the_server() {
    let server = start(Limits::default());
    let hostile: [&[u8]; 9] = [
        b"\0\0\0\0\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"POST /v1/commands/%00%ff HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 0\r\n\r\n",
        b"GET /v1/queries/Test.Echo?data=%ff%00 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n",
        b"GET /v1/events?types=%0a%0d HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n",
        b"GET http://localhost@evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for bytes in hostile {
        let mut client = connect(&server);
        client.write(bytes);
        let _ = client.stream.get_ref().shutdown(std::net::Shutdown::Write);
        assert!(client.is_closed());
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(connect(&server).ask("POST", "/v1/commands/Test.Echo", "", &deep).status, 400);
    assert_eq!(connect(&server).ask("GET", "/livez", "", "").status, 200);
}
