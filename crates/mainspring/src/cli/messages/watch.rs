//! `mainspring watch`: events as they happen.

use crate::cli::support::follow::{Show, follow};
use crate::cli::support::target::Target;
use crate::cli::support::{completion, local_time, text};
use crate::client::{fresh_id, now_ms};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring watch
  mainspring watch 'Memory.*' Order.Shipped
  mainspring watch --json 'Order.*' | jq -c .data
  mainspring watch --correlation order-7
  mainspring watch --count 1 Import.Done && echo done
  mainspring watch --cursor billing --json 'Order.*' >> orders.jsonl

The time is when an event came here. Patterns are types, everything below a name (`Order.*`), or `*`. Whoever reads too slowly loses the oldest events and is told how many, on \
standard error; with --all the daemon ends the connection instead (exit code 1). With --cursor the daemon keeps what was not written here yet, over restarts of both, \
as long as the journal keeps them; the first use of a name begins now. --timeout is for the beginning: the connection and the subscription.

Exit code: 0 after an interrupt, after --count events, or when nobody reads the output any more; 1 if the daemon ended the connection or refused; \
2 the command line is wrong; 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct WatchArguments {
    /// Which events [default: all].
    #[arg(value_name = "PATTERN", add = completion::events())]
    patterns: Vec<String>,
    /// Print each event as it came, one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Only events of this workflow.
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// End after so many events.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Every event or none: end rather than lose one.
    #[arg(long)]
    all: bool,
    /// Go on where the last use of this name ended: durable events, each at least once.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    cursor: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &WatchArguments) -> ExitCode {
    let show = WatchView::new(arguments);
    follow(&arguments.target, &subscription(arguments), show)
        .map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

fn subscription(arguments: &WatchArguments) -> Draft {
    let all = [String::from("*")];
    let types = if arguments.patterns.is_empty() { &all[..] } else { &arguments.patterns };
    if let Some(cursor) = &arguments.cursor {
        let data = json!({ "types": types, "cursor": cursor });
        return Draft::new(Kind::Command, "Sys.Subscribe", Json::from(data));
    }
    let slow = if arguments.all { "disconnect" } else { "drop_oldest" };
    Draft::new(Kind::Command, "Sys.Subscribe", Json::from(json!({ "types": types, "slow": slow })))
}

/// How events are shown.
struct WatchView {
    json: bool,
    colour: bool,
    is_terminal: bool,
    correlation: Option<String>,
    /// Events that are still wanted.
    left: Option<u64>,
    cursor: Option<String>,
    /// The number of the last event that came, if the daemon was not told of it.
    came: Option<u64>,
}

const DIM: &str = "\x1b[2m";
const CYAN: &str = "\x1b[36m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

impl WatchView {
    fn new(arguments: &WatchArguments) -> WatchView {
        WatchView {
            json: arguments.json,
            colour: text::may_colour(),
            is_terminal: io::stdout().is_terminal(),
            correlation: arguments.correlation.clone(),
            left: arguments.count,
            cursor: arguments.cursor.clone(),
            came: None,
        }
    }

    fn wants(&self, event: &Envelope) -> bool {
        self.correlation.as_deref().is_none_or(|wanted| event.correlation() == Some(wanted))
    }

    /// Shows an event that came at this moment: the sender's clock may be anything.
    fn show(&self, event: &Envelope, arrived_ms: u64, out: &mut Vec<u8>) {
        if self.json {
            out.extend_from_slice(event.line().as_bytes());
            out.push(b'\n');
            return;
        }
        let time = local_time::clock(arrived_ms);
        let [dim, name, plain] = match (self.colour, event.type_name().starts_with("Sys.")) {
            (false, _) => [""; 3],
            (true, true) => [DIM, YELLOW, PLAIN],
            (true, false) => [DIM, CYAN, PLAIN],
        };
        let data = if self.is_terminal { text::visible(event.data()) } else { event.data().into() };
        let correlation =
            event.correlation().map_or(String::new(), |id| format!("  {dim}[{}]{plain}", text::visible(id)));
        let line = format!("{dim}{time}{plain}  {name}{}{plain}  {data}{correlation}\n", event.type_name());
        out.extend_from_slice(line.as_bytes());
    }
}

impl Show for WatchView {
    fn event(&mut self, event: &Envelope, out: &mut Vec<u8>) -> bool {
        if self.cursor.is_some() {
            let metadata: serde_json::Value = serde_json::from_str(event.metadata()).unwrap_or_default();
            self.came = metadata["event"].as_u64().or(self.came);
        }
        if !self.wants(event) {
            return false;
        }
        self.show(event, now_ms(), out);
        let Some(left) = &mut self.left else { return false };
        *left -= 1;
        *left == 0
    }

    fn acknowledgement(&mut self) -> Option<String> {
        let (cursor, event) = (self.cursor.as_deref()?, self.came.take()?);
        let message = json!({
            "kind": "command",
            "type": "Sys.Acknowledge",
            "data": { "cursor": cursor, "event": event },
            "metadata": { "id": fresh_id(), "timestamp": now_ms() },
        });
        Some(format!("{message}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: &WatchView, line: &str) -> String {
        let mut out = Vec::new();
        view.show(&Envelope::parse(line.as_bytes()).unwrap(), 2000, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn events_are_coloured_on_a_terminal_only_and_cannot_command_it() {
        let line = "{\"kind\":\"event\",\"type\":\"Order.Shipped\",\"data\":\"a\u{9b}b\",\"metadata\":{\"id\":\"e\",\"timestamp\":1000,\"correlation\":\"w\"}}";
        let plain = WatchView {
            json: false,
            colour: false,
            is_terminal: false,
            correlation: None,
            left: None,
            cursor: None,
            came: None,
        };
        // When it came, by the clock here; not when it says that it was sent.
        let came = local_time::clock(2000);
        assert_eq!(shown(&plain, line), format!("{came}  Order.Shipped  \"a\u{9b}b\"  [w]\n"));
        let terminal = WatchView {
            json: false,
            colour: true,
            is_terminal: true,
            correlation: None,
            left: None,
            cursor: None,
            came: None,
        };
        assert_eq!(
            shown(&terminal, line),
            format!(
                "\x1b[2m{came}\x1b[0m  \x1b[36mOrder.Shipped\x1b[0m  \"a\\u{{9b}}b\"  \x1b[2m[w]\x1b[0m\n"
            )
        );
        let json = WatchView { json: true, ..plain };
        assert_eq!(shown(&json, line), format!("{line}\n"));
    }
}
