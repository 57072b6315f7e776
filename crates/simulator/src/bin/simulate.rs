//! `simulate`: runs many seeds, or one seed with its trace.

use std::process::ExitCode;

use mainspring_simulator::{Counts, NodesReport, PowerReport, simulate, simulate_nodes, simulate_power};

const USAGE: &str =
    "usage: simulate [--seeds N] [--from K] [--steps M] [--cut-steps C] [--node-steps D]   run N seeds from K on
       simulate --seed S [--steps M] [--cut-steps C] [--node-steps D]               run one seed and print what happens

Each seed is a world of clients and actors for M steps (2000), and one daemon after the other on
the same journal, with power cuts between them, for C steps (300), and several nodes on a network
that does its worst for D steps (150).";

/// How many of the last lines of a trace a failure prints.
const TRACE_LINES: usize = 60;
/// Seeds between two lines of progress.
const PROGRESS_EVERY: u64 = 100;

struct Options {
    seeds: u64,
    from: u64,
    steps: u64,
    cut_steps: u64,
    node_steps: u64,
    seed: Option<u64>,
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { seeds: 1_000, from: 0, steps: 2_000, cut_steps: 300, node_steps: 150, seed: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--help" || name == "-h" {
            return Err(String::new());
        }
        let mut number = || {
            let value = arguments.next().ok_or(format!("{name} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{name} needs a number, not {value:?}"))
        };
        match name.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--steps" => options.steps = number()?,
            "--cut-steps" => options.cut_steps = number()?,
            "--node-steps" => options.node_steps = number()?,
            "--seed" => options.seed = Some(number()?),
            other => return Err(format!("unknown option {other:?}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(problem) => {
            if problem.is_empty() {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            eprintln!("simulate: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match options.seed {
        Some(seed) => one(seed, &options),
        None => many(&options),
    }
}

/// Runs one seed and prints everything that happens.
fn one(seed: u64, options: &Options) -> ExitCode {
    let steps = options.steps;
    match simulate(seed, steps, true) {
        Ok(report) => {
            println!("seed {seed}: {steps} steps, every promise kept, digest {:016x}", report.digest);
            println!("{:?}", report.counts);
            let mut total = PowerReport::default();
            if !with_power_cuts(seed, options.cut_steps, &mut total) {
                return ExitCode::FAILURE;
            }
            println!("with power cuts: {total:?}");
            let mut nodes = NodesReport::default();
            if !with_nodes(seed, options.node_steps, &mut nodes) {
                return ExitCode::FAILURE;
            }
            println!("several nodes: {nodes:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            for line in &failure.trace {
                println!("{line}");
            }
            println!("seed {seed} failed at step {}: {}", failure.step, failure.violation.0);
            ExitCode::FAILURE
        }
    }
}

/// Runs many seeds, each twice, and stops at the first that breaks a promise.
fn many(options: &Options) -> ExitCode {
    let (mut total, mut power, mut nodes) =
        (Counts::default(), PowerReport::default(), NodesReport::default());
    for (done, seed) in (options.from..options.from.saturating_add(options.seeds)).enumerate() {
        let reports = (simulate(seed, options.steps, false), simulate(seed, options.steps, false));
        match reports {
            (Ok(first), Ok(second)) if first.digest == second.digest => add(&mut total, first.counts),
            (Ok(_), Ok(_)) => {
                println!(
                    "seed {seed} failed: two runs of it differ; compare `simulate --seed {seed}` with itself"
                );
                return ExitCode::FAILURE;
            }
            (Err(_), _) | (_, Err(_)) => return show_failure(seed, options.steps),
        }
        if !with_power_cuts(seed, options.cut_steps, &mut power)
            || !with_nodes(seed, options.node_steps, &mut nodes)
        {
            return ExitCode::FAILURE;
        }
        if (done as u64 + 1).is_multiple_of(PROGRESS_EVERY) {
            eprintln!("{} seeds, {} requests, {} turns", done + 1, total.requests, total.turns);
        }
    }
    println!("{} seeds of {} steps kept every promise: {total:?}", options.seeds, options.steps);
    println!(
        "{} seeds of {} steps with power cuts kept every promise: {} cuts ({} in the middle of a write asked for), \
         {} facts, {} snapshots, {} outcomes told again, {} durable events",
        options.seeds,
        options.cut_steps,
        power.cuts,
        power.torn,
        power.facts,
        power.snapshots,
        power.told,
        power.events
    );
    println!(
        "{} seeds of {} steps with several nodes kept every promise: {} requests ({} replies, {} not started, \
         {} unknown, {} whose origin died), {} faults, {} messages of which {} were lost",
        options.seeds,
        options.node_steps,
        nodes.sent,
        nodes.replied,
        nodes.not_started,
        nodes.unknown,
        nodes.orphaned,
        nodes.faults,
        nodes.messages,
        nodes.lost
    );
    ExitCode::SUCCESS
}

/// Runs a seed with several nodes; false, and words, if it breaks a promise.
fn with_nodes(seed: u64, steps: u64, total: &mut NodesReport) -> bool {
    match simulate_nodes(seed, steps) {
        Ok(report) => {
            total.sent += report.sent;
            total.replied += report.replied;
            total.not_started += report.not_started;
            total.unknown += report.unknown;
            total.orphaned += report.orphaned;
            total.messages += report.messages;
            total.lost += report.lost;
            total.faults += report.faults;
            true
        }
        Err(violation) => {
            println!("seed {seed} failed with several nodes: {}", violation.0);
            println!("reproduce with: simulate --seed {seed} --steps 1 --cut-steps 1 --node-steps {steps}");
            false
        }
    }
}

/// Runs a seed with power cuts, twice; false, and words, if it breaks a promise or its runs differ.
fn with_power_cuts(seed: u64, steps: u64, total: &mut PowerReport) -> bool {
    match (simulate_power(seed, steps), simulate_power(seed, steps)) {
        (Ok(first), Ok(second)) if first == second => {
            total.cuts += first.cuts;
            total.torn += first.torn;
            total.facts += first.facts;
            total.snapshots += first.snapshots;
            total.told += first.told;
            total.events += first.events;
            true
        }
        (Ok(_), Ok(_)) => {
            println!("seed {seed} failed with power cuts: two runs of it differ");
            false
        }
        (Err(violation), _) | (_, Err(violation)) => {
            println!("seed {seed} failed with power cuts: {}", violation.0);
            println!("reproduce with: simulate --seed {seed} --steps 1 --cut-steps {steps}");
            false
        }
    }
}

/// Runs a failing seed again with its trace, and prints the end of that.
fn show_failure(seed: u64, steps: u64) -> ExitCode {
    match simulate(seed, steps, true) {
        Ok(_) => println!("seed {seed} failed, but not when run again: its runs differ"),
        Err(failure) => {
            for line in &failure.trace[failure.trace.len().saturating_sub(TRACE_LINES)..] {
                println!("{line}");
            }
            println!("seed {seed} failed at step {}: {}", failure.step, failure.violation.0);
            println!("reproduce with: simulate --seed {seed} --steps {steps}");
        }
    }
    ExitCode::FAILURE
}

fn add(total: &mut Counts, one: Counts) {
    total.lines += one.lines;
    total.requests += one.requests;
    total.outcomes += one.outcomes;
    total.deliveries += one.deliveries;
    total.outputs += one.outputs;
    total.spawns += one.spawns;
    total.turns += one.turns;
    total.requeues += one.requeues;
    total.reloads += one.reloads;
    total.effects += one.effects;
}
