//! `mainspring actors`: who runs, and how it is.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::text;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring actors
  mainspring actors --json | jq '.actors[] | select(.state != \"up\")'
  mainspring send Sys.ResetActor '{\"capabilityId\": \"greeter\"}'      # try an unhealthy one again now

WORKING are requests in progress; OVERDUE are those whose deadline has passed and that it has not answered yet: it is stuck, or slower \
than its clients wait.

Exit code: 0 it is shown, 1 the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ActorsArguments {
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &ActorsArguments) -> ExitCode {
    told(arguments.look.ask("Sys.Actors", json!({}), |data| Ok(listing(data))))
}

fn listing(data: &Value) -> String {
    let heading =
        ["CAPABILITY", "STATE", "FOR", "MAILBOX", "WORKING", "OVERDUE", "HANDLED", "FAULTS", "INCARNATION"]
            .map(String::from);
    let mut rows = vec![heading.to_vec()];
    for actor in data["actors"].as_array().into_iter().flatten() {
        let number = |key: &str| actor[key].as_u64().unwrap_or_default().to_string();
        let blocked = if actor["blocked"] == true { " (blocked)" } else { "" };
        rows.push(vec![
            text::visible(actor["capabilityId"].as_str().unwrap_or_default()).into_owned(),
            format!("{}{blocked}", actor["state"].as_str().unwrap_or_default()),
            text::span(actor["sinceMs"].as_u64().unwrap_or_default()),
            number("mailbox"),
            number("inFlight"),
            number("overdue"),
            number("handled"),
            number("faults"),
            number("incarnation"),
        ]);
    }
    if rows.len() == 1 { "no capability runs\n".into() } else { text::table(&rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_stand_in_columns() {
        let data = json!({ "actors": [
            { "capabilityId": "memory", "state": "up", "sinceMs": 61_000, "mailbox": 0, "inFlight": 1, "overdue": 0, "handled": 12345,
              "faults": 0, "restartsInWindow": 0, "incarnation": 1, "blocked": false },
            { "capabilityId": "greeter", "state": "unhealthy", "sinceMs": 1500, "mailbox": 12, "inFlight": 0, "overdue": 2, "handled": 7,
              "faults": 4, "restartsInWindow": 3, "incarnation": 5, "blocked": true },
        ]});
        assert_eq!(
            listing(&data),
            "CAPABILITY  STATE                FOR    MAILBOX  WORKING  OVERDUE  HANDLED  FAULTS  INCARNATION
memory      up                   1m01s        0        1        0    12345       0            1
greeter     unhealthy (blocked)  1.5s        12        0        2        7       4            5
"
        );
        assert_eq!(listing(&json!({ "actors": [] })), "no capability runs\n");
    }
}
