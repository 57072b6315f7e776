//! The pages of `examples/agent`: fetches pages of one host by HTTP.
//!
//! Argument: the host and port. Its manifest allows it to reach that and nothing else, whatever a
//! model makes of it. Every fetch is a task of its own, so one that waits holds up no other.

use mainspring_guest::capability::schemars::{self, JsonSchema};
use mainspring_guest::capability::{Capability, Context, Failure, Hints};
use mainspring_guest::{TcpStream, args, eprintln, timeout};
use serde::{Deserialize, Serialize};
use std::io;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// How long the host may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Fetches at the same time.
const FETCHES_MAX: usize = 8;

#[derive(Deserialize, JsonSchema)]
struct Fetch {
    /// What to fetch: /readyz?verbose.
    #[schemars(regex(pattern = r"^/[\x21-\x7e]*$"))]
    path: String,
}

#[derive(Serialize, JsonSchema)]
struct Page {
    /// What the host says of it: 200 if it is there.
    status: u16,
    text: String,
}

fn main() -> ExitCode {
    // Where there is no host, the program is asked for its manifest.
    let argument = args().map_or_else(|_| std::env::args().nth(1), |words| words.into_iter().nth(1));
    let Some(host) = argument else {
        eprintln!("usage: fetch HOST:PORT");
        return ExitCode::FAILURE;
    };
    let host: Rc<str> = host.into();
    Capability::new("pages", "Fetches pages of one host, from inside a sandbox.")
        .concurrency(FETCHES_MAX)
        .query(
            "Pages.Fetch",
            "Fetches a page of the one host that it may reach.",
            move |wanted: Fetch, _: Context| fetch(Rc::clone(&host), wanted.path),
        )
        .hints(Hints { open_world: Some(true), ..Hints::default() })
        .run()
}

async fn fetch(host: Rc<str>, path: String) -> Result<Page, Failure> {
    if !is_path(&path) {
        return Err(Failure::new(422, "data.path: must begin with / and have no spaces"));
    }
    match timeout(PATIENCE, get(&host, &path)).await {
        Ok(Ok((status, text))) => Ok(Page { status, text }),
        Ok(Err(error)) => Err(Failure::new(502, format!("{host}{path}: {error}"))),
        Err(_) => Err(Failure::new(504, format!("{host}{path}: no answer within 10 s"))),
    }
}

/// Nothing that could end the line of the request.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

async fn get(host: &str, path: &str) -> io::Result<(u16, String)> {
    let stream = TcpStream::connect(host).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..count]);
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the page is longer than 256 KiB"));
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(nonsense)?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(nonsense)?;
    Ok((status, body.to_owned()))
}
