//! One database client, `guests/postgres-client`, in every place where it can run: natively on
//! tokio, in a guest on sys/loop, in a component that wakes itself on three kinds of host. Time,
//! CPU time of the thread, wake-ups.
//!
//! `postgres-bench [--quick] [--json FILE] [--filter TEXT] [--subject NAME] [--rounds N]` is the
//! harness; it needs the address of a server in `MAINSPRING_POSTGRES`, which `cargo xtask bench
//! postgres` provides. It starts itself as `postgres-bench subject NAME WORK NUMBER` for each
//! measurement. See `bench/README.md` for how to read the result.

mod cases;
mod harness;
mod meter;
mod subjects;
mod targets;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("subject", rest)) => subjects::run(rest),
        _ => harness::run(&bench_support::Options::from_env("postgres-bench")),
    }
}

/// The connection string.
fn server() -> String {
    std::env::var("MAINSPRING_POSTGRES").unwrap_or_else(|_| {
        eprintln!("there is no database in MAINSPRING_POSTGRES; run `cargo xtask bench postgres`");
        std::process::exit(1);
    })
}
