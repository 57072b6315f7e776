//! Commands by HTTP to the daemon, beside a bare echo of the same bytes by hyper on a
//! current-thread tokio, and nginx with a fixed body.
//!
//! `http-bench [--quick] [--json FILE] [--filter TEXT] [--subject NAME] [--rounds N]` is the
//! harness. It starts the servers, and itself as `http-bench load ...` for each measurement: the
//! load comes from a process of its own. See `bench/README.md` for how to read the result.

mod echo;
mod harness;
mod load;
#[allow(dead_code, reason = "shared with the suite of the bus, which uses more of it")]
#[path = "../../bus/src/process.rs"]
mod process;
mod subjects;

use bench_support::Options;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.first().map(String::as_str) {
        Some("load") => load::run(&words[1..]),
        Some("echo") => echo::run(&words[1..]),
        _ => harness::run(&Options::from_env("http-bench")),
    };
    if let Err(problem) = result {
        eprintln!("http-bench: {problem}");
        std::process::exit(1);
    }
}
