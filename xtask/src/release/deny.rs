//! `cargo xtask deny`: licences, versions and sources of the dependencies, against `deny.toml`.

use crate::command::{root, run};
use crate::machine::tools::Tool;
use anyhow::Result;
use std::process::{Command, Stdio};

const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", features: "" };

/// The workspaces with a lock file of their own that somebody runs: the benchmarks' peers are not
/// passed on.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "crates/mcp/Cargo.toml"];

pub(crate) fn check() -> Result<()> {
    let program = CARGO_DENY.path()?;
    let deny = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(root()).args(["--log-level", "warn"]).args(words);
        command
    };
    for workspace in WORKSPACES {
        run(&mut deny(&["--manifest-path", workspace, "check", "licenses", "bans", "sources"]))?;
    }
    let fetched = deny(&["fetch", "db"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !fetched.is_ok_and(|status| status.success()) {
        println!("missing: the database of known vulnerabilities cannot be fetched; it is not asked");
        return Ok(());
    }
    for workspace in WORKSPACES {
        run(&mut deny(&["--manifest-path", workspace, "check", "advisories"]))?;
    }
    Ok(())
}
