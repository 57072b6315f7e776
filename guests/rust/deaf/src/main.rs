//! Accepts a connection, lets it become ready, and then waits for a timer only: its host must not
//! be kept awake by what nobody reads.
//!
//! Listens on a port that it prints; after one connection and the given number of milliseconds it
//! reads what has come, prints how much, and ends.

use mainspring_guest::{TcpListener, args, block_on, println, sleep};
use std::time::Duration;

fn main() -> std::io::Result<()> {
    block_on(async {
        let milliseconds = args()?.get(1).and_then(|text| text.parse().ok()).unwrap_or(100);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("listening on port {}", listener.local_port());
        let (stream, _) = listener.accept().await?;
        let mut buffer = [0; 4096];
        // The first read installs the watch; from then on the connection is ready and nobody
        // listens.
        let first = stream.read(&mut buffer[..1]).await?;
        sleep(Duration::from_millis(milliseconds)).await;
        let rest = stream.read(&mut buffer).await?;
        println!("read {}", first + rest);
        Ok(())
    })
}
