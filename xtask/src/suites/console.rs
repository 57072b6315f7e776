//! `cargo xtask console`: builds the page of the console, and tests it in a browser at the daemon
//! that is built here.

use crate::command::{cargo, root, run, target_dir};
use crate::machine::packages::{Need, ensure, install};
use crate::parts::guests;
use crate::suites::sdk;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the page's sources are.
const FOLDER: &str = "crates/console/web";
/// The fonts that the page asks for first; screenshots should show it as most people see it.
const FONTS: [&str; 2] = ["fonts-inter", "fonts-jetbrains-mono"];
/// The pictures that documents show, and the part of the test's name that makes them.
const PICTURES: [&str; 3] = ["console-busy.png", "console-trace.png", "console-sick.png"];
const PICTURES_TEST: &str = "the pictures of the README";

#[derive(clap::Args)]
pub(crate) struct ConsoleArguments {
    /// Build crates/console/assets from the sources, and test nothing.
    #[arg(long)]
    build: bool,
    /// Take the pictures of the documents anew, into docs.
    #[arg(long, conflicts_with = "build")]
    pictures: bool,
    /// Only the tests whose names have one of these parts.
    tests: Vec<String>,
}

pub(crate) fn run_console(arguments: &ConsoleArguments) -> Result<()> {
    if arguments.build {
        return run(script().arg("build"));
    }
    guests::ensure()?;
    run(&mut sdk::build())?;
    if arguments.pictures {
        run(test().arg(PICTURES_TEST))?;
        return take_pictures();
    }
    run(test().args(&arguments.tests))
}

fn take_pictures() -> Result<()> {
    let target = root().join(target_dir()).join("console");
    for name in PICTURES {
        fs::copy(target.join(name), root().join("docs").join(name))
            .with_context(|| format!("the test made no {name}"))?;
    }
    Ok(())
}

/// What an open console costs an optimised daemon.
pub(crate) fn measure(options: &[String]) -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--release", "--quiet", "--package", "mainspring", "--bin", "mainspring"]);
    run(&mut build)?;
    let daemon = root().join(target_dir()).join("release/mainspring");
    run(test().arg("measure").args(options).env("MAINSPRING", daemon))
}

/// Tests the page; the last line counts. What the machine lacks is installed first.
pub(crate) fn test() -> Command {
    ensure(&[
        Need { program: "chromium", package: "chromium", purpose: "tests of the console" },
        Need { program: "curl", package: "curl", purpose: "lines that the console copies for it" },
    ]);
    if !Path::new("/usr/share/fonts/opentype/inter").exists() {
        install(&FONTS);
    }
    script()
}

fn script() -> Command {
    let target = root().join(target_dir());
    let mut command = Command::new(root().join(FOLDER).join("ci.sh"));
    command.env("MAINSPRING", target.join("debug/mainspring"));
    command.env("MAINSPRING_GUESTS", root().join(guests::folder()));
    command.env("CONSOLE_TARGET", target.join("console"));
    command
}
