//! `mainspring tap`: messages as they pass, whoever sends them.

use crate::cli::support::follow::{Show, follow};
use crate::cli::support::target::Target;
use crate::cli::support::trace_tree::{audience, author};
use crate::cli::support::{completion, local_time, text};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring tap
  mainspring tap 'Order.*' --capability shop
  mainspring tap --failed
  mainspring tap --kind command --json | jq -c '[.type, .tookUs]'
  mainspring tap 'Timer.*'                 # what the daemon serves itself has to be named

A command or query is shown when it ends, with its outcome and how long it took; an event when it is told. Messages of those who tap are not shown. This is \
for operators: you, on the Unix socket, and tokens with `operator = true`.

Exit code: 0 after an interrupt, after --count messages, or when nobody reads the output any more; 1 if the daemon ended the connection or refused; 2 the command line is wrong; 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct TapArguments {
    /// Which types [default: all but those that the daemon serves itself].
    #[arg(value_name = "PATTERN", add = completion::everything())]
    patterns: Vec<String>,
    /// Only messages from or to this capability; may be given several times.
    #[arg(long, value_name = "ID", add = completion::capabilities())]
    capability: Vec<String>,
    /// Only messages of this kind; may be given several times.
    #[arg(long, value_name = "KIND", value_parser = ["command", "query", "event"])]
    kind: Vec<String>,
    /// Only messages of this workflow.
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// Only requests that ended in an error.
    #[arg(long)]
    failed: bool,
    /// Leave their data out.
    #[arg(long)]
    no_data: bool,
    /// Print each record as it came, one JSON object a line.
    #[arg(long)]
    json: bool,
    /// End after so many messages.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &TapArguments) -> ExitCode {
    let view = TapView {
        json: arguments.json,
        colour: text::may_colour(),
        is_terminal: io::stdout().is_terminal(),
        left: arguments.count,
    };
    follow(&arguments.target, &request(arguments), view)
        .map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

fn request(arguments: &TapArguments) -> Draft {
    let mut data = json!({ "data": !arguments.no_data });
    for (key, list) in
        [("types", &arguments.patterns), ("capabilities", &arguments.capability), ("kinds", &arguments.kind)]
    {
        if !list.is_empty() {
            data[key] = json!(list);
        }
    }
    if let Some(correlation) = &arguments.correlation {
        data["correlation"] = json!(correlation);
    }
    if arguments.failed {
        data["failed"] = json!(true);
    }
    Draft::new(Kind::Command, "Sys.Tap", Json::from(data))
}

/// How records are shown.
struct TapView {
    json: bool,
    colour: bool,
    is_terminal: bool,
    /// Messages that are still wanted.
    left: Option<u64>,
}

impl Show for TapView {
    fn event(&mut self, event: &Envelope, out: &mut Vec<u8>) -> bool {
        if event.type_name() != "Sys.Tapped" {
            return false;
        }
        let data: Value = serde_json::from_str(event.data()).unwrap_or_default();
        if let Some(skipped @ 1..) = data["skipped"].as_u64() {
            let messages = text::count(skipped, "message was", "messages were");
            let _ = writeln!(
                io::stderr().lock(),
                "mainspring: {messages} not shown: more than limits.tap_records_per_second"
            );
        }
        for record in data["records"].as_array().into_iter().flatten() {
            let line = if self.json { record.to_string() } else { self.line(record) };
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
            if let Some(left) = &mut self.left {
                *left -= 1;
                if *left == 0 {
                    return true;
                }
            }
        }
        false
    }
}

impl TapView {
    fn line(&self, record: &Value) -> String {
        let word = |value: &Value| text::visible(value.as_str().unwrap_or_default()).into_owned();
        let kind = word(&record["kind"]);
        let is_error = record["outcome"]["kind"] == "error";
        let [dim, colour, plain] = match (self.colour, kind.as_str()) {
            (false, _) => [""; 3],
            (true, _) if is_error => ["\x1b[2m", "\x1b[31m", "\x1b[0m"],
            (true, "command") => ["\x1b[2m", "\x1b[33m", "\x1b[0m"],
            (true, "query") => ["\x1b[2m", "\x1b[32m", "\x1b[0m"],
            (true, _) => ["\x1b[2m", "\x1b[36m", "\x1b[0m"],
        };
        let time = local_time::clock(record["at"].as_u64().unwrap_or(0));
        let way = format!("{} -> {}", author(&record["from"]), audience(&record["to"]));
        let took = record["tookUs"].as_u64().map(|us| text::nanoseconds(us.saturating_mul(1000)));
        let outcome = match &record["outcome"] {
            Value::Null => String::new(),
            outcome if is_error => format!("  error {} after {}", outcome["code"], took.unwrap_or_default()),
            _ => format!("  reply after {}", took.unwrap_or_default()),
        };
        let sent = self.data(record);
        let came = self.data(&record["outcome"]);
        let answer = if came.is_empty() { String::new() } else { format!(" {dim}=>{plain}{came}") };
        format!(
            "{dim}{time}{plain}  {colour}{kind:<7} {}{plain}  {dim}{way}{outcome}{plain}{sent}{answer}",
            word(&record["type"])
        )
    }

    /// The data of a message, or how long it is.
    fn data(&self, message: &Value) -> String {
        match (message.get("data"), message["dataBytes"].as_u64()) {
            (Some(data), _) => {
                let data = data.to_string();
                format!("  {}", if self.is_terminal { text::visible(&data).into_owned() } else { data })
            }
            (None, Some(bytes)) => format!("  ({bytes} bytes)"),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_with_way_outcome_and_data() {
        let view = TapView { json: false, colour: false, is_terminal: true, left: None };
        let record = json!({ "kind": "command", "type": "Order.Place", "at": 1000, "from": { "connection": 3, "peer": "token:ci" },
            "to": { "capability": "shop" }, "tookUs": 1500, "data": { "item": "a\u{9b}" },
            "outcome": { "kind": "error", "code": 409, "data": { "code": 409 } } });
        let time = local_time::clock(1000);
        assert_eq!(
            view.line(&record),
            format!(
                "{time}  command Order.Place  token:ci -> shop  error 409 after 1.5ms  {{\"item\":\"a\\u{{9b}}\"}} =>  {{\"code\":409}}"
            )
        );
        let event = json!({ "kind": "event", "type": "A.B", "at": 1000, "from": { "capability": "shop" },
            "to": { "capabilities": 1, "clients": 0 }, "dataBytes": 70_000 });
        assert_eq!(view.line(&event), format!("{time}  event   A.B  shop -> 1 capability  (70000 bytes)"));
    }
}
