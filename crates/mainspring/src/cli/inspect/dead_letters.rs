//! `mainspring dead-letters`: messages that could not be delivered.

use crate::cli::support::output;
use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::text;
use mainspring_message::Kind;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Letters in one answer.
const PAGE_LETTERS: u64 = 500;

const EXAMPLES: &str = "\
Examples:
  mainspring dead-letters
  mainspring dead-letters show 12
  mainspring dead-letters requeue 12
  mainspring dead-letters drop 12
  mainspring dead-letters drop --all

Exit code: 0 it is shown or done, 1 there is no such letter, or the daemon refuses or does not answer, 2 the command line makes no sense, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    look: ReadCommand,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List them, oldest first; this is what is done without a word.
    List,
    /// Show one, with the whole message.
    Show {
        /// Its number.
        number: u64,
    },
    /// Send one again, under a fresh id.
    Requeue {
        /// Its number.
        number: u64,
    },
    /// Forget one, or all.
    Drop {
        /// Its number.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        number: Option<u64>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
}

pub(in crate::cli) fn run(arguments: &Arguments) -> ExitCode {
    told(act(&arguments.look, arguments.action.as_ref().unwrap_or(&Action::List)))
}

fn act(look: &ReadCommand, action: &Action) -> Result<ExitCode, Failure> {
    match *action {
        Action::List => look.print(&all_letters(&look.target)?, |data| Ok(listing(data))),
        Action::Show { number } => show(look, number),
        Action::Requeue { number } => {
            let data = command(&look.target, json!({ "action": "requeue", "number": number }))?;
            look.print(&data, |data| {
                Ok(format!("sent again as {}\n", text::visible(data["id"].as_str().unwrap_or_default())))
            })
        }
        Action::Drop { number, .. } => {
            let question = match number {
                Some(number) => json!({ "action": "drop", "number": number }),
                None => json!({ "action": "drop" }),
            };
            let data = command(&look.target, question)?;
            look.print(&data, |data| Ok(format!("{} dropped\n", data["dropped"])))
        }
    }
}

/// The letter is shown byte for byte, so it is not read into values and written again.
fn show(look: &ReadCommand, number: u64) -> Result<ExitCode, Failure> {
    let question = json!({ "action": "show", "number": number });
    let reply = look.target.request(Kind::Query, "Sys.DeadLetters", question)?;
    let plain = look.json || !std::io::stdout().is_terminal();
    let shown = if plain { reply.data().to_owned() } else { text::pretty(reply.data()) };
    Ok(output::print(&format!("{shown}\n")))
}

fn command(target: &Target, data: Value) -> Result<Value, Failure> {
    let reply = target.request(Kind::Command, "Sys.DeadLetters", data)?;
    Ok(serde_json::from_str(reply.data()).unwrap_or_default())
}

/// All letters, asked for page by page.
fn all_letters(target: &Target) -> Result<Value, Failure> {
    let (mut letters, mut after) = (Vec::new(), 0);
    loop {
        let mut data = target
            .ask("Sys.DeadLetters", json!({ "action": "list", "after": after, "limit": PAGE_LETTERS }))?;
        let page = data["letters"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let last = page.last().and_then(|letter| letter["number"].as_u64());
        let is_full = page.len() as u64 == PAGE_LETTERS;
        letters.extend(page);
        match last {
            Some(last) if is_full => after = last,
            _ => {
                data["letters"] = Value::Array(letters);
                return Ok(data);
            }
        }
    }
}

fn listing(data: &Value) -> String {
    let mut rows = vec![["NUMBER", "TIME", "KIND", "TYPE", "TRIES", "REASON"].map(String::from).to_vec()];
    for letter in data["letters"].as_array().into_iter().flatten() {
        let word = |key: &str| text::visible(letter[key].as_str().unwrap_or_default()).into_owned();
        rows.push(vec![
            letter["number"].to_string(),
            text::clock(letter["timestamp"].as_u64().unwrap_or_default()),
            word("kind"),
            word("type"),
            letter["attempts"].as_u64().unwrap_or_default().to_string(),
            word("reason"),
        ]);
    }
    let mut page = if rows.len() == 1 { "no dead letters\n".into() } else { text::table(&rows) };
    if let Some(dropped @ 1..) = data["dropped"].as_u64() {
        page += &format!("{} made room\n", text::count(dropped, "older one", "older ones"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_in_columns_and_what_is_gone_is_counted() {
        let data = json!({ "letters": [{ "number": 7, "timestamp": 1000, "kind": "event", "type": "A.B", "attempts": 1,
            "reason": "the mailbox\nis full", "id": "x" }], "total": 1, "dropped": 3 });
        assert_eq!(
            listing(&data),
            format!(
                "NUMBER  {:<19}  KIND   TYPE  TRIES  REASON
     7  {}  event  A.B       1  the mailbox\\u{{a}}is full
3 older ones made room
",
                "TIME",
                text::clock(1000)
            )
        );
        assert_eq!(listing(&json!({ "letters": [], "dropped": 0 })), "no dead letters\n");
    }
}
