//! The command line: one file for each command, in folders by what they are for (`daemon`,
//! `messages`, `inspect`, `project`, `models`, `journal`, `flight`).
//!
//! This file lists them and calls the one that was asked for. `support` is what several of them
//! share. `up` runs a daemon in this process, and `run` a guest. `check`, `new`, `manual`,
//! `completions`, `flight` and `journal` (but for its `replay`) need no daemon. All others are
//! clients of one; `test-capability` starts its own, `bench` as well unless it is told which, and
//! `mcp` starts a program that is the client.

mod daemon;
mod flight;
mod inspect;
mod journal;
mod messages;
mod models;
mod project;
mod support;

use clap::{Parser, Subcommand};
use daemon::{console, down, restart, status, up};
use inspect::{actors, dead_letters, describe, logs, nodes, timers, top, trace};
use messages::{message, pipe, tap, watch};
use models::{codegen, mcp};
#[cfg(feature = "guests")]
use project::run;
use project::{bench, check, completions, manual, new, test_capability};
use std::process::ExitCode;
use support::target;

const EXAMPLES: &str = "\
Examples:
  mainspring up &
  mainspring send Memory.Set key=colour value=blue
  mainspring query Memory.Get key=colour
  mainspring status
  mainspring watch 'Memory.*'

Each command has examples of its own: mainspring COMMAND --help";

/// One event loop, from file descriptor to message.
#[derive(Debug, Parser)]
#[command(name = "mainspring", version, about, max_term_width = 110, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a daemon: clients come in by a socket, capabilities answer them.
    #[command(alias = "start")]
    Up(up::UpArguments),
    /// Show what runs, since when, where, and how it is.
    #[command(alias = "ps")]
    Status(status::StatusArguments),
    /// End the daemon, and wait until it has ended.
    #[command(alias = "stop")]
    Down(down::DownArguments),
    /// Open the console in a browser.
    Console(console::ConsoleArguments),
    /// Read the configuration again, and take over what has changed.
    Reload(restart::Reload),
    /// End a capability when it has finished what it has, and start it anew.
    Restart(restart::Restart),
    /// Show what capabilities write to standard error.
    Logs(logs::LogsArguments),
    /// Show messages as they pass, whoever sends them.
    Tap(tap::TapArguments),
    /// Send a command and print the data of its reply.
    Send(message::Send),
    /// Send a query and print the data of its reply.
    Query(message::Query),
    /// Send an event.
    Emit(message::Emit),
    /// Send messages from standard input, and print what comes back.
    Pipe(pipe::PipeArguments),
    /// Show events as they happen.
    Watch(watch::WatchArguments),
    /// Show what can be said to the daemon, with schemas.
    Describe(describe::DescribeArguments),
    /// List the capabilities that run, and how they are.
    Actors(actors::ActorsArguments),
    /// List the nodes of the bus, what they share, and how they are.
    Nodes(nodes::NodesArguments),
    /// List or cancel scheduled messages.
    Timers(timers::TimersArguments),
    /// List, show, send again or drop messages that could not be delivered.
    DeadLetters(dead_letters::DeadLettersArguments),
    /// Look at a journal, save what is whole of a damaged one, send commands again.
    Journal(journal::JournalArguments),
    /// Show or replay what a daemon recorded of itself.
    Flight(flight::FlightArguments),
    /// Show what a message caused, as a tree with times.
    Trace(trace::TraceArguments),
    /// Show the daemon at a glance, over and over.
    Top(top::TopArguments),
    /// Check a configuration without starting anything.
    Check(check::CheckArguments),
    /// Measure how fast the daemon is on this machine.
    Bench(bench::BenchArguments),
    /// Write a capability that works, to begin with.
    New(new::NewArguments),
    /// Run a capability with inputs made from its schema, and check that it keeps the rules.
    TestCapability(test_capability::TestCapabilityArguments),
    /// Run a WebAssembly guest: a module or a component.
    #[cfg(feature = "guests")]
    Run(Box<run::RunArguments>),
    /// Offer the capabilities to a language model, by the Model Context Protocol.
    Mcp(Box<mcp::McpArguments>),
    /// Write the types of all messages for programs in TypeScript or Python.
    Codegen(codegen::CodegenArguments),
    /// Print a script that completes this command line in a shell.
    Completions(completions::CompletionsArguments),
    /// Write the man pages of this program.
    #[command(hide = true)]
    Manual(manual::ManualArguments),
}

/// Reads the command line, does what it says, and returns the exit code: 2 for a command line that
/// cannot be understood, 1 for anything else that went wrong, otherwise the command's own.
#[must_use]
pub fn main() -> ExitCode {
    // The signals by which most commands end are of use only if they get through. It cannot fail.
    let _ = crate::system::signal_mask::unblock_all();
    #[cfg(feature = "guests")]
    {
        if let Some(code) = crate::compiler::child_main(std::env::args_os()) {
            return code;
        }
        crate::compiler::compile_outside();
    }
    if completions::answer_shell() {
        return ExitCode::SUCCESS;
    }
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(told) => return tell(&told),
    };
    match command {
        #[cfg(feature = "guests")]
        Command::Run(arguments) => run::run(&arguments).unwrap_or_else(|error| {
            eprintln!("mainspring: {error}");
            ExitCode::from(if error.is_usage() { target::EXIT_USAGE } else { 1 })
        }),
        Command::Up(arguments) => up::up(&arguments).unwrap_or_else(|error| {
            eprintln!("mainspring: {error}");
            ExitCode::FAILURE
        }),
        Command::Status(arguments) => status::run(&arguments),
        Command::Down(arguments) => down::run(&arguments),
        Command::Console(arguments) => console::run(&arguments),
        Command::Reload(arguments) => restart::reload(&arguments),
        Command::Restart(arguments) => restart::restart(&arguments),
        Command::Logs(arguments) => logs::run(&arguments),
        Command::Tap(arguments) => tap::run(&arguments),
        Command::Send(arguments) => message::send(&arguments),
        Command::Query(arguments) => message::query(&arguments),
        Command::Emit(arguments) => message::emit(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Pipe(arguments) => pipe::run(&arguments),
        Command::Describe(arguments) => describe::run(&arguments),
        Command::Nodes(arguments) => nodes::run(&arguments),
        Command::Timers(arguments) => timers::run(&arguments),
        Command::DeadLetters(arguments) => dead_letters::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Flight(arguments) => flight::run(&arguments),
        Command::New(arguments) => new::run(&arguments),
        Command::TestCapability(arguments) => test_capability::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Codegen(arguments) => codegen::run(&arguments),
        Command::Mcp(arguments) => mcp::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments),
        Command::Actors(arguments) => actors::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
    }
}

/// Prints help, the version, or what is wrong with the command line.
fn tell(told: &clap::Error) -> ExitCode {
    match told.print() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("mainspring: cannot write: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(target::EXIT_USAGE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    /// The words of a line as a shell would see them, up to a pipe, a redirection or a comment.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for character in line.chars() {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (None, ' ') => words.extend(word.take()),
                (None, '|' | '<' | '>' | '&' | '#' | ')') => break,
                _ => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn every_example_is_a_command_line_that_can_be_understood() {
        let mut tried = 0;
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:\n"), "{}: {help}", command.get_name());
            assert!(help.contains("\nExit code: "), "{} says nothing about exit codes", command.get_name());
            // An example may go on in the next line.
            let help = help.replace(",\n      ", ", ");
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                let Some(at) = line.find("mainspring ") else { continue };
                tried += 1;
                if let Err(error) = Arguments::try_parse_from(words(&line[at..])) {
                    panic!("{line}: {error}");
                }
            }
        }
        assert!(tried > 50, "{tried}");
    }

    /// Command lines of a document: in blocks of code, and whole ones between backticks.
    fn shown_commands(page: &str) -> Vec<String> {
        let page = page.replace("\\\n", " ");
        let mut fenced = false;
        let mut shown = Vec::new();
        for line in page.lines() {
            fenced ^= line.trim_start().starts_with("```");
            let code = line.trim_start().trim_start_matches("$ ");
            if (fenced || line.starts_with("    ")) && code.starts_with("mainspring ") {
                shown.push(code.to_owned());
            } else if !fenced {
                let quoted = line.split('`').skip(1).step_by(2);
                shown.extend(quoted.filter(|code| code.starts_with("mainspring ")).map(str::to_owned));
            }
        }
        shown
    }

    /// The Markdown files below a folder, but those that programs fill.
    fn pages(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with('.') && !matches!(&*name, "target" | "node_modules" | "src") {
                    pages(&path, found);
                }
            } else if name.ends_with(".md") && name != "CHANGELOG.md" {
                found.push(path);
            }
        }
    }

    /// A word that stands for others, such as COMMAND.
    fn is_placeholder(word: &str) -> bool {
        word.chars().all(|letter| letter.is_ascii_uppercase())
    }

    #[test]
    fn every_command_line_of_the_documents_can_be_understood() {
        use clap::error::ErrorKind;
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (mut found, mut tried) = (Vec::new(), 0);
        pages(&root, &mut found);
        for page in found {
            for line in shown_commands(&std::fs::read_to_string(&page).unwrap()) {
                let words = words(&line);
                // `mainspring COMMAND --help` stands for all of them.
                if words.get(1).is_none_or(|word| is_placeholder(word)) {
                    continue;
                }
                tried += 1;
                match Arguments::try_parse_from(&words).map_err(|error| error.kind()) {
                    Ok(_)
                    | Err(ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
                    // A sentence may name a command without what it takes.
                    | Err(
                        ErrorKind::MissingRequiredArgument
                        | ErrorKind::MissingSubcommand
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                    ) => {}
                    // So may it name a flag, or say LANGUAGE for any of them.
                    Err(ErrorKind::InvalidValue)
                        if words.iter().skip(1).any(|word| is_placeholder(word))
                            || words.last().is_some_and(|word| word.starts_with("--")) => {}
                    Err(kind) => panic!("{}: `{line}`: {kind:?}", page.display()),
                }
            }
        }
        assert!(tried > 100, "{tried}");
    }
}
