//! `mainspring describe`: what can be said to the daemon.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::target::Failure;
use crate::cli::support::{completion, near, text};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring describe                      # everything, in a few lines
  mainspring describe Memory.Set           # one type, with its schemas
  mainspring describe Memory.Changed       # an event that a capability emits
  mainspring describe Memory               # one capability
  mainspring describe --capability Memory  # the same
  mainspring describe --json | jq '.capabilities[].handles'

Exit code: 0 it is shown, 1 there is no such type or capability, or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct DescribeArguments {
    /// A type, such as Memory.Set, or a capability, such as Memory.
    #[arg(value_name = "NAME", add = completion::everything())]
    name: Option<String>,
    /// One capability, also where a type has the same name.
    #[arg(long, value_name = "ID", conflicts_with = "name", add = completion::capabilities())]
    capability: Option<String>,
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &DescribeArguments) -> ExitCode {
    let look = &arguments.look;
    told(match (&arguments.name, &arguments.capability) {
        (Some(name), _) => by_name(look, name),
        (None, Some(id)) => {
            look.ask("Syscall.Describe", json!({ "capability": id }), |data| Ok(capability(data)))
        }
        (None, None) => look.ask("Syscall.Describe", json!({}), |data| Ok(everything(data))),
    })
}

/// Describes the type or the capability of a name; names what may have been meant if there is
/// neither.
fn by_name(look: &ReadCommand, name: &str) -> Result<ExitCode, Failure> {
    // Only a type has a dot and a capital letter first, but a capability may have them as well.
    for key in ["type", "capability"] {
        let view = if key == "type" { one_type } else { capability };
        match look.target.ask("Syscall.Describe", json!({ key: name })) {
            Ok(data) => return look.print(&data, |data| Ok(view(data))),
            // Nothing of that name, or no name that a type could have.
            Err(Failure::Refused(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    let all = look.target.ask("Syscall.Describe", json!({}))?;
    let capabilities = || list(&all["capabilities"]);
    // Events are what capabilities emit: each says which.
    let mut emitted = Vec::new();
    for id in capabilities().filter_map(|it| it["id"].as_str()) {
        let one = look.target.ask("Syscall.Describe", json!({ "capability": id }))?;
        if let Some(found) = list(&one["emits"]).find(|own| own["type"] == name) {
            return look.print(found, |found| Ok(event(found, id)));
        }
        emitted.extend(list(&one["emits"]).map(|own| own["type"].clone()));
    }
    let handled = capabilities().flat_map(|it| list(&it["handles"])).map(|handle| &handle["type"]);
    let told = capabilities().flat_map(|it| list(&it["subscribes"]));
    let known = handled.chain(told).chain(&emitted).chain(capabilities().map(|it| &it["id"]));
    let known = known.chain(list(&all["builtins"]).map(|it| &it["type"])).filter_map(Value::as_str);
    let meant = near::did_you_mean(name, known);
    Err(Failure::Refused(format!("there is no type and no capability {name:?} (404){meant}")))
}

fn words(value: &Value) -> String {
    text::visible(value.as_str().unwrap_or_default()).into_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn everything(data: &Value) -> String {
    let mut page = String::new();
    for it in list(&data["capabilities"]) {
        page += &capability_head(it);
        page.push('\n');
    }
    page.push_str("The daemon itself:\n");
    for builtin in list(&data["builtins"]) {
        let kinds: Vec<String> = list(&builtin["kinds"]).map(words).collect();
        let _ = writeln!(page, "  {:<15} {}", kinds.join(", "), words(&builtin["type"]));
    }
    page
}

/// Name, description and messages.
fn capability_head(it: &Value) -> String {
    let mut page = format!("{}: {}\n", words(&it["id"]), words(&it["description"]));
    for handle in list(&it["handles"]) {
        let _ = writeln!(page, "  {:<15} {}", words(&handle["kind"]), words(&handle["type"]));
    }
    for event in list(&it["subscribes"]) {
        let _ = writeln!(page, "  {:<15} {}", "event", words(event));
    }
    page
}

/// One capability: what it takes and what it emits, each with its description.
fn capability(it: &Value) -> String {
    let mut page = format!("{}: {}\n", words(&it["id"]), words(&it["description"]));
    let row = |kind: &str, name: &Value, description: &Value| {
        vec![kind.to_owned(), words(name), first_line(description)]
    };
    let takes = list(&it["types"])
        .map(|own| row(own["kind"].as_str().unwrap_or_default(), &own["name"], &own["description"]));
    let hears = list(&it["subscribes"]).map(|event| row("event", event, &Value::Null));
    let emits = list(&it["emits"]).map(|own| row("event", &own["type"], &own["description"]));
    let takes: Vec<Vec<String>> = takes.chain(hears).collect();
    for (title, rows) in [("takes", takes), ("emits", emits.collect())] {
        if !rows.is_empty() {
            let _ = writeln!(page, "\n{title}:");
            for line in text::table(&rows).lines() {
                let _ = writeln!(page, "  {line}");
            }
        }
    }
    page + "\n`mainspring describe TYPE` shows the data of one, --json the schemas of all.\n"
}

/// The first line of a text.
fn first_line(text: &Value) -> String {
    let line = text.as_str().unwrap_or_default().lines().next().unwrap_or_default();
    text::visible(line).into_owned()
}

/// An event that a capability emits.
fn event(it: &Value, id: &str) -> String {
    let mut page = format!("event {} ({})\n", words(&it["type"]), text::visible(id));
    if let Some(description) = it["description"].as_str() {
        let _ = writeln!(page, "{}", text::visible(description));
    }
    if !it["data"].is_null() {
        let _ = write!(page, "\ndata:\n{}\n", text::pretty(&it["data"].to_string()));
    }
    page
}

fn one_type(data: &Value) -> String {
    let mut page = String::new();
    for handler in list(&data["handlers"]) {
        let whose =
            handler["capability"].as_str().map_or("the daemon".into(), |id| text::visible(id).into_owned());
        let _ = writeln!(page, "{} {} ({whose})", words(&handler["kind"]), words(&handler["name"]));
        let _ = writeln!(page, "{}", words(&handler["description"]));
        for (title, schema) in [("data", &handler["input"]), ("data of the reply", &handler["output"])] {
            if !schema.is_null() {
                let _ = write!(page, "\n{title}:\n{}\n", text::pretty(&schema.to_string()));
            }
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}
