//! `mainspring trace`: what a message caused, as a tree with times.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::target::Failure;
use crate::cli::support::trace_tree::{audience, author, tree};
use crate::cli::support::{completion, local_time, other_nodes, output, text};
use serde_json::{Value, json};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring send Order.Place '{\"item\": \"tea\", \"quantity\": 1}' --correlation order-7
  mainspring trace order-7
  mainspring trace                         # the latest; on a terminal, choose one
  mainspring trace --failed --type 'Order.*'
  mainspring trace --id 5f0c9e...          # the tree around one message
  mainspring trace order-7 --json | jq '.nodes[] | select(.outcome.kind == \"error\")'

The daemon remembers what happened of late, within `limits.history_bytes_max`. AT is when a message was taken, TOOK how long until its outcome, WAITED \
how much of that it waited for its capability. What was scheduled is there once it was sent; until then `mainspring timers` lists it.

Exit code: 0 it is shown, 1 nothing of it is remembered, or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct TraceArguments {
    /// The workflow [default: the latest of them are listed].
    #[arg(conflicts_with = "id")]
    correlation: Option<String>,
    /// A message of it, if it has no correlation.
    #[arg(long)]
    id: Option<String>,
    /// Of the latest: so many.
    #[arg(long, value_name = "NUMBER", default_value = "20", value_parser = clap::value_parser!(u64).range(1..=1000))]
    latest: u64,
    /// Of the latest: those that began with this type, or a pattern such as Order.*
    #[arg(long = "type", value_name = "PATTERN", conflicts_with_all = ["correlation", "id"], add = completion::everything())]
    type_name: Option<String>,
    /// Of the latest: those that began with this capability.
    #[arg(long, value_name = "ID", conflicts_with_all = ["correlation", "id"], add = completion::capabilities())]
    capability: Option<String>,
    /// Of the latest: those that began with a request that failed.
    #[arg(long, conflicts_with_all = ["correlation", "id"])]
    failed: bool,
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &TraceArguments) -> ExitCode {
    let question = match (&arguments.correlation, &arguments.id) {
        (Some(correlation), _) => json!({ "correlation": correlation }),
        (None, Some(id)) => json!({ "id": id }),
        (None, None) => return told(latest(arguments)),
    };
    told(arguments.show(question))
}

impl TraceArguments {
    /// Asks for a trace, on other nodes as well, and prints it.
    fn show(&self, question: Value) -> Result<ExitCode, Failure> {
        let target = &self.look.target;
        let data = target.ask("Sys.Trace", question)?;
        let data = other_nodes::add(data, |name, question| target.ask(name, question).ok());
        self.look.print(&data, |data| match data["nodes"].as_array() {
            Some(nodes) if !nodes.is_empty() => Ok(tree(data)),
            _ => Err(Failure::Refused(nothing(self)?)),
        })
    }
}

/// Lists the latest, and shows the one that is chosen where somebody can choose.
fn latest(arguments: &TraceArguments) -> Result<ExitCode, Failure> {
    let mut question = json!({ "latest": arguments.latest });
    let members = [("type", &arguments.type_name), ("capability", &arguments.capability)];
    for (key, value) in members.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
        question[key] = json!(value);
    }
    if arguments.failed {
        question["failed"] = json!(true);
    }
    let look = &arguments.look;
    let data = look.target.ask("Sys.Trace", question)?;
    let nodes: Vec<&Value> = data["nodes"].as_array().into_iter().flatten().collect();
    let can_choose =
        !look.json && !nodes.is_empty() && io::stdin().is_terminal() && io::stdout().is_terminal();
    let printed = look.print(&data, |data| match nodes.is_empty() {
        true => Ok(format!("no message is remembered{}\n", for_later(look))),
        false => Ok(listing(data, &nodes)),
    })?;
    if !can_choose {
        return Ok(printed);
    }
    eprint!("which one? ");
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    let chosen = match typed.trim() {
        "" => return Ok(ExitCode::SUCCESS),
        number => number.parse::<usize>().ok().and_then(|number| nodes.get(number.checked_sub(1)?)),
    };
    let Some(node) = chosen else {
        return Err(Failure::Usage(format!("there is no number {:?} in the list", typed.trim())));
    };
    output::print("\n");
    arguments.show(json!({ "id": node["id"] }))
}

/// Where the messages are that nobody has sent yet, if there are any. Who may not ask for that is
/// told nothing.
fn for_later(look: &ReadCommand) -> String {
    let stats = look.target.ask("Sys.Stats", json!({})).unwrap_or_default();
    match stats["gauges"]["schedules"].as_u64().unwrap_or(0) {
        0 => String::new(),
        count => format!(
            "; {} for later: see `mainspring timers`",
            text::count(count, "message is", "messages are")
        ),
    }
}

fn listing(data: &Value, nodes: &[&Value]) -> String {
    let heading = ["", "TIME", "TOOK", "MESSAGE", "FROM", "TO", "OUTCOME", "MESSAGES", "CORRELATION"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    let started_ms = data["startedAt"].as_u64().unwrap_or(0);
    for (at, node) in nodes.iter().enumerate() {
        let word = |value: &Value| text::visible(value.as_str().unwrap_or_default()).into_owned();
        let outcome = match &node["outcome"] {
            Value::Null if node["kind"] == "event" => String::new(),
            Value::Null => "under way".into(),
            outcome if outcome["kind"] == "error" => format!("error {}", outcome["code"]),
            _ => "reply".into(),
        };
        rows.push(vec![
            (at + 1).to_string(),
            local_time::clock(started_ms + node["atUs"].as_u64().unwrap_or(0) / 1000),
            node["tookUs"].as_u64().map_or(String::new(), |us| text::nanoseconds(us.saturating_mul(1000))),
            format!("{} {}", word(&node["kind"]), word(&node["type"])),
            author(&node["from"]),
            audience(&node["to"]),
            outcome,
            node["messages"].as_u64().unwrap_or(1).to_string(),
            word(&node["correlation"]),
        ]);
    }
    text::table(&rows)
}

/// What was looked for in vain, and where.
fn nothing(arguments: &TraceArguments) -> Result<String, Failure> {
    let sought = match (&arguments.correlation, &arguments.id) {
        (Some(id), _) => format!("correlation {id:?}"),
        (None, id) => format!("id {:?}", id.as_deref().unwrap_or_default()),
    };
    let hint = if arguments.id.is_some() { "" } else { "; use --id to look up a message id" };
    let stats = arguments.look.target.ask("Sys.Stats", json!({}))?;
    let kept = text::count(stats["gauges"]["historyBytes"].as_u64().unwrap_or(0), "byte", "bytes");
    Ok(format!("no message with {sought} in the last {kept} of history (limits.history_bytes_max){hint}"))
}
