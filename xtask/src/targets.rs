//! The reactor on other systems than this one: whether it compiles there. To run there takes such a
//! machine.

use crate::command::{self, cargo, target_dir};
use anyhow::Result;
use std::process::{Command, Stdio};

/// A 32-bit system, another C library, and a Unix without epoll.
const TARGETS: [&str; 3] = ["i686-unknown-linux-gnu", "x86_64-unknown-linux-musl", "aarch64-apple-darwin"];

/// Checks each target whose standard library is there or can be had; says so in a line where it
/// cannot.
pub(crate) fn check() -> Result<()> {
    for target in TARGETS {
        if !is_installed(target) && !install(target) {
            println!(
                "missing: the standard library of {target}; whether the reactor compiles there is not checked"
            );
            continue;
        }
        let mut command = cargo();
        command.args([
            "check",
            "--quiet",
            "--package",
            "mainspring-reactor",
            "--package",
            "mainspring-reactor-c",
        ]);
        command.args(["--target", target, "--target-dir"]).arg(target_dir().join("targets"));
        command::run(&mut command)?;
    }
    Ok(())
}

fn is_installed(target: &str) -> bool {
    let listed =
        Command::new("rustup").args(["target", "list", "--installed"]).stderr(Stdio::null()).output();
    listed.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|installed| installed.trim() == target)
    })
}

fn install(target: &str) -> bool {
    let mut command = Command::new("rustup");
    command.args(["target", "add", target]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
