//! `mainspring send`, `query` and `emit`: one message from the command line.

use crate::cli::messages::items;
use crate::cli::messages::schedule::Schedule;
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::trace_tree::tree;
use crate::cli::support::{completion, input, near, other_nodes, output, text};
use crate::client::Client;
use mainspring_message::{Draft, Envelope, Failure as Refusal, Json, Kind, Text};
use mainspring_uplink::{IMPORT_PREFIX, check_name};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

const SEND_EXAMPLES: &str = "\
Examples:
  mainspring send Memory.Set key=colour value=blue
  mainspring send Memory.Set key=sizes value:='[36, 38]'
  mainspring send Memory.Set '{\"key\": \"colour\", \"value\": \"blue\"}'
  mainspring send Import.Run --file orders.json --timeout 5m
  jq -n '{key: \"a\", value: now}' | mainspring send Memory.Set -
  mainspring send Order.Place item:=7 --id order-7      # sent twice, it is done once
  mainspring send Order.Place item:=7 --trace           # and what that caused
  mainspring send Report.Make --at 18:00                # later; see `mainspring timers`
  mainspring send Order.Place item:=7 --to-node kitchen # one of several; see `mainspring nodes`

`key=text` makes a text, `key:=json` anything else, `key=@file` and `key:=@file` read it from a file; `a[b]=c` and `a[]=c` nest.

Exit code: 0 there is a reply, 1 an error (on standard error) or no answer, 2 the command line is wrong, 3 no daemon.";

const QUERY_EXAMPLES: &str = "\
Examples:
  mainspring query Memory.Get key=colour
  mainspring query Memory.Get '{\"key\": \"colour\"}'
  mainspring query Memory.List | jq -r '.keys[]'
  mainspring query Syscall.Describe type=Memory.Set
  mainspring query Memory.List --tcp 127.0.0.1:7700 --token-file ~/.mainspring-token

Exit code: 0 there is a reply, 1 an error (on standard error) or no answer, 2 the command line is wrong, 3 no daemon.";

const EMIT_EXAMPLES: &str = "\
Examples:
  mainspring emit Order.Shipped item:=7
  mainspring emit Order.Shipped '{\"item\": 7}' --correlation order-7
  mainspring emit Clock.Midnight --at 00:00 --every 24h --timer midnight

It says how many took the event: capabilities that subscribe to it, and clients that watch it.

Exit code: 0 the daemon took it, 1 it refused it (on standard error), 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = SEND_EXAMPLES)]
pub(in crate::cli) struct Send {
    /// The type, such as Memory.Set.
    #[arg(value_name = "TYPE", add = completion::commands())]
    type_name: String,
    #[command(flatten)]
    request: RequestArguments,
}

#[derive(Debug, clap::Args)]
#[command(after_help = QUERY_EXAMPLES)]
pub(in crate::cli) struct Query {
    /// The type, such as Memory.Get.
    #[arg(value_name = "TYPE", add = completion::queries())]
    type_name: String,
    #[command(flatten)]
    request: RequestArguments,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EMIT_EXAMPLES)]
pub(in crate::cli) struct Emit {
    /// The type, such as Order.Shipped.
    #[arg(value_name = "TYPE", add = completion::events())]
    type_name: String,
    #[command(flatten)]
    message: Message,
    /// The id, which names this event for whoever hears it [default: a fresh one].
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    schedule: Schedule,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct RequestArguments {
    #[command(flatten)]
    message: Message,
    /// The id; the same id again within two minutes gets the same answer and runs nothing [default:
    /// a fresh one].
    #[arg(long)]
    id: Option<String>,
    /// Have this node of the bus do it, and no other; for types that other nodes serve.
    #[arg(
        long, value_name = "NAME", value_parser = node_name, add = completion::nodes(),
        conflicts_with_all = ["delay", "at", "every"]
    )]
    to_node: Option<String>,
    /// Print the whole message that comes back, as it came.
    #[arg(long)]
    raw: bool,
    /// Print what it caused behind the answer, as a tree with times.
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    schedule: Schedule,
    #[command(flatten)]
    target: Target,
}

/// The name of a node.
fn node_name(text: &str) -> Result<String, String> {
    match check_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => Err("must be 1 to 32 letters, digits, `-` or `_`".into()),
    }
}

/// One message.
#[derive(Debug, clap::Args)]
struct Message {
    /// The data: items such as key=text and key:=json, or JSON, or `-` for JSON on standard input
    /// [default: {}].
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: Vec<String>,
    /// Read the data from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,
    /// The workflow that it belongs to: whatever it causes carries the same.
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
}

pub(in crate::cli) fn send(arguments: &Send) -> ExitCode {
    request(Kind::Command, &arguments.type_name, &arguments.request)
        .unwrap_or_else(|failure| failure.report())
}

pub(in crate::cli) fn query(arguments: &Query) -> ExitCode {
    request(Kind::Query, &arguments.type_name, &arguments.request).unwrap_or_else(|failure| failure.report())
}

pub(in crate::cli) fn emit(arguments: &Emit) -> ExitCode {
    let emit = || -> Result<ExitCode, Failure> {
        let draft = arguments.message.draft(Kind::Event, &arguments.type_name, arguments.id.as_deref())?;
        if arguments.schedule.is_asked()? {
            return Ok(output::print(&arguments.schedule.make(&draft, &arguments.target)?));
        }
        let mut client = arguments.target.connect()?;
        let sent = client.emit(&draft)?;
        if let Some(refusal) = sent.refusal {
            let reason = text::error_line(&refusal);
            let meant = items::meant_as_json(&arguments.message.data, &reason);
            return Err(Failure::Refused(reason + &meant));
        }
        Ok(output::print(&audience(&mut client, &sent.event)))
    };
    emit().unwrap_or_else(|failure| failure.report())
}

/// Who took an event, and what to do if that was nobody. The daemon took it whatever comes of this,
/// so nothing here fails.
fn audience(client: &mut Client, event: &Envelope) -> String {
    let Some(trace) = ask(client, "Sys.Trace", json!({ "id": event.id() })) else { return String::new() };
    let nodes = trace["nodes"].as_array().into_iter().flatten();
    let Some(node) = nodes.into_iter().find(|node| node["id"] == event.id()) else { return String::new() };
    let (capabilities, clients) =
        (node["to"]["capabilities"].as_u64().unwrap_or(0), node["to"]["clients"].as_u64().unwrap_or(0));
    if capabilities + clients > 0 {
        return format!("taken by {}\n", text::crowd(capabilities, clients));
    }
    let name = event.type_name();
    let described = ask(client, "Syscall.Describe", json!({ "type": name })).unwrap_or_default();
    let kinds = described["handlers"].as_array().into_iter().flatten().filter_map(|it| it["kind"].as_str());
    match kinds.into_iter().find(|kind| *kind != "event") {
        Some("query") => {
            format!("nobody took it: {name} is a query, ask it with `mainspring query {name}`\n")
        }
        Some(_) => format!("nobody took it: {name} is a command, give it with `mainspring send {name}`\n"),
        None => {
            let all = ask(client, "Syscall.Describe", json!({})).unwrap_or_default();
            let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
            let heard = list(&all["capabilities"]).into_iter().flat_map(|it| list(&it["subscribes"]));
            let heard: Vec<Value> = heard.collect();
            let meant = near::did_you_mean(name, heard.iter().filter_map(Value::as_str));
            format!("nobody took it: no capability subscribes to {name}, and no client watches it{meant}\n")
        }
    }
}

/// The data of the reply to a query; nothing if there is none.
fn ask(client: &mut Client, type_name: &'static str, data: Value) -> Option<Value> {
    let answer = client.request(&Draft::new(Kind::Query, type_name, Json::from(data))).ok()?;
    (answer.kind() == Kind::Reply).then(|| serde_json::from_str(answer.data()).unwrap_or_default())
}

fn request(kind: Kind, type_name: &str, arguments: &RequestArguments) -> Result<ExitCode, Failure> {
    let mut draft = arguments.message.draft(kind, type_name, arguments.id.as_deref())?;
    draft.timeout_ms = arguments.target.timeout_ms();
    if arguments.schedule.is_asked()? {
        return Ok(output::print(&arguments.schedule.make(&draft, &arguments.target)?));
    }
    let mut client = arguments.target.connect()?;
    if let Some(node) = &arguments.to_node {
        require_elsewhere(&mut client, &draft, node)?;
    }
    let outcome = client.request_at(&draft, arguments.to_node.as_deref())?;
    let caused = match arguments.trace {
        true => match ask(&mut client, "Sys.Trace", json!({ "id": outcome.causation() })) {
            Some(trace) => {
                let whole = other_nodes::add(trace, |name, question| ask(&mut client, name, question));
                format!("\n{}", tree(&whole))
            }
            None => "\nno trace of it is kept\n".into(),
        },
        false => String::new(),
    };
    if outcome.kind() == Kind::Reply {
        return Ok(output::print(&(shown(&outcome, arguments.raw) + &caused)));
    }
    output::print(caused.trim_start());
    if arguments.raw {
        eprintln!("{}", outcome.line());
        return Ok(ExitCode::FAILURE);
    }
    let reason = text::error_line(&outcome);
    let meant =
        meant(&mut client, &outcome, &draft) + &items::meant_as_json(&arguments.message.data, &reason);
    Err(Failure::Refused(reason + &meant))
}

/// Refuses to name another node for what this one serves itself: it would be done here, whatever
/// the message says.
fn require_elsewhere(client: &mut Client, draft: &Draft, node: &str) -> Result<(), Failure> {
    let name = draft.type_name.as_str();
    let described = ask(client, "Syscall.Describe", json!({ "type": name })).unwrap_or_default();
    let mut handlers = described["handlers"].as_array().into_iter().flatten();
    let is_own = handlers.any(|handler| {
        let capability = handler["capability"].as_str().unwrap_or_default();
        handler["kind"] == draft.kind.as_str() && !capability.starts_with(IMPORT_PREFIX)
    });
    if !is_own {
        return Ok(());
    }
    let stats = ask(client, "Sys.Stats", json!({})).unwrap_or_default();
    match &stats["floors"]["uplink"]["node"] {
        Value::String(own) if own == node => Ok(()),
        _ => Err(Failure::Refused(format!(
            "{name} is served here, so it goes to no other node; leave --to-node out"
        ))),
    }
}

/// Which type was meant, where there is none of that name.
fn meant(client: &mut Client, outcome: &Envelope, sent: &Draft) -> String {
    let type_name = sent.type_name.as_str();
    let is_unknown = Refusal::from_type_name(outcome.type_name()) == Some(Refusal::Routing);
    let data: Value = serde_json::from_str(outcome.data()).unwrap_or_default();
    if !is_unknown || data["originalType"] != type_name {
        return String::new();
    }
    let all = ask(client, "Syscall.Describe", json!({})).unwrap_or_default();
    let handles = all["capabilities"].as_array().into_iter().flatten();
    let handles = handles.flat_map(|it| it["handles"].as_array().into_iter().flatten());
    let builtins = all["builtins"].as_array().into_iter().flatten();
    let kind = handles.clone().find(|it| it["type"] == type_name).map(|it| &it["kind"]);
    let kind = kind.or_else(|| Some(&builtins.clone().find(|it| it["type"] == type_name)?["kinds"][0]));
    // The error says what it is instead.
    match kind.and_then(Value::as_str) {
        Some(kind) if kind == sent.kind.as_str() => return String::new(),
        Some("query") => return format!("; ask it with `mainspring query {type_name}`"),
        Some("command") => return format!("; give it with `mainspring send {type_name}`"),
        _ => {}
    }
    let names: Vec<&str> = handles
        .chain(builtins)
        .filter_map(|it| it["type"].as_str())
        .filter(|name| *name != type_name)
        .collect();
    near::did_you_mean(type_name, names)
}

/// A reply: its data on several lines for a terminal, as it was written for a program; or the whole
/// line.
fn shown(reply: &Envelope, raw: bool) -> String {
    let mut text = match raw {
        true => reply.line().to_owned(),
        false if std::io::stdout().is_terminal() => text::pretty(reply.data()),
        false => reply.data().to_owned(),
    };
    text.push('\n');
    text
}

impl Message {
    fn draft(&self, kind: Kind, type_name: &str, id: Option<&str>) -> Result<Draft, Failure> {
        let text = self.data_text()?;
        let data = Json::parse(&text).map_err(|error| Failure::Usage(format!("data: {error}")))?;
        let draft = Draft {
            id: id.map(Text::from),
            correlation: self.correlation.as_deref().map(Text::from),
            ..Draft::new(kind, type_name, data)
        };
        draft.check().map_err(|(field, reason)| Failure::Usage(format!("{field}: {reason}")))?;
        Ok(draft)
    }

    fn data_text(&self) -> Result<String, Failure> {
        match (&self.file, self.data.as_slice()) {
            (Some(path), _) => input::of_file(path),
            (None, []) => Ok("{}".to_owned()),
            (None, [input]) if input == "-" => input::of_stdin(),
            (None, [json]) if !items::is_item(json) => Ok(json.clone()),
            (None, items) => items::object(items),
        }
    }
}
