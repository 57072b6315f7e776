//! A look at the daemon: a question of its own, shown for people or as data. Several commands are little more.

use super::output;
use super::target::{Failure, Target};
use serde_json::Value;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct ReadCommand {
    /// Print the data as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) target: Target,
}

impl ReadCommand {
    /// Asks, and prints the answer: as it is, or as `view` makes it.
    pub(super) fn ask(
        &self,
        type_name: &'static str,
        question: Value,
        view: impl FnOnce(&Value) -> Result<String, Failure>,
    ) -> Result<ExitCode, Failure> {
        let data = self.target.ask(type_name, question)?;
        self.print(&data, view)
    }

    /// Prints an answer.
    pub(super) fn print(
        &self,
        data: &Value,
        view: impl FnOnce(&Value) -> Result<String, Failure>,
    ) -> Result<ExitCode, Failure> {
        Ok(output::print(&if self.json { format!("{data}\n") } else { view(data)? }))
    }
}

/// The exit code of a command; what it failed for is told.
pub(super) fn told(outcome: Result<ExitCode, Failure>) -> ExitCode {
    outcome.unwrap_or_else(|failure| failure.report())
}
