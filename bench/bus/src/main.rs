//! Requests through the daemon over its socket, beside nats-server, Redis and a bare echo server on
//! the reactor.
//!
//! `bus-bench [--quick] [--json FILE] [--filter TEXT] [--subject NAME] [--rounds N] [--soak]
//! [--durable] [--observed] [--nodes]` is the harness. It starts the servers, and itself as
//! `bus-bench load ...` for each measurement: the load comes from a process of its own. See
//! `bench/README.md` for how to read the result.

mod cases;
mod daemon;
mod durable;
mod echo;
mod harness;
mod load;
mod nodes;
mod observed;
mod peers;
mod process;
mod program;
mod responder;
mod soak;
mod subjects;
mod targets;

use bench_support::Options;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.first().map(String::as_str) {
        Some("load") => load::run(&words[1..]),
        Some("echo") => echo::run(&words[1..]),
        Some("program") => program::run(),
        Some("waiting-program") => nodes::run_waiting_program(),
        Some("responder") => responder::run(&words[1..]),
        _ => {
            let soak = words.iter().any(|word| word == "--soak");
            let durable = words.iter().any(|word| word == "--durable");
            let observed = words.iter().any(|word| word == "--observed");
            let nodes = words.iter().any(|word| word == "--nodes");
            words.retain(|word| !["--soak", "--durable", "--observed", "--nodes"].contains(&word.as_str()));
            let suite = match (soak, durable, observed, nodes) {
                (true, ..) => soak::run,
                (_, true, ..) => durable::run,
                (_, _, true, _) => observed::run,
                (.., true) => nodes::run,
                _ => harness::run,
            };
            run_harness(words, suite)
        }
    };
    if let Err(problem) = result {
        eprintln!("bus-bench: {problem}");
        std::process::exit(1);
    }
}

fn run_harness(words: Vec<String>, suite: fn(&Options) -> Result<(), String>) -> Result<(), String> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("--soak              a minute of load on the daemon alone: is its memory flat?");
        println!("--durable           commands that survive a power cut, beside Redis, JetStream and SQLite");
        println!("--observed          what a tap costs, and what operators cost a bystander");
        println!("--nodes             requests to other nodes, beside bare requests by NATS");
        let _ = Options::from_env("bus-bench [--soak|--durable|--observed|--nodes]");
    }
    let options = Options::parse(words).unwrap_or_else(|error| {
        eprintln!("bus-bench: {error}");
        std::process::exit(2);
    });
    suite(&options)
}
