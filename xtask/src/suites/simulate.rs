//! `cargo xtask simulate`: the kernel's simulator, optimised.

use crate::command::{self, cargo};
use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct SimulateArguments {
    /// Options of the simulator: --seeds N, --steps M, --seed S, ... (--help lists them).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) options: Vec<String>,
}

pub(crate) fn run(arguments: &SimulateArguments) -> Result<()> {
    let mut command = cargo();
    command
        .args(["run", "--release", "--quiet", "--package", "mainspring-simulator", "--bin", "simulate", "--"])
        .args(&arguments.options);
    command::run(&mut command)
}
