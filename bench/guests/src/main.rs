//! Guests on the reactor: what an idle one costs, a wake-up beside the same work written natively,
//! a POLL among many watches beside `wasi:io/poll`, and a start.
//!
//! `guests-bench [--quick] [--json FILE] [--filter TEXT] [--subject NAME] [--rounds N]` is the
//! harness. It starts itself as `guests-bench subject NAME CASE NUMBERS...` for each measurement,
//! and that one starts itself as `guests-bench client ...` for the other end of its connections.
//! See `bench/README.md` for how to read the result.

mod cases;
mod client;
mod harness;
mod modules;
mod server;
mod subjects;
mod targets;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("subject", rest)) => subjects::run(rest),
        Some(("client", rest)) => client::run(rest),
        _ => harness::run(&bench_support::Options::from_env("guests-bench")),
    }
}
