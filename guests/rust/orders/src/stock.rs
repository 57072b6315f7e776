//! The stock, over TCP: one line asks, one line answers.

use mainspring_guest::{TcpStream, timeout};
use std::io;
use std::time::Duration;

/// How long the stock may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer.
const ANSWER_BYTES_MAX: usize = 256;

/// What became of an attempt to take something.
pub(crate) enum Taken {
    /// It was taken.
    For {
        /// The price of one.
        price_cents: u64,
    },
    /// There are not that many.
    SoldOut {
        /// How many there are.
        left: u64,
    },
    /// There is no such thing.
    Unknown,
}

/// Takes so many of an item: `TAKE quantity item`, answered by `OK price`, `LEFT number` or
/// `UNKNOWN`.
pub(crate) async fn take(address: &str, item: &str, quantity: u64) -> io::Result<Taken> {
    if item.contains(['\n', '\r']) {
        return Ok(Taken::Unknown);
    }
    let answer = timeout(PATIENCE, ask(address, &format!("TAKE {quantity} {item}\n"))).await??;
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, format!("it answered {answer:?}"));
    match answer.split_once(' ').unwrap_or((&answer, "")) {
        ("OK", price) => Ok(Taken::For { price_cents: price.parse().map_err(|_| nonsense())? }),
        ("LEFT", left) => Ok(Taken::SoldOut { left: left.parse().map_err(|_| nonsense())? }),
        ("UNKNOWN", _) => Ok(Taken::Unknown),
        _ => Err(nonsense()),
    }
}

async fn ask(address: &str, question: &str) -> io::Result<String> {
    let stream = TcpStream::connect(address).await?;
    stream.write_all(question.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut buffer = [0; ANSWER_BYTES_MAX];
    while !answer.ends_with(b"\n") && answer.len() < ANSWER_BYTES_MAX {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8(answer).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(text.trim_end().to_owned())
}
