//! `mainspring dead-letters`: messages that could not be delivered.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{completion, local_time, output, text};
use crate::client::{ClientError, Deadline};
use crate::text::units;
use mainspring_message::{Draft, Json, Kind};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// Letters in one answer.
const PAGE_LETTERS: u64 = 500;
/// How long the outcomes of what was sent again are waited for unless it is said.
const OUTCOMES_PATIENCE: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  mainspring dead-letters
  mainspring dead-letters show 12
  mainspring dead-letters list --type 'Order.*' --younger 1h
  mainspring dead-letters requeue 12
  mainspring dead-letters requeue 12 --data '{\"item\": 8}'       # with other data
  mainspring dead-letters requeue --all --type 'Order.*'
  mainspring dead-letters drop 12
  mainspring dead-letters drop --all

What is sent again is told with what came of it. A filter names a type or pattern, a capability, words of the reason, or an age; several must all fit.

Exit code: 0 it is shown or done, 1 there is no such letter, or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct DeadLettersArguments {
    #[command(subcommand)]
    action: Option<LettersAction>,
    #[command(flatten)]
    look: ReadCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LettersAction {
    /// List dead letters, oldest first (the default).
    List {
        #[command(flatten)]
        filter: Filter,
    },
    /// Show one, with the whole message.
    Show {
        /// Its number.
        number: u64,
    },
    /// Send one or many again, under fresh ids, and tell what came of each.
    Requeue {
        /// Its number.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        number: Option<u64>,
        /// All of them, or all that fit the filter.
        #[arg(long)]
        all: bool,
        /// Other data, as JSON, in the place of its own.
        #[arg(long, value_name = "JSON", requires = "number")]
        data: Option<String>,
        #[command(flatten)]
        filter: Filter,
    },
    /// Forget one or many.
    Drop {
        /// Its number.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        number: Option<u64>,
        /// All of them, or all that fit the filter.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        filter: Filter,
    },
}

/// Which letters are meant.
#[derive(Debug, Default, clap::Args)]
struct Filter {
    /// Of this type, or of those that fit a pattern such as Order.*
    #[arg(long = "type", value_name = "PATTERN")]
    type_name: Option<String>,
    /// For this capability.
    #[arg(long, value_name = "ID", add = completion::capabilities())]
    capability: Option<String>,
    /// With these words in the reason.
    #[arg(long, value_name = "WORDS")]
    reason: Option<String>,
    /// Older than this.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    older: Option<Duration>,
    /// Younger than this.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    younger: Option<Duration>,
}

impl Filter {
    /// Adds the filter to a question.
    fn add_to(&self, question: &mut Value) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let members = [
            ("type", self.type_name.as_deref().map(Value::from)),
            ("capability", self.capability.as_deref().map(Value::from)),
            ("reason", self.reason.as_deref().map(Value::from)),
            ("olderThanMs", self.older.map(ms).map(Value::from)),
            ("youngerThanMs", self.younger.map(ms).map(Value::from)),
        ];
        for (name, value) in members.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            question[name] = value;
        }
    }
}

pub(in crate::cli) fn run(arguments: &DeadLettersArguments) -> ExitCode {
    let list = LettersAction::List { filter: Filter::default() };
    told(act(&arguments.look, arguments.action.as_ref().unwrap_or(&list)))
}

fn act(look: &ReadCommand, action: &LettersAction) -> Result<ExitCode, Failure> {
    match action {
        LettersAction::List { filter } => {
            look.print(&all_letters(&look.target, filter)?, |data| Ok(listing(data)))
        }
        LettersAction::Show { number } => show(look, *number),
        LettersAction::Requeue { number, data, filter, .. } => {
            let mut question = json!({ "action": "requeue" });
            match number {
                Some(number) => question["number"] = json!(number),
                None => {
                    question["all"] = json!(true);
                    question["limit"] = json!(PAGE_LETTERS);
                    filter.add_to(&mut question);
                }
            }
            if let Some(data) = data {
                let data: Value = serde_json::from_str(data)
                    .map_err(|error| Failure::Usage(format!("--data is not JSON: {error}")))?;
                question["data"] = data;
            }
            requeue(look, question)
        }
        LettersAction::Drop { number, filter, .. } => {
            let mut question = json!({ "action": "drop" });
            match number {
                Some(number) => question["number"] = json!(number),
                None => filter.add_to(&mut question),
            }
            let data = command(&look.target, question)?;
            look.print(&data, |data| Ok(format!("{} dropped\n", data["dropped"])))
        }
    }
}

/// Sends letters again, and waits for what comes of each.
fn requeue(look: &ReadCommand, question: Value) -> Result<ExitCode, Failure> {
    let mut client = look.target.connect()?;
    let answer = client.request(&Draft::new(Kind::Command, "Sys.DeadLetters", Json::from(question)))?;
    if answer.kind() == Kind::Error {
        return Err(Failure::Refused(text::error_line(&answer)));
    }
    let data: Value = serde_json::from_str(answer.data()).unwrap_or_default();
    let mut sent: Vec<Value> = match data["requeued"].as_array() {
        Some(many) => many.clone(),
        None => vec![json!({ "number": data["requeued"], "id": data["id"] })],
    };
    let deadline = Deadline::after(look.target.timeout().unwrap_or(OUTCOMES_PATIENCE));
    let is_waiting =
        |sent: &[Value]| sent.iter().any(|it| it.get("outcome").is_none() && it["kind"] != "event");
    while is_waiting(&sent) {
        let message = match client.receive(Some(deadline)) {
            Ok(Some(message)) => message,
            // What has not ended by then is under way still, or was an event, which has no outcome.
            Ok(None) | Err(ClientError::Silent { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        let cause = message.causation().unwrap_or_default();
        if let Some(letter) = sent.iter_mut().find(|letter| letter["id"] == cause) {
            letter["outcome"] = match message.kind() {
                Kind::Error => json!({ "kind": "error", "message": text::error_line(&message) }),
                _ => json!({ "kind": message.kind().as_str() }),
            };
        }
    }
    let is_well = sent.iter().all(|letter| letter["outcome"]["kind"] != "error");
    let told = json!({ "requeued": sent, "refused": data["refused"], "left": data["left"] });
    let printed = look.print(&told, |told| Ok(fates(told)))?;
    let is_refused = data["refused"].as_array().is_some_and(|refused| !refused.is_empty());
    Ok(if is_well && !is_refused { printed } else { ExitCode::FAILURE })
}

/// What came of each letter that was sent again.
fn fates(told: &Value) -> String {
    let mut page = String::new();
    for letter in told["requeued"].as_array().into_iter().flatten() {
        let id = text::visible(letter["id"].as_str().unwrap_or_default()).into_owned();
        let fate = match letter["outcome"]["kind"].as_str() {
            Some("error") => {
                format!("failed again: {}", letter["outcome"]["message"].as_str().unwrap_or_default())
            }
            Some(_) => "done".to_owned(),
            None => "no outcome yet (an event has none)".to_owned(),
        };
        page += &format!("{} sent again as {id}: {fate}\n", letter["number"]);
    }
    for letter in told["refused"].as_array().into_iter().flatten() {
        let words = text::visible(letter["message"].as_str().unwrap_or_default()).into_owned();
        page += &format!("{} stays: {words} ({})\n", letter["number"], letter["code"]);
    }
    if let Some(left @ 1..) = told["left"].as_u64() {
        page += &format!("{} more to send again\n", left);
    }
    if page.is_empty() { "no dead letter fits\n".into() } else { page }
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
fn all_letters(target: &Target, filter: &Filter) -> Result<Value, Failure> {
    let (mut letters, mut after) = (Vec::new(), 0);
    loop {
        let mut question = json!({ "action": "list", "after": after, "limit": PAGE_LETTERS });
        filter.add_to(&mut question);
        let mut data = target.ask("Sys.DeadLetters", question)?;
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
            local_time::moment(letter["timestamp"].as_u64().unwrap_or_default()),
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
        let shown = listing(&data);
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect())
            .collect();
        assert_eq!(rows[0], ["NUMBER", "TIME", "KIND", "TYPE", "TRIES", "REASON"]);
        let time = local_time::moment(1000);
        assert_eq!(rows[1], ["7", &time, "event", "A.B", "1", "the mailbox\\u{a}is full"]);
        assert_eq!(rows[2], ["3 older ones made room"]);
        assert_eq!(listing(&json!({ "letters": [], "dropped": 0 })), "no dead letters\n");
    }
}
