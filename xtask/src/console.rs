//! `cargo xtask console`: builds the page of the console, and tests it in a browser at the daemon that is built here.

use crate::command::{root, run, target_dir};
use crate::guests;
use crate::packages::{Need, ensure, install};
use crate::sdk;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Where the page's sources are.
const FOLDER: &str = "crates/console/web";
/// The fonts that the page asks for first; screenshots should show it as most people see it.
const FONTS: [&str; 2] = ["fonts-inter", "fonts-jetbrains-mono"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build crates/console/assets from the sources, and test nothing.
    #[arg(long)]
    build: bool,
    /// Only the tests whose names have one of these parts.
    tests: Vec<String>,
}

pub(crate) fn run_console(arguments: &Arguments) -> Result<()> {
    if arguments.build {
        return run(script().arg("build"));
    }
    run(&mut sdk::build())?;
    run(test().args(&arguments.tests))
}

/// Tests the page; the last line counts. What the machine lacks is installed first.
pub(crate) fn test() -> Command {
    ensure(&[Need { program: "chromium", package: "chromium", purpose: "tests of the console" }]);
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
