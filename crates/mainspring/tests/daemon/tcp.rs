//! TCP on loopback, with tokens.

use crate::clients::raise_descriptors;
use crate::support::{Client, Daemon, PATIENCE, code, eventually, line};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

const CONFIG: &str = r#"
[[listen]]
tcp = "127.0.0.1:0"
tokens = [{ name = "ann", token = "0123456789abcdef" }, { name = "bob", token = "fedcba9876543210" }]
"#;

/// Where it listens.
fn place(daemon: &Daemon) -> String {
    let mut adapters = daemon.boot["data"]["adapters"].as_array().unwrap().iter();
    adapters.find_map(|adapter| adapter.as_str()?.strip_prefix("tcp:")).unwrap().to_owned()
}

fn connect(daemon: &Daemon) -> (TcpStream, BufReader<TcpStream>) {
    let stream = TcpStream::connect(place(daemon)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let reader = BufReader::new(stream.try_clone().unwrap());
    (stream, reader)
}

fn next(reader: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut text = String::new();
    match reader.read_line(&mut text) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(serde_json::from_str(&text).unwrap()),
    }
}

#[test]
fn a_client_with_a_token_is_served_in_one_go() {
    let daemon = Daemon::with_config(CONFIG);
    let (mut stream, mut reader) = connect(&daemon);
    let both =
        format!("{{\"token\":\"0123456789abcdef\"}}\n{}", line("query", "Syscall.Ping", "q-1", &json!(1)));
    stream.write_all(both.as_bytes()).unwrap();
    assert_eq!(next(&mut reader).unwrap()["data"], json!(1));
    daemon.end();
}

#[test]
fn a_token_that_comes_byte_by_byte_is_a_token() {
    let daemon = Daemon::with_config(CONFIG);
    let (mut stream, mut reader) = connect(&daemon);
    stream.set_nodelay(true).unwrap();
    let both =
        format!("{{\"token\":\"fedcba9876543210\"}}\n{}", line("query", "Syscall.Ping", "q-1", &json!(2)));
    for byte in both.as_bytes() {
        stream.write_all(std::slice::from_ref(byte)).unwrap();
    }
    assert_eq!(next(&mut reader).unwrap()["data"], json!(2));
    daemon.end();
}

#[test]
fn blank_lines_before_the_token_are_none() {
    let daemon = Daemon::with_config(CONFIG);
    let (mut stream, mut reader) = connect(&daemon);
    let ping = line("query", "Syscall.Ping", "q-1", &json!(3));
    stream.write_all(format!("\r\n \n\n{{\"token\":\"0123456789abcdef\"}}\r\n{ping}").as_bytes()).unwrap();
    assert_eq!(next(&mut reader).unwrap()["data"], json!(3));
    daemon.end();
}

#[test]
fn a_client_that_sends_no_token_in_time_is_told_and_closed() {
    let daemon = Daemon::with_config(CONFIG);
    let mut waiting = [connect(&daemon), connect(&daemon), connect(&daemon)];
    waiting[1].0.write_all(b"{\"token\":").unwrap();
    waiting[2].0.write_all(b"\n\n\n").unwrap();
    for (_, reader) in &mut waiting {
        let refused = next(reader).expect("an answer");
        assert_eq!(code(&refused), 403);
        assert!(refused["data"]["message"].as_str().unwrap().contains("in time"), "{refused}");
        assert_eq!(next(reader), None);
    }
    assert_eq!(daemon.stats()["floors"]["clients"]["open"], json!(1), "nobody but who asks");
    daemon.end();
}

/// So many clients that say nothing.
fn crowd(daemon: &Daemon, number: usize, client: &mut Client) -> Vec<TcpStream> {
    let place = place(daemon);
    let mut crowd = Vec::with_capacity(number);
    while crowd.len() < number {
        crowd.push(TcpStream::connect(&place).unwrap());
        // Whoever knocks faster than the daemon opens has to knock again, which takes a second.
        if crowd.len() % 64 == 0 {
            client.query("Syscall.Ping", json!(crowd.len()));
        }
    }
    crowd
}

#[test]
fn beyond_so_many_without_a_token_whoever_waited_longest_is_told_and_the_others_are_served() {
    const AT_GATES_MAX: usize = 1024;
    if !raise_descriptors(AT_GATES_MAX as u64 + 200) {
        println!("skipped: this process may not open so many descriptors");
        return;
    }
    let daemon = Daemon::with_config(CONFIG);
    let mut client = daemon.connect();
    // They have to be there together before the first is closed for saying nothing: a machine with
    // other things to do is given a few tries.
    let crowded = (0..5).find_map(|_| {
        let (_first, mut reader) = connect(&daemon);
        let silent = crowd(&daemon, AT_GATES_MAX, &mut client);
        let refused = next(&mut reader).expect("an answer");
        (code(&refused) == 503).then_some((silent, reader))
    });
    let (silent, mut reader) = crowded.expect("the first is told so");
    assert_eq!(next(&mut reader), None);
    client.query("Syscall.Ping", json!(1));
    drop((silent, client));
    eventually("they are gone", || daemon.stats()["floors"]["clients"]["open"] == json!(1));
    let (mut stream, mut reader) = connect(&daemon);
    let ping = line("query", "Syscall.Ping", "q-1", &json!(4));
    stream.write_all(format!("{{\"token\":\"0123456789abcdef\"}}\n{ping}").as_bytes()).unwrap();
    assert_eq!(next(&mut reader).unwrap()["data"], json!(4));
    daemon.end();
}

#[test]
fn a_client_without_the_right_token_is_told_and_closed_and_nothing_of_it_is_served() {
    let daemon = Daemon::with_config(CONFIG);
    let set = line("command", "Memory.Set", "c-1", &json!({ "key": "stolen", "value": 1 }));
    for first in ["{\"token\":\"wrong-wrong-wrong\"}\n", "garbage\n", &set, &"x".repeat(100_000)] {
        let (mut stream, mut reader) = connect(&daemon);
        // The daemon may have closed before everything is written.
        let _ = stream.write_all(format!("{first}{set}").as_bytes());
        let refused = next(&mut reader).expect("an answer");
        assert_eq!(code(&refused), 403);
        assert_eq!(next(&mut reader), None);
    }
    let mut client = daemon.connect();
    assert_eq!(client.query("Memory.List", json!({}))["keys"], json!([]));
    daemon.end();
}

/// How many wrong tokens the log tells of: line by line, and by the number of those left out.
fn wrong_tokens_told(log: &str) -> (usize, usize) {
    let left_out = log.lines().filter_map(|line| {
        line.split_once(" more clients without a valid token")?.0.rsplit_once('(')?.1.parse::<usize>().ok()
    });
    (log.matches("sent a wrong token").count(), left_out.sum())
}

#[test]
fn wrong_tokens_without_end_are_ten_lines_of_the_log_a_second_and_the_rest_is_counted() {
    const STRANGERS: usize = 300;
    let mut daemon = Daemon::with_config(CONFIG);
    let began = Instant::now();
    let knock = || {
        for _ in 0..STRANGERS {
            let (mut stream, mut reader) = connect(&daemon);
            stream.write_all(b"{\"token\":\"wrong-wrong-wrong\"}\n").unwrap();
            assert_eq!(code(&next(&mut reader).expect("an answer")), 403);
        }
    };
    knock();
    eventually("all are told of, though nobody knocks any more", || {
        let (lines, left_out) = wrong_tokens_told(&daemon.log());
        lines + left_out == STRANGERS
    });
    knock();
    daemon.signal("TERM");
    assert!(daemon.wait().success());
    let log = daemon.log();
    let (lines, left_out) = wrong_tokens_told(&log);
    assert_eq!(lines + left_out, 2 * STRANGERS, "what was left out is told before the end\n{log}");
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!(lines <= 10 * seconds, "{lines} lines in {seconds} seconds");
}

#[test]
fn peers_of_different_tokens_may_use_the_same_ids() {
    let daemon = Daemon::with_config(CONFIG);
    for (token, value) in [("0123456789abcdef", 1), ("fedcba9876543210", 2)] {
        let (mut stream, mut reader) = connect(&daemon);
        let text =
            format!("{{\"token\":\"{token}\"}}\n{}", line("query", "Syscall.Ping", "same", &json!(value)));
        stream.write_all(text.as_bytes()).unwrap();
        assert_eq!(next(&mut reader).unwrap()["data"], json!(value));
    }
    daemon.end();
}
