//! One request to the collector, in no more time than it is given.

use crate::settings::Collector;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a collector may take to let us in.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long it may take for everything.
const POST_MAX: Duration = Duration::from_secs(5);
/// Bytes of its answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends JSON; the body of the answer, or why it was not taken.
pub(super) fn post(collector: &Collector, body: &str) -> Result<Vec<u8>, String> {
    let until = Instant::now() + POST_MAX;
    let mut stream = connect(&collector.place())?;
    let Collector { authority, path } = collector;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nUser-Agent: mainspring/{}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    write(&mut stream, head.as_bytes(), until)?;
    write(&mut stream, body.as_bytes(), until)?;
    read(&mut stream, until)
}

fn connect(place: &str) -> Result<TcpStream, String> {
    let mut reason = "the name has no address".to_owned();
    for address in place.to_socket_addrs().map_err(|error| error.to_string())? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

fn left(until: Instant) -> Result<Duration, String> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err("it took too long".to_owned()) } else { Ok(left) }
}

fn write(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> Result<(), String> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?)).map_err(|error| error.to_string())?;
        match stream.write(bytes) {
            Ok(0) => return Err("it takes no more bytes".to_owned()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn read(stream: &mut TcpStream, until: Instant) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while answer.len() < ANSWER_BYTES_MAX && !is_complete(&answer) {
        stream.set_read_timeout(Some(left(until)?)).map_err(|error| error.to_string())?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if is_passing(&error) => {}
            // Whoever closes at once after its answer may reset the rest.
            Err(_) if !answer.is_empty() => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    let (head, body) = split(&answer).ok_or("it does not answer like an HTTP server")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !head.starts_with("HTTP/1.") || !status.starts_with('2') {
        let line = head.lines().next().unwrap_or_default();
        return Err(format!("it answers {:?}", line.chars().take(100).collect::<String>()));
    }
    Ok(body.to_vec())
}

/// A wait that ended without bytes: the caller sees whether there is time left.
fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock | TimedOut)
}

fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

/// Whether the body is as long as the head says; without that, the end of the connection is its
/// end.
fn is_complete(answer: &[u8]) -> bool {
    let Some((head, body)) = split(answer) else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn with_answer(answer: &'static [u8]) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !is_complete(&request) {
                let mut piece = [0; 1024];
                let count = stream.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..count]);
            }
            stream.write_all(answer).unwrap();
            String::from_utf8(request).unwrap()
        });
        let collector = Collector::try_from(format!("http://{address}/base")).unwrap();
        let outcome = post(&collector, "{\"a\":1}");
        let request = server.join().unwrap();
        assert!(request.starts_with("POST /base/v1/traces HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("Host: {address}\r\n")) && request.ends_with("\r\n\r\n{\"a\":1}"));
        outcome
    }

    #[test]
    fn an_answer_of_200_is_a_success_and_nothing_else_is() {
        assert_eq!(with_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more").unwrap(), b"{}more");
        assert_eq!(with_answer(b"HTTP/1.1 200 OK\r\n\r\n").unwrap(), b"");
        assert!(with_answer(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").unwrap_err().contains("503"));
        assert!(with_answer(b"SSH-2.0-x\r\n").is_err());
        assert!(with_answer(b"").is_err());
    }
}
