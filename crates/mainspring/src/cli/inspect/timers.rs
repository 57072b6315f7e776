//! `mainspring timers`: scheduled messages.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{completion, text};
use mainspring_message::Kind;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring timers
  mainspring timers --cancel nightly
  mainspring timers --cancel poll --peer capability:mail
  mainspring emit Clock.Midnight --at 00:00 --every 24h --timer nightly

Timers belong to whoever set them. An operator sees those of everybody, and cancels one of somebody else with --peer; anybody else sees its own.

Exit code: 0 they are shown or it is cancelled, 1 there is no such timer, or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct TimersArguments {
    /// Cancel one instead.
    #[arg(long, value_name = "ID", add = completion::timers())]
    cancel: Option<String>,
    /// Whose it is, as WHOSE shows it [default: yours].
    #[arg(long, value_name = "NAME", requires = "cancel")]
    peer: Option<String>,
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &TimersArguments) -> ExitCode {
    let look = &arguments.look;
    told(match &arguments.cancel {
        Some(id) => cancel(&look.target, id, arguments.peer.as_deref()),
        None => list(look),
    })
}

/// Everybody's, for an operator; else one's own.
fn list(look: &ReadCommand) -> Result<ExitCode, Failure> {
    let data = match look.target.ask("Timer.List", json!({ "all": true })) {
        Err(Failure::Refused(_)) => look.target.ask("Timer.List", json!({}))?,
        answer => answer?,
    };
    look.print(&data, |data| Ok(listing(data)))
}

fn cancel(target: &Target, id: &str, peer: Option<&str>) -> Result<ExitCode, Failure> {
    let mut question = json!({ "timerId": id });
    if let Some(peer) = peer {
        question["peer"] = json!(peer);
    }
    let reply = target.request(Kind::Command, "Timer.Cancel", question)?;
    let data: Value = serde_json::from_str(reply.data()).unwrap_or_default();
    match data["cancelled"] == true {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::Refused(format!("there is no timer {id:?}"))),
    }
}

fn listing(data: &Value) -> String {
    let mut rows = vec![
        ["TIMER", "WHOSE", "DUE IN", "KIND", "TYPE", "EVERY", "LEFT", "FIRED"].map(String::from).to_vec(),
    ];
    for timer in data["timers"].as_array().into_iter().flatten() {
        let word = |key: &str| text::visible(timer[key].as_str().unwrap_or_default()).into_owned();
        let left = match (timer["left"].as_u64(), timer["repeat"].as_u64()) {
            (Some(left), _) => left.to_string(),
            (None, Some(_)) => "for ever".into(),
            (None, None) => "1".into(),
        };
        rows.push(vec![
            word("timerId"),
            timer["peer"].as_str().map_or("-".into(), |_| word("peer")),
            text::span(timer["dueInMs"].as_u64().unwrap_or_default()),
            word("kind"),
            word("type"),
            timer["repeat"].as_u64().map_or("-".into(), text::span),
            left,
            timer["fired"].as_u64().unwrap_or_default().to_string(),
        ]);
    }
    if rows.len() == 1 { "no timers\n".into() } else { text::table(&rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_stand_in_columns() {
        let data = json!({ "timers": [
            { "timerId": "once", "kind": "event", "type": "A.B", "dueInMs": 90_000, "repeat": null, "left": null, "fired": 0 },
            { "timerId": "nightly", "peer": "ci", "kind": "command", "type": "Import.Run", "dueInMs": 5, "repeat": 86_400_000, "left": null, "fired": 12 },
        ]});
        assert_eq!(
            listing(&data),
            "TIMER    WHOSE  DUE IN  KIND     TYPE        EVERY  LEFT      FIRED
once     -      1m30s   event    A.B         -      1             0
nightly  ci     5ms     command  Import.Run  1d00h  for ever     12
"
        );
        assert_eq!(listing(&json!({})), "no timers\n");
    }
}
