//! A database client as old components have it: a current-thread executor, and a stream that wakes
//! itself whenever a call would block, because its interface gave it no way to wait. Left alone it
//! would use a whole core; the host makes its calls take a while.
//!
//! With the word `park` in front, the same client waits by `poll-socket`: that is all that
//! [`park`](executor::Waiting::Park) adds.

wit_bindgen::generate!({ path: "../../../crates/host/wit", world: "mainspring:sockets/imports", generate_all });

mod executor;
mod stream;

use executor::{Executor, Waiting};
use mainspring::sockets::tcp::connect_tcp;
use postgres_client::Platform;
use std::future::Future;
use std::io::{self, Write};
use std::process::ExitCode;
use stream::HostTcpStream;

/// This guest's side of the client.
#[derive(Clone)]
struct Guest {
    executor: Executor,
}

impl Platform for Guest {
    type Stream = HostTcpStream;

    async fn connect(&self, host: &str, port: u16) -> io::Result<HostTcpStream> {
        let handle = connect_tcp(host, port).map_err(stream::io_error)?;
        Ok(HostTcpStream::new(handle, self.executor.clone()))
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.executor.spawn(task);
    }

    fn say(&self, line: &str) {
        println!("{line}");
        // Whoever reads it waits for it.
        let _ = io::stdout().flush();
    }
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let parks = words.first().is_some_and(|word| word == "park");
    if parks {
        words.remove(0);
    }
    let executor = Executor::new(if parks { Waiting::Park } else { Waiting::WakeItself });
    let guest = Guest { executor: executor.clone() };
    match executor.block_on(async move { postgres_client::run(guest, &words).await }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", postgres_client::explain(&error));
            ExitCode::FAILURE
        }
    }
}
