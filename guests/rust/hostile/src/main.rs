//! A capability that misbehaves in whatever way a message asks for, by its data: `{"do": "spin"}`. Anything else is answered as it should be.
//!
//! The tests of the daemon run it beside well-behaved capabilities, which must not notice.

use mainspring_guest::capability::{self, Envelope, Json, Outbox};
use mainspring_guest::zi;
use mainspring_guest::{block_on, eprintln, shutdown_requested, stdout};
use std::future::pending;
use std::io;

const STANDARD_INPUT: i32 = 0;

fn main() -> io::Result<()> {
    block_on(async {
        let (mut inbox, outbox) = capability::open()?;
        while let Some(message) = inbox.next().await? {
            act(&message, &outbox).await?;
        }
        Ok(())
    })
}

async fn act(message: &Envelope, outbox: &Outbox) -> io::Result<()> {
    // `{"do":"spin"}`: the fourth part between quotes.
    match message.data().split('"').nth(3).unwrap_or("") {
        "spin" => loop {
            std::hint::black_box(());
        },
        "trap" => panic!("asked to trap"),
        "exit" => std::process::exit(3),
        "sleep" => pending().await,
        "linger" => {
            outbox.reply(message, Json::null());
            outbox.flush().await?;
            shutdown_requested().await;
            outbox.event(message, "Hostile.Interrupted", Json::null());
            outbox.flush().await?;
            std::process::exit(0)
        }
        "flood" => loop {
            outbox.event(message, "Hostile.Flooded", Json::null());
            outbox.flush().await?;
        },
        "endless line" => loop {
            stdout().write_all(&[b'x'; 4096]).await?;
        },
        "garbage" => stdout().write_all(b"this is no message\n").await,
        "answer twice" => {
            outbox.reply(message, Json::null());
            outbox.reply(message, Json::null());
            Ok(())
        }
        "close input" => {
            outbox.reply(message, Json::null());
            outbox.flush().await?;
            zi::end(STANDARD_INPUT).map_err(mainspring_guest::io_error)?;
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
            Ok(())
        }
        "complain for ever" => loop {
            eprintln!("nothing is ever right");
        },
        _ => {
            outbox.reply(message, message.data_json());
            Ok(())
        }
    }
}
