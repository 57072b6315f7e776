//! `mainspring trace`: what a message caused, as a tree with times.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::target::Failure;
use crate::cli::support::text;
use crate::cli::support::trace_tree::tree;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring send Order.Place '{\"item\": \"tea\", \"quantity\": 1}' --correlation order-7
  mainspring trace order-7
  mainspring trace --id 5f0c9e...          # the tree around one message
  mainspring trace order-7 --json | jq '.nodes[] | select(.outcome.kind == \"error\")'

The daemon remembers what happened of late, within `limits.history_bytes_max`. AT is when a message was taken, TOOK how long until its outcome, WAITED \
how much of that it waited for its capability.

Exit code: 0 it is shown, 1 nothing of it is remembered, or the daemon refuses or does not answer, 2 the command line makes no sense, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// The workflow.
    #[arg(required_unless_present = "id", conflicts_with = "id")]
    correlation: Option<String>,
    /// A message of it, if it has no correlation.
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &Arguments) -> ExitCode {
    let question = match (&arguments.correlation, &arguments.id) {
        (Some(correlation), _) => json!({ "correlation": correlation }),
        (None, id) => json!({ "id": id }),
    };
    told(arguments.look.ask("Sys.Trace", question, |data| match data["nodes"].as_array() {
        Some(nodes) if !nodes.is_empty() => Ok(tree(data)),
        _ => Err(Failure::Refused(nothing(arguments)?)),
    }))
}

/// What was looked for in vain, and where.
fn nothing(arguments: &Arguments) -> Result<String, Failure> {
    let sought = match (&arguments.correlation, &arguments.id) {
        (Some(id), _) => format!("correlation {id:?}"),
        (None, id) => format!("id {:?}", id.as_deref().unwrap_or_default()),
    };
    let hint = if arguments.id.is_some() { "" } else { "; use --id to look up a message id" };
    let stats = arguments.look.target.ask("Sys.Stats", json!({}))?;
    let kept = text::count(stats["gauges"]["historyBytes"].as_u64().unwrap_or(0), "byte", "bytes");
    Ok(format!("no message with {sought} in the last {kept} of history (limits.history_bytes_max){hint}"))
}
