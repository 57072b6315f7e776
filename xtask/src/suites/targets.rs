//! Other systems than this one: what is for every Unix compiles there, and what is for Linux alone
//! says so in a sentence. To run there takes such a machine.

use crate::command::{self, cargo, root, target_dir};
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};

/// Another processor, another C library, Unix systems without epoll, and 32 bits.
const TARGETS: [&str; 6] = [
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-unknown-freebsd",
    "i686-unknown-linux-gnu",
];

/// What is for every Unix.
const PORTABLE: [&str; 7] = [
    "mainspring-reactor",
    "mainspring-reactor-c",
    "mainspring-message",
    "mainspring-zcl",
    "mainspring-kernel",
    "mainspring-journal",
    "mainspring-client",
];

/// What is for Linux alone: their build scripts say so before anything else is compiled.
const LINUX_ONLY: [&str; 3] = ["capability", "host", "mainspring"];

/// Checks each target whose standard library is there or can be had; says so in a line where it
/// cannot.
pub(crate) fn check() -> Result<()> {
    for target in TARGETS {
        if !is_installed(target) && !install(target) {
            println!(
                "missing: the standard library of {target}; whether anything compiles there is not checked"
            );
            continue;
        }
        let mut command = cargo();
        command.args(["check", "--quiet"]);
        for package in PORTABLE {
            command.args(["--package", package]);
        }
        command.args(["--target", target, "--target-dir"]).arg(target_dir().join("targets"));
        command::run(&mut command)?;
    }
    LINUX_ONLY.into_iter().try_for_each(refuses_other_systems)
}

/// Runs a crate's build script as cargo would elsewhere: to compile wasmtime for that takes
/// minutes.
fn refuses_other_systems(name: &str) -> Result<()> {
    let source = root().join("crates").join(name).join("build.rs");
    let program = root().join(target_dir()).join("targets").join(format!("build-script-of-{name}"));
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command::run(rustc.args(["--edition", "2024", "-o"]).arg(&program).arg(&source))?;
    let said = |system: &str| -> Result<String> {
        // With the features that are on by default: without `process`, what remains of `capability`
        // is for every system.
        let mut script = Command::new(&program);
        let output = script.env("CARGO_CFG_TARGET_OS", system).env("CARGO_FEATURE_PROCESS", "1").output();
        let output = output.with_context(|| format!("cannot start {}", program.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (linux, macos) = (said("linux")?, said("macos")?);
    ensure!(!linux.contains("cargo::error="), "{} refuses Linux: {linux}", source.display());
    ensure!(macos.contains("cargo::error="), "{} accepts macOS: {macos}", source.display());
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
