//! The pages of `examples/agent`: fetches pages of one host by HTTP.
//!
//! Argument: the host and port. Its manifest allows it to reach that and nothing else, whatever a
//! model makes of it. Every fetch is a task of its own, so one that waits holds up no other.

use mainspring_guest::capability::{self, Envelope, Outbox};
use mainspring_guest::{TcpStream, args, block_on, spawn, timeout};
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// How long the host may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer.
const ANSWER_BYTES_MAX: usize = 256 << 10;

#[derive(Deserialize)]
struct Fetch {
    path: String,
}

fn main() -> io::Result<()> {
    let Some(host) = args()?.into_iter().nth(1) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: fetch HOST:PORT"));
    };
    let host: Rc<str> = host.into();
    block_on(async {
        let (mut inbox, outbox) = capability::open()?;
        while let Some(message) = inbox.next().await? {
            let (host, outbox) = (Rc::clone(&host), outbox.clone());
            spawn(async move {
                serve(&host, &message, &outbox).await;
                // What was said is written even while others wait.
                let _ = outbox.flush().await;
            });
        }
        Ok(())
    })
}

async fn serve(host: &str, message: &Envelope, outbox: &Outbox) {
    let path = match message.data_as::<Fetch>() {
        Ok(fetch) if is_path(&fetch.path) => fetch.path,
        _ => return outbox.error(message, 422, "data.path: must begin with / and have no spaces"),
    };
    match timeout(PATIENCE, get(host, &path)).await {
        Ok(Ok((status, text))) => outbox.reply(message, json!({ "status": status, "text": text }).into()),
        Ok(Err(error)) => outbox.error(message, 502, &format!("{host}{path}: {error}")),
        Err(_) => outbox.error(message, 504, &format!("{host}{path}: no answer within 10 s")),
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
