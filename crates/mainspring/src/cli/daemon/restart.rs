//! `mainspring restart` and `mainspring reload`: capabilities anew, one or what has changed.

use crate::cli::support::read_command::told;
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{completion, output, text};
use mainspring_message::Kind;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often it is asked whether a capability is up again.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long that is waited for unless it is said.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

const RESTART_EXAMPLES: &str = "\
Examples:
  mainspring restart shop
  mainspring restart shop --timeout 5s

It finishes what it has first, takes nothing new meanwhile, and then its next incarnation begins; what waits for it is kept. It waits until the capability is up again.

Exit code: 0 it is up again, 1 there is no such capability, it is not up in time, or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

const RELOAD_EXAMPLES: &str = "\
Examples:
  mainspring reload

Reads the configuration and the manifests again and takes over what has changed, as a SIGHUP does. If something is wrong with them, everything stays as it is.

Exit code: 0 it is read, 1 it is not right (all problems are shown), or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = RESTART_EXAMPLES)]
pub(in crate::cli) struct Restart {
    /// Which capability.
    #[arg(value_name = "CAPABILITY", add = completion::capabilities())]
    capability: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
#[command(after_help = RELOAD_EXAMPLES)]
pub(in crate::cli) struct Reload {
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn restart(arguments: &Restart) -> ExitCode {
    told(restart_and_wait(arguments))
}

fn restart_and_wait(arguments: &Restart) -> Result<ExitCode, Failure> {
    let id = &arguments.capability;
    arguments.target.require_own_daemon()?;
    let reply = arguments.target.request(Kind::Command, "Sys.RestartActor", json!({ "capability": id }))?;
    let data: Value = serde_json::from_str(reply.data()).unwrap_or_default();
    let before = data["incarnation"].as_u64().unwrap_or(0);
    let began = Instant::now();
    let timeout = arguments.target.timeout().unwrap_or(TIMEOUT_DEFAULT);
    loop {
        let actors = arguments.target.ask("Sys.Actors", json!({}))?;
        let mut list = actors["actors"].as_array().into_iter().flatten();
        let Some(actor) = list.find(|actor| actor["capabilityId"] == id.as_str()) else {
            return Err(Failure::Refused(format!("{id} was taken away meanwhile")));
        };
        if actor["state"] == "up" && actor["incarnation"].as_u64() > Some(before) {
            let took = text::span(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            return Ok(output::print(&format!("{} is up again, after {took}\n", text::visible(id))));
        }
        if began.elapsed() > timeout {
            let state = actor["state"].as_str().unwrap_or_default();
            return Err(Failure::Refused(format!(
                "{id} is not up yet, but {state}; see `mainspring logs {id}`"
            )));
        }
        std::thread::sleep(INTERVAL);
    }
}

pub(in crate::cli) fn reload(arguments: &Reload) -> ExitCode {
    let reloaded = arguments
        .target
        .require_own_daemon()
        .and_then(|()| arguments.target.request(Kind::Command, "Sys.Reload", json!({})));
    told(reloaded.map(|reply| {
        let data: Value = serde_json::from_str(reply.data()).unwrap_or_default();
        output::print(&changes(&data))
    }))
}

fn changes(data: &Value) -> String {
    let mut page = String::new();
    for (key, words) in [("added", "added"), ("changed", "changed"), ("removed", "removed")] {
        let names: Vec<String> = data[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(|name| text::visible(name).into_owned())
            .collect();
        if !names.is_empty() {
            page += &format!("{words}: {}\n", names.join(", "));
        }
    }
    if page.is_empty() {
        page += "no capability has changed\n";
    }
    for note in data["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        page += &format!("{}\n", text::visible(note));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reload_changes_is_told_in_lines() {
        let data = json!({ "added": ["a", "b"], "changed": [], "removed": ["c"], "notes": ["listen needs a restart"] });
        assert_eq!(changes(&data), "added: a, b\nremoved: c\nlisten needs a restart\n");
        assert_eq!(changes(&json!({})), "no capability has changed\n");
    }
}
