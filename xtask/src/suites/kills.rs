//! `cargo xtask kills`: the program is killed at random under load, again and again, with
//! accounting from outside.

use crate::command::{self, cargo};
use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct KillsArguments {
    /// How often it is killed.
    #[arg(long, default_value_t = 200)]
    rounds: usize,
}

pub(crate) fn run(arguments: &KillsArguments) -> Result<()> {
    let mut command = cargo();
    command
        .args(["test", "--workspace", "--test", "durable", "--", "--nocapture", "kills::"])
        .env("MAINSPRING_KILLS", arguments.rounds.to_string());
    command::run(&mut command)
}
