//! `cargo xtask features`: each feature of each crate compiles alone, and so does each crate
//! without any. And the program alone is built with the same features of its dependencies as the
//! whole workspace: otherwise `--package mainspring` after `--workspace` would compile wasmtime
//! once more.

use crate::command::{cargo, run};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;

/// The crates, and the sets of features that somebody may choose.
const LIGHT: [(&str, &[&str]); 5] = [
    ("mainspring-message", &["", "envelope"]),
    ("mainspring-guest", &["", "capability", "tokio", "futures-io"]),
    ("mainspring-journal", &["", "simulation"]),
    ("mainspring-client", &["", "tokio"]),
    // The bus alone: without guests, and so without wasmtime.
    ("mainspring", &["", "uplink"]),
];
/// Those that need wasmtime, each time with other features of it: minutes each.
const HEAVY: [(&str, &[&str]); 1] = [("mainspring-host", &["", "wasi"])];

#[derive(clap::Args)]
pub(crate) struct FeaturesArguments {
    /// Also the crates that need wasmtime, which is compiled again for each set.
    #[arg(long)]
    pub(crate) all: bool,
}

pub(crate) fn run_features(arguments: &FeaturesArguments) -> Result<()> {
    check_that_builds_are_shared()?;
    let heavy: &[_] = if arguments.all { &HEAVY } else { &[] };
    for (package, sets) in LIGHT.iter().chain(heavy) {
        for set in *sets {
            let mut command = cargo();
            command.args(["check", "--quiet", "--package", package]);
            run(command.args(["--no-default-features", "--features", set]))?;
        }
    }
    Ok(())
}

fn check_that_builds_are_shared() -> Result<()> {
    let workspace = packages_with_features(&["--workspace"])?;
    let program = packages_with_features(&["--package", "mainspring"])?;
    let apart: Vec<&str> = program.difference(&workspace).map(String::as_str).collect();
    if !apart.is_empty() {
        bail!(
            "`--package mainspring` and `--workspace` build these with different features; ask for the \
             same ones in both (`cargo tree --edges features --invert NAME` tells who asks):\n{}",
            apart.join("\n")
        );
    }
    Ok(())
}

/// The packages from elsewhere that a build of `selection` takes, each with its features.
fn packages_with_features(selection: &[&str]) -> Result<BTreeSet<String>> {
    let mut command = cargo();
    command.arg("tree").args(selection).args(["--edges", "normal,build,dev", "--prefix", "none"]);
    let output = command.args(["--format", "{p} {f}"]).output().context("cannot start `cargo tree`")?;
    if !output.status.success() {
        bail!("`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let lines = String::from_utf8(output.stdout)?;
    let of_others = lines.lines().filter(|line| !line.contains("(/"));
    Ok(of_others.map(|line| line.trim_end_matches(" (*)").trim_end().to_owned()).collect())
}
