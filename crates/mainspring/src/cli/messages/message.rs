//! `mainspring send`, `query` and `emit`: one message from the command line.

use crate::cli::support::target::{Failure, Target};
use crate::cli::support::text;
use crate::cli::support::{input, output};
use mainspring_message::{Draft, Envelope, Json, Kind, Text};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

const SEND_EXAMPLES: &str = "\
Examples:
  mainspring send Memory.Set '{\"key\": \"colour\", \"value\": \"blue\"}'
  mainspring send Import.Run --file orders.json --timeout 5m
  jq -n '{key: \"a\", value: now}' | mainspring send Memory.Set -
  mainspring send Order.Place '{\"item\": 7}' --id order-7      # sent twice, it is done once

Exit code: 0 there is a reply, 1 an error (on standard error) or no answer, 2 the command line makes no sense, 3 no daemon.";

const QUERY_EXAMPLES: &str = "\
Examples:
  mainspring query Memory.Get '{\"key\": \"colour\"}'
  mainspring query Memory.List | jq -r '.keys[]'
  mainspring query Syscall.Describe '{\"type\": \"Memory.Set\"}'
  mainspring query Memory.List --tcp 127.0.0.1:7700 --token-file ~/.mainspring-token

Exit code: 0 there is a reply, 1 an error (on standard error) or no answer, 2 the command line makes no sense, 3 no daemon.";

const EMIT_EXAMPLES: &str = "\
Examples:
  mainspring emit Order.Shipped '{\"item\": 7}'
  mainspring emit Order.Shipped '{\"item\": 7}' --correlation order-7

Exit code: 0 the daemon took it, 1 it refused it (on standard error), 2 the command line makes no sense, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = SEND_EXAMPLES)]
pub(in crate::cli) struct Send {
    /// The type, such as Memory.Set.
    #[arg(value_name = "TYPE")]
    type_name: String,
    #[command(flatten)]
    request: Request,
}

#[derive(Debug, clap::Args)]
#[command(after_help = QUERY_EXAMPLES)]
pub(in crate::cli) struct Query {
    /// The type, such as Memory.Get.
    #[arg(value_name = "TYPE")]
    type_name: String,
    #[command(flatten)]
    request: Request,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EMIT_EXAMPLES)]
pub(in crate::cli) struct Emit {
    /// The type, such as Order.Shipped.
    #[arg(value_name = "TYPE")]
    type_name: String,
    #[command(flatten)]
    message: Message,
    /// The id, which names this event for whoever hears it [default: a fresh one].
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Request {
    #[command(flatten)]
    message: Message,
    /// The id; the same id again within two minutes gets the same answer and runs nothing [default: a fresh one].
    #[arg(long)]
    id: Option<String>,
    /// Print the whole message that comes back, as it came.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    target: Target,
}

/// One message.
#[derive(Debug, clap::Args)]
struct Message {
    /// The data as JSON; `-` reads it from standard input [default: {}].
    #[arg(allow_hyphen_values = true)]
    data: Option<String>,
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
        let mut client = arguments.target.connect()?;
        match client.emit(&draft)? {
            None => Ok(ExitCode::SUCCESS),
            Some(refusal) => Err(Failure::Refused(text::error_line(&refusal))),
        }
    };
    emit().unwrap_or_else(|failure| failure.report())
}

fn request(kind: Kind, type_name: &str, arguments: &Request) -> Result<ExitCode, Failure> {
    let mut draft = arguments.message.draft(kind, type_name, arguments.id.as_deref())?;
    draft.timeout_ms = arguments.target.timeout_ms();
    let outcome = arguments.target.connect()?.request(&draft)?;
    if outcome.kind() == Kind::Reply {
        return Ok(output::print(&shown(&outcome, arguments.raw)));
    }
    if arguments.raw {
        eprintln!("{}", outcome.line());
        return Ok(ExitCode::FAILURE);
    }
    Err(Failure::Refused(text::error_line(&outcome)))
}

/// A reply: its data on several lines for a terminal, as it was written for a program; or the whole line.
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
        match (&self.file, self.data.as_deref()) {
            (Some(path), _) => input::of_file(path),
            (None, Some("-")) => input::of_stdin(),
            (None, Some(data)) => Ok(data.to_owned()),
            (None, None) => Ok("{}".to_owned()),
        }
    }
}
