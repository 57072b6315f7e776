//! `mainspring bench`: how fast the daemon is on this machine.
//!
//! `subject` is the daemon that is measured, one of its own or one that runs; `load` keeps requests
//! under way; `report` and `progress` show it. It is a client like any other.

mod load;
mod progress;
mod report;
mod subject;

use crate::cli::support::output;
use crate::cli::support::target::{DaemonPlace, Failure, time_above_zero};
use load::{Case, LoadOutcome, Stage};
use progress::Progress;
use std::process::ExitCode;
use std::time::Duration;
use subject::Subject;

const EXAMPLES: &str = "\
Examples:
  mainspring bench                                   # all cases, about half a minute
  mainspring bench --connections 1 --depth 64
  mainspring bench --duration 10s --json > figures.json
  mainspring bench --socket /run/app/bus.sock        # a daemon that runs already
  mainspring bench --tcp 127.0.0.1:7700 --token-file token      # the same by TCP

It starts a daemon of its own with the shipped defaults (validation, repetitions, timeouts and limits are on), sends Memory.Set over its Unix socket, \
DEPTH requests at a time on each connection, and measures from sending a request to reading its reply. CPU is the daemon's, per request; the load comes \
from this one process, and both need a core each. Take the best of a few runs on a machine that is otherwise idle. A daemon that runs already gets 1000 \
keys in its memory.

Exit code: 0 every request was answered with a reply, 1 something was not, 2 the command line is wrong, 3 no daemon, \
128 + n after signal n (130 for Ctrl-C).";

/// The cases that are run unless one is asked for.
const CONNECTIONS: [usize; 2] = [1, 64];
const DEPTHS: [usize; 4] = [1, 16, 64, 256];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct BenchArguments {
    /// Connections [default: 1 and 64].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: Option<u16>,
    /// Requests under way on each connection [default: 1, 16, 64 and 256].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=load::DEPTH_MAX))]
    depth: Option<u16>,
    /// How long each case is measured.
    #[arg(long, value_name = "TIME", value_parser = time_above_zero, default_value = "3s")]
    duration: Duration,
    #[command(flatten)]
    place: DaemonPlace,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(arguments: &BenchArguments) -> ExitCode {
    bench(arguments).unwrap_or_else(|failure| failure.report())
}

fn bench(arguments: &BenchArguments) -> Result<ExitCode, Failure> {
    let subject = match arguments.place.is_given() {
        true => Subject::running(arguments.place.address()?),
        false => Subject::start()?,
    };
    // The daemon ends with this process, whatever ends that; its folder goes if a signal is waited
    // for.
    let mut stage = Stage::new()?;
    let cases = cases(arguments);
    if !arguments.json && output::print(&report::introduction(&subject)) != ExitCode::SUCCESS {
        return Ok(ExitCode::FAILURE);
    }
    let mut outcomes: Vec<LoadOutcome> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let progress = Progress::new(at, cases.len(), *case);
        outcomes.push(load::run(&mut stage, subject.address(), *case, &progress)?);
        progress.clear();
    }
    let all_replied = outcomes.iter().all(|outcome| outcome.errors == 0);
    let page = if arguments.json { report::json(&outcomes) } else { report::table(&outcomes) };
    let printed = output::print(&page);
    Ok(if all_replied { printed } else { ExitCode::FAILURE })
}

fn cases(arguments: &BenchArguments) -> Vec<Case> {
    let one =
        |number: Option<u16>, all: &[usize]| number.map_or(all.to_vec(), |number| vec![usize::from(number)]);
    let mut cases = Vec::new();
    for connections in one(arguments.connections, &CONNECTIONS) {
        for depth in one(arguments.depth, &DEPTHS) {
            cases.push(Case { connections, depth, duration: arguments.duration });
        }
    }
    cases
}
