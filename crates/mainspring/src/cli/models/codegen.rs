//! `mainspring codegen`: types of a running daemon's catalogue, for programs in other languages.

mod python;
mod schema;
mod typescript;

use crate::cli::support::output;
use crate::cli::support::target::{Failure, Target};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring codegen --lang ts --out src/catalogue.ts
  mainspring codegen --lang python --out catalogue.py

It asks the daemon what may be sent and what is told, and writes one module with a type for each: with it an editor knows the data and the reply of \
every message. Run it again when capabilities change. A type that a schema cannot be made into is `unknown` (`Any`); the daemon checks what is sent in any case.

Exit code: 0 it is written, 1 it cannot be written, or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct CodegenArguments {
    /// The language.
    #[arg(long, value_name = "LANGUAGE")]
    lang: CodegenLanguage,
    /// The file to write, which is replaced [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CodegenLanguage {
    #[value(alias = "typescript")]
    Ts,
    #[value(alias = "py")]
    Python,
}

/// A command or query.
#[derive(Debug, Deserialize)]
struct Request {
    #[serde(alias = "type")]
    name: String,
    kind: String,
    description: Option<String>,
    #[serde(default)]
    deprecated: bool,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    output: Value,
}

/// An event that a capability tells.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    name: String,
    description: Option<String>,
    #[serde(default)]
    data: Value,
}

/// All that the daemon knows, in the order of types.
#[derive(Debug, Default)]
struct Catalogue {
    requests: Vec<Request>,
    events: Vec<Event>,
}

pub(in crate::cli) fn run(arguments: &CodegenArguments) -> ExitCode {
    match write(arguments) {
        Ok(told) => output::print(&told),
        Err(failure) => failure.report(),
    }
}

fn write(arguments: &CodegenArguments) -> Result<String, Failure> {
    let catalogue = ask(&arguments.target)?;
    let text = match arguments.lang {
        CodegenLanguage::Ts => typescript::module(&catalogue),
        CodegenLanguage::Python => python::module(&catalogue),
    };
    let Some(path) = &arguments.out else { return Ok(text) };
    std::fs::write(path, text)
        .map_err(|error| Failure::Refused(format!("cannot write {}: {error}", path.display())))?;
    let (requests, events) = (catalogue.requests.len(), catalogue.events.len());
    Ok(format!("wrote {}: {requests} commands and queries, {events} events\n", path.display()))
}

fn ask(target: &Target) -> Result<Catalogue, Failure> {
    #[derive(Deserialize)]
    struct Described {
        #[serde(default)]
        types: Vec<Request>,
        #[serde(default)]
        emits: Vec<Event>,
    }
    let all = target.ask("Syscall.Describe", json!({}))?;
    let mut made = Catalogue::default();
    for capability in all["capabilities"].as_array().into_iter().flatten() {
        let described = target.ask("Syscall.Describe", json!({ "capability": capability["id"] }))?;
        let described: Described = serde_json::from_value(described)
            .map_err(|error| Failure::Refused(format!("the daemon's catalogue cannot be read: {error}")))?;
        made.requests.extend(described.types);
        made.events.extend(described.emits);
    }
    made.requests.sort_by(|one, other| (&one.name, &one.kind).cmp(&(&other.name, &other.kind)));
    made.events.sort_by(|one, other| one.name.cmp(&other.name));
    made.events.dedup_by(|one, other| one.name == other.name);
    Ok(made)
}
