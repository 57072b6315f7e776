//! The command line: one file for each command.

mod actors;
mod bench;
mod check;
mod completions;
mod dead_letters;
mod describe;
mod input;
mod look;
mod message;
mod new;
mod output;
mod pipe;
mod run;
mod target;
mod text;
mod timers;
mod top;
mod trace;
mod up;
mod warnings;
mod watch;

use crate::{folder, units};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring up &
  mainspring send Memory.Set '{\"key\": \"colour\", \"value\": \"blue\"}'
  mainspring query Memory.Get '{\"key\": \"colour\"}'
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
    Up(up::Arguments),
    /// Send a command and print the data of its reply.
    Send(message::Send),
    /// Send a query and print the data of its reply.
    Query(message::Query),
    /// Send an event.
    Emit(message::Emit),
    /// Send messages from standard input, and print what comes back.
    Pipe(pipe::Arguments),
    /// Show events as they happen.
    Watch(watch::Arguments),
    /// Show what can be said to the daemon, with schemas.
    Describe(describe::Arguments),
    /// List the capabilities that run, and how they are.
    Actors(actors::Arguments),
    /// List or cancel scheduled messages.
    Timers(timers::Arguments),
    /// List, show, send again or drop messages that could not be delivered.
    DeadLetters(dead_letters::Arguments),
    /// Show what a message caused, as a tree with times.
    Trace(trace::Arguments),
    /// Show the daemon at a glance, over and over.
    Top(top::Arguments),
    /// Check a configuration without starting anything.
    Check(check::Arguments),
    /// Measure how fast the daemon is on this machine.
    Bench(bench::Arguments),
    /// Write a capability that works, to begin with.
    New(new::Arguments),
    /// Run a WebAssembly guest: a module or a component.
    Run(Box<run::Arguments>),
    /// Print a script that completes this command line in a shell.
    Completions(completions::Arguments),
}

/// Reads the command line, does what it says, and returns the exit code: 2 for a command line that cannot be understood, 1 for anything
/// else that went wrong, otherwise the command's own.
#[must_use]
pub fn main() -> ExitCode {
    let outcome: Result<ExitCode, Box<dyn std::error::Error>> = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments).map_err(Into::into),
        Command::Up(arguments) => up::up(&arguments).map_err(Into::into),
        Command::Send(arguments) => Ok(message::send(&arguments)),
        Command::Query(arguments) => Ok(message::query(&arguments)),
        Command::Emit(arguments) => Ok(message::emit(&arguments)),
        Command::Watch(arguments) => Ok(watch::run(&arguments)),
        Command::Pipe(arguments) => Ok(pipe::run(&arguments)),
        Command::Describe(arguments) => Ok(describe::run(&arguments)),
        Command::Timers(arguments) => Ok(timers::run(&arguments)),
        Command::DeadLetters(arguments) => Ok(dead_letters::run(&arguments)),
        Command::New(arguments) => Ok(new::run(&arguments)),
        Command::Trace(arguments) => Ok(trace::run(&arguments)),
        Command::Top(arguments) => Ok(top::run(&arguments)),
        Command::Bench(arguments) => Ok(bench::run(&arguments)),
        Command::Completions(arguments) => Ok(completions::run(&arguments)),
        Command::Actors(arguments) => Ok(actors::run(&arguments)),
        Command::Check(arguments) => Ok(check::run(&arguments)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mainspring: {error}");
            ExitCode::FAILURE
        }
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
}
