//! A capability that misbehaves in whatever way a message asks for, by its data: `["spin"]`.
//! Anything else is answered as it should be.
//!
//! The tests of the daemon run it beside well-behaved capabilities, which must not notice.

use mainspring_guest::capability::{self, Envelope, Json, Outbox};
use mainspring_guest::zi;
use mainspring_guest::{TcpStream, block_on, eprintln, shutdown_requested, stdout};
use std::future::pending;
use std::io;
use std::ops::ControlFlow;

const STANDARD_INPUT: i32 = 0;
const STANDARD_OUTPUT: i32 = 1;

fn main() -> io::Result<()> {
    block_on(async {
        let (mut inbox, outbox) = capability::open()?;
        while let Some(message) = inbox.next().await? {
            if act(&message, &outbox).await?.is_break() {
                break;
            }
        }
        Ok(())
    })
}

async fn act(message: &Envelope, outbox: &Outbox) -> io::Result<ControlFlow<()>> {
    // `["connect","place"]`: words between quotes.
    let mut words = message.data().split('"').skip(1).step_by(2);
    match words.next().unwrap_or("") {
        "spin" => loop {
            std::hint::black_box(());
        },
        "trap" => panic!("asked to trap"),
        "fail" => return Err(io::Error::other("asked to fail")),
        "sleep" => pending().await,
        "linger" => {
            outbox.reply(message, Json::null());
            outbox.flush().await?;
            shutdown_requested().await;
            eprintln!("was interrupted");
            return Ok(ControlFlow::Break(()));
        }
        "flood" => loop {
            outbox.event(message, "Hostile.Flooded", Json::null());
            outbox.flush().await?;
        },
        "endless line" => loop {
            stdout().write_all(&[b'x'; 4096]).await?;
        },
        "garbage" => stdout().write_all(b"this is no message\n").await?,
        "answer twice" => {
            outbox.reply(message, Json::null());
            outbox.reply(message, Json::null());
        }
        deed @ ("close input" | "close output") => {
            outbox.reply(message, Json::null());
            outbox.flush().await?;
            let stream = if deed == "close input" { STANDARD_INPUT } else { STANDARD_OUTPUT };
            zi::end(stream).map_err(mainspring_guest::io_error)?;
            pending().await
        }
        "grow" => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(vec![1_u8; 1 << 20]);
            }
        }
        "complain" => {
            eprintln!("nothing is right");
            outbox.reply(message, message.data_json());
        }
        "complain for ever" => loop {
            eprintln!("nothing is ever right");
        },
        "connect" => {
            let outcome = TcpStream::connect(words.next().unwrap_or("")).await.map(drop);
            let text =
                outcome.map_or_else(|error| format!("{:?}", error.kind()), |()| "connected".to_owned());
            outbox.reply(message, json_word(&text));
        }
        _ if message.kind().is_request() => outbox.reply(message, message.data_json()),
        _ => {}
    }
    Ok(ControlFlow::Continue(()))
}

/// A word as JSON; it needs no escapes.
fn json_word(word: &str) -> Json {
    Json::parse(&format!("\"{word}\"")).unwrap_or_else(|_| Json::null())
}
