//! `mainspring logs`: what capabilities write to standard error.

use crate::cli::support::follow::{Show, follow};
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{completion, local_time, output, text};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring logs
  mainspring logs shop --lines 20
  mainspring logs shop --follow
  mainspring logs --follow --json | jq -r .text

The daemon keeps the last 200 lines of each capability, also of incarnations that have ended. This is for operators.

Exit code: 0 it is shown, or an interrupt ended --follow; 1 there is no such capability, or the daemon refuses, does not answer or ended; 2 the command line is wrong; 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct LogsArguments {
    /// Of this capability [default: of all].
    #[arg(value_name = "CAPABILITY", add = completion::capabilities())]
    capability: Option<String>,
    /// Go on with what is written from now on.
    #[arg(short, long)]
    follow: bool,
    /// The last lines to begin with.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1000))]
    lines: u64,
    /// Print each line as a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &LogsArguments) -> ExitCode {
    let mut view = LogView {
        target: arguments.target.clone(),
        capability: arguments.capability.clone(),
        lines: arguments.lines,
        json: arguments.json,
        is_terminal: std::io::stdout().is_terminal(),
        last: 0,
    };
    let shown = match arguments.follow {
        true => {
            let wanted = Json::from(json!({ "types": ["Sys.Log"] }));
            let subscription = Draft::new(Kind::Command, "Sys.Subscribe", wanted);
            follow(&arguments.target, &subscription, view).map(|()| ExitCode::SUCCESS)
        }
        false => {
            let mut out = Vec::new();
            view.begin(&mut out).map(|()| output::print(&String::from_utf8_lossy(&out)))
        }
    };
    shown.unwrap_or_else(|failure| failure.report())
}

/// How lines are shown.
struct LogView {
    target: Target,
    capability: Option<String>,
    lines: u64,
    json: bool,
    is_terminal: bool,
    /// The number of the last line that was shown.
    last: u64,
}

impl Show for LogView {
    /// What was written before. The subscription stands by now, so that nothing is missed in
    /// between.
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut question = json!({ "lines": self.lines });
        if let Some(capability) = &self.capability {
            question["capability"] = json!(capability);
        }
        let data = self.target.ask("Sys.Logs", question)?;
        for line in data["lines"].as_array().into_iter().flatten() {
            self.show(line, out);
        }
        Ok(())
    }

    fn event(&mut self, event: &Envelope, out: &mut Vec<u8>) -> bool {
        let line: Value = serde_json::from_str(event.data()).unwrap_or_default();
        let is_wanted = self.capability.as_deref().is_none_or(|id| line["capabilityId"] == id);
        if event.type_name() == "Sys.Log" && is_wanted && line["number"].as_u64() > Some(self.last) {
            self.show(&line, out);
        }
        false
    }
}

impl LogView {
    fn show(&mut self, line: &Value, out: &mut Vec<u8>) {
        self.last = self.last.max(line["number"].as_u64().unwrap_or(0));
        let words = line["text"].as_str().unwrap_or_default();
        let shown = match self.json {
            true => line.to_string(),
            false => {
                let time = local_time::clock(line["at"].as_u64().unwrap_or(0));
                let name = text::visible(line["capabilityId"].as_str().unwrap_or_default()).into_owned();
                let words =
                    if self.is_terminal { text::visible(words).into_owned() } else { words.to_owned() };
                format!("{time}  {name} | {words}")
            }
        };
        out.extend_from_slice(shown.as_bytes());
        out.push(b'\n');
    }
}
