//! `mainspring down`: ends the daemon, and waits until it has ended.

use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{output, text};
use crate::client::{ClientError, Deadline};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long an end is waited for without a word about it.
const QUIET: Duration = Duration::from_secs(1);
/// How long it is waited for unless it is said: longer than a daemon takes as it is shipped.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  mainspring down
  mainspring down --timeout 5s
  mainspring down --no-wait

What was accepted is answered first, for as long as `drain_ms` says (10s as shipped). --timeout is how long to wait for the end; the daemon \
goes on ending when it has passed.

Exit code: 0 it has ended (or is ending, with --no-wait), 1 it refuses, or has not ended in time, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct DownArguments {
    /// Do not wait for its end.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &DownArguments) -> ExitCode {
    down(arguments).unwrap_or_else(|failure| failure.report())
}

fn down(arguments: &DownArguments) -> Result<ExitCode, Failure> {
    arguments.target.require_own_daemon()?;
    let mut client = arguments.target.connect()?;
    let began = Instant::now();
    let answer = client.request(&Draft::new(Kind::Command, "Syscall.Shutdown", Json::from(json!({}))))?;
    if answer.kind() == Kind::Error {
        return Err(Failure::Refused(text::error_line(&answer)));
    }
    if arguments.no_wait {
        return Ok(output::print("the daemon is ending\n"));
    }
    let timeout = arguments.target.timeout().unwrap_or(TIMEOUT_DEFAULT);
    let busy = waits_for(&answer);
    let mut told = false;
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            let waited = text::span(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            return Err(Failure::Refused(format!("the daemon is ending, but has not ended within {waited}")));
        }
        // The connection ends with the daemon.
        match client.receive(Some(Deadline::after(if told { left } else { left.min(QUIET) }))) {
            Ok(None) => break,
            Ok(Some(_)) => {}
            Err(ClientError::Silent { .. }) if !told => {
                told = true;
                eprintln!("mainspring: the daemon {busy}, and ends its capabilities");
            }
            Err(ClientError::Silent { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let took = text::span(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    Ok(output::print(&format!("the daemon has ended, after {took}\n")))
}

/// What the daemon does first: `waits for stuck (1 request)`.
fn waits_for(answer: &Envelope) -> String {
    let data: Value = serde_json::from_str(answer.data()).unwrap_or_default();
    let names: Vec<&str> =
        data["waitsFor"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match names.is_empty() {
        true => "answers what it has accepted".into(),
        false => format!("waits for {}", text::visible(&names.join(", "))),
    }
}
