//! A database client: unmodified `tokio-postgres` over this crate's streams. It waits for all of
//! its connections in one POLL.
//!
//! For wasm32-wasip1, because the login needs random numbers and `tokio-postgres` gets them from
//! the system. Sockets and waiting are Mainspring's own.

use mainspring_guest::{TcpStream, args, block_on, eprintln, print, spawn};
use postgres_client::Platform;
use std::future::Future;
use std::io;
use std::process::ExitCode;

/// This guest's side of the client.
#[derive(Clone)]
struct Guest;

impl Platform for Guest {
    type Stream = TcpStream;

    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        TcpStream::connect(&format!("{host}:{port}")).await
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        spawn(task);
    }

    fn say(&self, line: &str) {
        print!("{line}\n");
    }
}

fn main() -> ExitCode {
    let words = args().unwrap_or_default();
    match block_on(postgres_client::run(Guest, words.get(1..).unwrap_or_default())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", postgres_client::explain(&error));
            ExitCode::FAILURE
        }
    }
}
