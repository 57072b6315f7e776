//! A look at the daemon: a question of its own, shown for people or as data. Several commands are
//! little more.

use crate::cli::support::output;
use crate::cli::support::target::{Failure, Target};
use serde_json::Value;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ReadCommand {
    /// Print the data as JSON.
    #[arg(long, global = true)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) target: Target,
}

impl ReadCommand {
    /// Asks, and prints the answer: as it is, or as `view` makes it.
    pub(in crate::cli) fn ask(
        &self,
        type_name: &'static str,
        question: Value,
        view: impl FnOnce(&Value) -> Result<String, Failure>,
    ) -> Result<ExitCode, Failure> {
        let data = self.target.ask(type_name, question)?;
        self.print(&data, view)
    }

    /// Prints an answer.
    pub(in crate::cli) fn print(
        &self,
        data: &Value,
        view: impl FnOnce(&Value) -> Result<String, Failure>,
    ) -> Result<ExitCode, Failure> {
        Ok(output::print(&if self.json { format!("{data}\n") } else { view(data)? }))
    }
}

/// The exit code of a command; what it failed for is told.
pub(in crate::cli) fn told(outcome: Result<ExitCode, Failure>) -> ExitCode {
    outcome.unwrap_or_else(|failure| failure.report())
}
