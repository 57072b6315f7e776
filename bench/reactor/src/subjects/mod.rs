//! The Rust subjects, one file each, and the way from a command line to their work.

mod calloop;
mod mainspring;
mod mio;
mod polling;
mod tokio;

use crate::workload::{self, Kind, Oneshot, TimerQueue, Watching};

/// The subjects that live in this program; the others are the C programs.
pub(crate) const IN_RUST: [&str; 8] = [
    "mainspring",
    "mainspring-timed",
    "mainspring-boxed",
    "mainspring-level",
    "mio",
    "polling",
    "calloop",
    "tokio",
];

/// Does one subject's work: `NAME CASE NUMBERS...`. Which subject can do which case is the
/// harness's knowledge.
pub(crate) fn run(words: &[String]) {
    let [name, case, numbers @ ..] = words else {
        eprintln!("usage: reactor-bench subject NAME CASE NUMBERS...");
        std::process::exit(2);
    };
    let mut n = [0; 4];
    for (slot, word) in n.iter_mut().zip(numbers) {
        *slot = word.parse().unwrap_or_else(|_| panic!("{word} is not a number"));
    }
    workload::raise_descriptor_limit();
    match (name.as_str(), case.as_str()) {
        ("mainspring", "timers") => timers(mainspring::Plain::new(), n),
        ("mainspring-boxed", "timers") => timers(mainspring::Boxed::new(), n),
        ("mainspring", "lateness") => lateness(mainspring::Plain::new(), n),
        ("mainspring-level", "pipe") => watching(mainspring::Plain::new(), "pipe-level", n),
        ("mainspring", _) => watching(mainspring::Plain::new(), case, n),
        ("mainspring-timed", _) => watching(mainspring::Plain::timed(), case, n),
        ("mio", "lateness") => lateness(mio::Mio::new(), n),
        ("mio", _) => watching(mio::Mio::new(), case, n),
        ("polling", "lateness") => lateness(polling::Polling::new(), n),
        ("polling", _) => watching(polling::Polling::new(), case, n),
        ("calloop", "timers") => timers(calloop::Calloop::new(), n),
        ("calloop", "lateness") => lateness(calloop::Calloop::new(), n),
        ("calloop", _) => watching(calloop::Calloop::new(), case, n),
        ("tokio", "timers") => timers(tokio::Tokio::new(), n),
        ("tokio", "lateness") => lateness(tokio::Tokio::new(), n),
        ("tokio", _) => watching(tokio::Tokio::new(), case, n),
        _ => unknown("subject", name),
    }
}

fn unknown(what: &str, name: &str) -> ! {
    eprintln!("unknown {what} {name}");
    std::process::exit(2);
}

fn watching<S: Watching>(mut subject: S, case: &str, n: [u64; 4]) {
    match case {
        "dispatch" => workload::dispatch(&mut subject, Kind::Dispatch, n[0], n[1], n[2]),
        "dispatch-edge" => workload::dispatch(&mut subject, Kind::DispatchEdge, n[0], n[1], n[2]),
        "turns" => workload::turns(&mut subject, n[0], n[1]),
        "pipe" => workload::pipe(&mut subject, Kind::Pipe, n),
        "pipe-level" => workload::pipe(&mut subject, Kind::PipeLevel, n),
        "rewatch" => workload::register(&mut subject, n[0], S::rewatch, n[1]),
        "unwatch-watch" => workload::register(&mut subject, n[0], S::unwatch_watch, n[1]),
        _ => unknown("case", case),
    }
}

fn timers(mut queue: impl TimerQueue, n: [u64; 4]) {
    workload::timers(&mut queue, n[0], n[1], n[2]);
}

fn lateness(mut subject: impl Oneshot, n: [u64; 4]) {
    workload::lateness(&mut subject, n[0], n[1]);
}
