//! `cargo xtask soak`: the whole daemon for hours, with a neighbour on the same bus, under mixed
//! load and random faults, with an account of every request (`xtask/soak/soak.py`).

use crate::command::{cargo, root, run, target_dir};
use crate::machine::nats;
use crate::machine::packages::{Need, ensure};
use crate::parts::guests;
use crate::parts::mcp;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Draws the plot. Nothing else is needed besides Python.
const PLOTTER: &str = "matplotlib";
/// The guest among the capabilities.
const GUEST: &str = "capability.wasm";

#[derive(clap::Args)]
pub(crate) struct SoakArguments {
    /// How long, in hours.
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// How long, in minutes, besides the hours. Without either it is ten minutes.
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// The program to run instead of one that is built (optimised) for this.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// What decides the order of requests and faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The mean pause between two faults, in seconds.
    #[arg(long, default_value_t = 8.0)]
    pause: f64,
    /// Load alone: nothing is killed, stopped or filled.
    #[arg(long)]
    no_faults: bool,
}

pub(crate) fn run_soak(arguments: &SoakArguments) -> Result<()> {
    let asked = arguments.hours * 3600.0 + arguments.minutes * 60.0;
    let seconds = if asked > 0.0 { asked } else { 600.0 };
    let folder = root().join(target_dir()).join("soak");
    let results = folder.join("results");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = lock(&folder)?;
    if results.exists() {
        unmount(&results);
        fs::remove_dir_all(&results).with_context(|| format!("cannot remove {}", results.display()))?;
    }
    let program = match &arguments.program {
        Some(program) => {
            program.canonicalize().with_context(|| format!("there is no {}", program.display()))?
        }
        None => {
            run(cargo().args(["build", "--release", "--package", "mainspring"]))?;
            root().join(target_dir()).join("release/mainspring")
        }
    };
    let bridge = mcp::build(true).context("the bridge to models cannot be built")?;
    guests::ensure()?;
    ensure(&[Need { program: "strace", package: "strace", purpose: "a disk that is slow" }]);
    let mut python = Command::new(python(&folder));
    python.arg(root().join("xtask/soak/soak.py")).arg("--program").arg(program);
    python.arg("--folder").arg(&results).arg("--guest").arg(root().join(guests::folder()).join(GUEST));
    python.args(["--seconds", &seconds.to_string(), "--seed", &arguments.seed.to_string()]);
    python.args(["--pause", &arguments.pause.to_string()]);
    if arguments.no_faults {
        python.arg("--no-faults");
    }
    python.arg("--bridge").env("MAINSPRING_MCP", bridge);
    // Without it the soak says so, and goes on.
    if let Ok(server) = nats::path() {
        python.arg("--nats").arg(server);
    }
    python.args(["--parent", &std::process::id().to_string()]);
    println!(
        "soaking for {:.1} min; samples, plot and report will be in {}",
        seconds / 60.0,
        results.display()
    );
    run(&mut python)
}

/// One soak at a time: it would take the results of another away.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => bail!("another soak runs: {} is locked", path.display()),
    }
}

/// A soak that was killed leaves the disk behind that it had made to be filled.
fn unmount(results: &Path) {
    let mut command = Command::new("umount");
    let _ = command.arg(results.join("work/disk")).stderr(Stdio::null()).status();
}

/// A Python of its own with what draws the plot; the system's, if that cannot be had.
fn python(folder: &Path) -> PathBuf {
    let place = folder.join("venv");
    let python = place.join("bin/python");
    if !python.is_file() && run(Command::new("python3").args(["-m", "venv"]).arg(&place)).is_err() {
        println!("missing: venv of Python 3; there is a plot if Python has {PLOTTER} already");
        return "python3".into();
    }
    let has_plotter = Command::new(&python).args(["-c", &format!("import {PLOTTER}")]).output();
    if !has_plotter.is_ok_and(|output| output.status.success()) {
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PLOTTER];
        if run(Command::new(&python).args(words)).is_err() {
            println!("missing: {PLOTTER}; there will be no plot");
        }
    }
    python
}
