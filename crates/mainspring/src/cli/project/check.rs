//! `mainspring check`: reads a configuration as `up` would, and says what is wrong with it.

use crate::cli::support::text;
use crate::config::{self, Checked, ConfigError, Overrides};
use crate::daemon::Preflight;
use crate::protocol;
use crate::settings::{Capability, GuestProgram, Listener, Program, Settings};
use mainspring_kernel::schema::discover;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// The file cannot be read at all.
const EXIT_UNREADABLE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  mainspring check
  mainspring check deploy/mainspring.toml
  mainspring check --reference | less
  mainspring check --reference=protocol

Nothing is run. Guests are compiled, as `up` would, and the code is kept for it.

What is most likely not meant, such as a word in a schema that JSON Schema does not know, a script that is not there, or a token in a file that others \
may read, is a warning on standard error: it does not change the exit code.

Exit code: 0 it can be used, 1 something is wrong (every problem is shown with its place), 2 the file cannot be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct CheckArguments {
    /// The file to check [default: mainspring.toml in this folder or the nearest above it;
    /// without one, the built-in defaults].
    file: Option<PathBuf>,
    /// Say nothing but what is wrong.
    #[arg(short, long)]
    quiet: bool,
    /// Print a page of the documentation that is made from the code, as Markdown, and check
    /// nothing.
    #[arg(
        long, value_name = "PAGE", num_args = 0..=1, require_equals = true, default_missing_value = "configuration",
        conflicts_with_all = ["file", "quiet"]
    )]
    reference: Option<CheckedPage>,
}

/// A page of the documentation.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CheckedPage {
    Configuration,
    Protocol,
}

pub(in crate::cli) fn run(arguments: &CheckArguments) -> ExitCode {
    match arguments.reference {
        Some(CheckedPage::Configuration) => return crate::cli::support::output::print(&config::reference()),
        Some(CheckedPage::Protocol) => return crate::cli::support::output::print(&protocol::reference()),
        None => {}
    }
    let file = match config::file_to_load(arguments.file.as_deref()) {
        Ok(file) => file,
        Err(error) => return refuse(&error),
    };
    let mut guests = Guests::default();
    let mut refusal = |id: &str, program: &GuestProgram| guests.refusal(id, program);
    match config::check(file.as_deref(), &Overrides::default(), &mut refusal) {
        Ok(Checked { settings, warnings }) => {
            for warning in &warnings {
                eprintln!("{}\n", warning.render(text::may_colour_errors()));
            }
            if arguments.quiet {
                return ExitCode::SUCCESS;
            }
            let name = file.map_or("the built-in defaults".into(), |path| path.display().to_string());
            crate::cli::support::output::print(&summary(&name, &settings, warnings.len()))
        }
        Err(error) => refuse(&error),
    }
}

/// Guests, made ready as a daemon would. What that takes is there once the first one is asked
/// about.
#[derive(Default)]
struct Guests(Option<Result<Preflight, String>>);

impl Guests {
    fn refusal(&mut self, id: &str, program: &GuestProgram) -> Option<String> {
        match self.0.get_or_insert_with(Preflight::new) {
            Ok(preflight) => preflight.refusal(id, program),
            Err(reason) => Some(reason.clone()),
        }
    }
}

/// Tells what is wrong.
fn refuse(error: &ConfigError) -> ExitCode {
    eprintln!("{}", error.render(text::may_colour_errors()));
    if error.unreadable { ExitCode::from(EXIT_UNREADABLE) } else { ExitCode::FAILURE }
}

/// What would be run, for people.
fn summary(name: &str, settings: &Settings, warnings: usize) -> String {
    let verdict = match warnings as u64 {
        0 => "all is well".to_owned(),
        count => format!("it can be used, with {}", text::count(count, "warning", "warnings")),
    };
    let mut text = format!("{name}: {verdict}\n\n");
    for (at, listener) in settings.listeners.iter().enumerate() {
        let heading = if at == 0 { "listens" } else { "" };
        let _ = writeln!(text, "  {heading:<13} {}", describe_listener(listener));
    }
    let width = settings.capabilities.iter().map(|it| it.manifest.id.chars().count()).max().unwrap_or(0);
    for (at, capability) in settings.capabilities.iter().enumerate() {
        let heading = if at == 0 { "capabilities" } else { "" };
        let id = &capability.manifest.id;
        let _ = writeln!(text, "  {heading:<13} {id:<width$}  {}", describe_program(capability));
        for line in describe_messages(capability) {
            let _ = writeln!(text, "  {:<13} {:<width$}  {line}", "", "");
        }
    }
    if settings.capabilities.is_empty() {
        text.push_str("  capabilities  none\n");
    }
    text
}

fn describe_listener(listener: &Listener) -> String {
    match listener {
        Listener::Unix { path } => format!("unix {}", path.display()),
        Listener::Tcp { address, tokens, tls } => {
            let names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
            let with = if tls.is_some() { " with tls" } else { "" };
            format!("tcp {address}{with} for {}", names.join(", "))
        }
        Listener::Http(http) => {
            let names: Vec<&str> = http.tokens.iter().map(|token| token.name.as_str()).collect();
            let scheme = if http.tls.is_some() { "https" } else { "http" };
            format!("{scheme} {} for {}", http.address, names.join(", "))
        }
        Listener::HttpUnix { path } => format!("http unix {}", path.display()),
        Listener::Stdio => "standard input and output".into(),
    }
}

fn describe_program(capability: &Capability) -> String {
    match &capability.program {
        Program::Native(name) => format!("native {name}"),
        Program::Uplink(id) => format!("{id} on other nodes"),
        Program::Process(process) => {
            let kind = if process.is_mcp_server { "mcp" } else { "process" };
            format!("{kind} {}", process.command.join(" "))
        }
        Program::Guest(guest) => format!("wasm {}", guest.module.display()),
    }
}

/// What it takes, one line for each kind.
fn describe_messages(capability: &Capability) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |kind: &str, name: String| match lines.iter_mut().find(|(known, _)| known == kind) {
        Some((_, names)) => names.push(name),
        None => lines.push((kind.to_owned(), vec![name])),
    };
    for pair in discover(&capability.manifest.inbound).unwrap_or_default() {
        add(pair.kind.as_str(), pair.type_name);
    }
    for name in &capability.manifest.subscribes {
        add("event", name.clone());
    }
    lines.into_iter().map(|(kind, names)| format!("{kind:<8} {}", names.join(", "))).collect()
}
