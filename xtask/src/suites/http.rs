//! `cargo xtask http`: the HTTP listener of the daemon that is built here, tried by what others
//! made for that.

use crate::command::{root, run, target_dir};
use crate::machine::packages::{Need, ensure};
use crate::suites::sdk;
use anyhow::Result;
use std::process::Command;

/// Where the checks are.
const FOLDER: &str = "crates/http/proof";

#[derive(clap::Args)]
pub(crate) struct HttpArguments {
    /// Only the checks whose names have one of these parts.
    checks: Vec<String>,
}

pub(crate) fn run_http(arguments: &HttpArguments) -> Result<()> {
    run(&mut sdk::build())?;
    run(test().args(&arguments.checks))
}

/// The checks; the last line counts. What the machine lacks is installed first.
pub(crate) fn test() -> Command {
    ensure(&[
        Need { program: "prometheus", package: "prometheus", purpose: "tests of /metrics" },
        Need { program: "promtool", package: "prometheus", purpose: "tests of /metrics" },
    ]);
    let target = root().join(target_dir());
    let mut command = Command::new(root().join(FOLDER).join("ci.sh"));
    command.env("MAINSPRING", target.join("debug/mainspring"));
    command.env("HTTP_TARGET", target.join("http"));
    command
}
