//! The command line: one file for each command.

mod actors;
mod check;
mod message;
mod output;
mod run;
mod target;
mod text;
mod up;
mod watch;

use crate::{folder, units};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// One event loop, from file descriptor to message.
#[derive(Debug, Parser)]
#[command(name = "mainspring", version, about, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a WebAssembly guest: a module or a component.
    Run(Box<run::Arguments>),
    /// Run a daemon: clients come in by a socket, capabilities answer them.
    Up(up::Arguments),
    /// Send a command and print the data of its reply.
    Send(message::Send),
    /// Send a query and print the data of its reply.
    Query(message::Query),
    /// Send an event.
    Emit(message::Emit),
    /// Show events as they happen.
    Watch(watch::Arguments),
    /// List the capabilities that run, and how they are.
    Actors(actors::Arguments),
    /// Check a configuration without starting anything.
    Check(check::Arguments),
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
        Command::Actors(arguments) => Ok(actors::run(&arguments)),
        Command::Check(arguments) => Ok(check::run(&arguments)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            match error.downcast_ref() {
                // Says which file it is about, line by line.
                Some(up::Error::Config(config)) => eprintln!("{config}"),
                _ => eprintln!("mainspring: {error}"),
            }
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
