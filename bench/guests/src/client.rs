//! The other end of the connections, in a process of its own: one process may not have enough
//! descriptors for both ends, and what the client costs is not the server's.
//!
//! `guests-bench client PORT CONNECTIONS ACTIVE ROUND_TRIPS BATCHES` opens the connections, then
//! makes batches of round trips: each sends a message on ACTIVE of them and waits for the echoes.
//! Prints `ready`, then the nanoseconds of each batch, and goes on after each line when it is told
//! to: the server reads its own clock in between.
//!
//! Those that talk take turns, but they are few, and as many whatever the number of connections:
//! the question is what it costs to wait for the others, not what it costs the kernel to touch ten
//! thousand sockets that no cache holds.

use bench_support::monotonic_ns;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Bytes of a message.
const MESSAGE_BYTES: usize = 64;
/// How many of the connections talk, unless more do so at once.
const TALKING: usize = 10;

pub(crate) fn run(words: &[String]) {
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [port, connections, active, round_trips, batches] = numbers[..] else {
        eprintln!("usage: guests-bench client PORT CONNECTIONS ACTIVE ROUND_TRIPS BATCHES");
        std::process::exit(2);
    };
    let mut turn = 0;
    // Each is used once before anything counts, and before the next is opened: more than the
    // server's backlog at a time would be refused, and tried again a second later.
    let mut streams: Vec<TcpStream> = (0..connections).map(|_| connect(port as u16, &mut turn)).collect();
    say("ready");
    for _ in 0..batches {
        let start = monotonic_ns();
        for _ in 0..round_trips {
            round_trip(&mut streams, active as usize, &mut turn);
        }
        say(&format!("batch {}", monotonic_ns() - start));
    }
}

fn connect(port: u16, turn: &mut usize) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_nodelay(true).expect("a TCP stream has no delay");
    round_trip(std::slice::from_mut(&mut stream), 1, turn);
    stream
}

fn round_trip(streams: &mut [TcpStream], active: usize, turn: &mut usize) {
    let mut message = [7; MESSAGE_BYTES];
    let first = *turn;
    let talking = TALKING.max(active).min(streams.len());
    let distance = streams.len() / talking;
    let index = |number: usize| (first + number) % talking * distance;
    for number in 0..active {
        streams[index(number)].write_all(&message).expect("the server reads");
    }
    for number in 0..active {
        streams[index(number)].read_exact(&mut message).expect("the server answers");
    }
    *turn = first.wrapping_add(active);
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).expect("the server listens to its client");
    std::io::stdin().read_line(&mut String::new()).expect("the server answers its client");
}
