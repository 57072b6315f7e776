//! `cargo xtask fuzz`: the readers of bytes that a stranger reaches, for minutes, guided by
//! coverage.
//!
//! libFuzzer needs a compiler that counts which branches were taken. rustc can do that on every
//! channel, so neither a nightly Rust nor `cargo fuzz` is needed; both work with the same folder.

use crate::command::{self, cargo, root, target_dir};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Counters of branches and of comparisons, as libFuzzer reads them.
const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];
/// An input that takes longer, or more memory, is a fault.
const SECONDS_MAX: &str = "-timeout=10";
const MEGABYTES_MAX: &str = "-rss_limit_mb=2048";

#[derive(clap::Args)]
pub(crate) struct FuzzArguments {
    /// Which targets (all, if none is named): the names in fuzz/fuzz_targets.
    targets: Vec<String>,
    /// How long each is run, in minutes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Afterwards, keep what reached new code in fuzz/corpus, as few inputs as possible.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run_fuzz(arguments: &FuzzArguments) -> Result<()> {
    let all = targets()?;
    if let Some(unknown) = arguments.targets.iter().find(|name| !all.contains(name)) {
        bail!("there is no target `{unknown}`; there are {}", all.join(", "));
    }
    let programs = build()?;
    let chosen = if arguments.targets.is_empty() { &all } else { &arguments.targets };
    for name in chosen {
        println!("==> {name}, {} min", arguments.minutes);
        let (program, seeds) = (programs.join(name), root().join("fuzz/corpus").join(name));
        let (found, faults) = (work("found", name)?, work("faults", name)?);
        let mut fuzz = Command::new(&program);
        fuzz.arg(format!("-max_total_time={}", arguments.minutes * 60));
        fuzz.args([SECONDS_MAX, MEGABYTES_MAX, "-print_final_stats=1", "-verbosity=0", "-print_funcs=0"]);
        fuzz.arg(format!("-artifact_prefix={}/", faults.display())).arg(&found).arg(&seeds);
        let outcome = command::run(&mut fuzz);
        outcome.with_context(|| {
            format!("the input is in {}; put it into {}", faults.display(), seeds.display())
        })?;
        if arguments.keep {
            let mut merge = Command::new(&program);
            command::run(merge.args(["-merge=1", "-verbosity=0"]).arg(&seeds).arg(&found))?;
        }
    }
    Ok(())
}

/// The names of the programs.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

/// Builds the programs, with this system's target named, so that the flags do not reach macros.
fn build() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "host-tuple"]).current_dir(root()).output()?;
    let host = String::from_utf8(output.stdout)?.trim().to_owned();
    let folder = root().join(target_dir()).join("fuzz");
    let mut command = cargo();
    command.args(["build", "--release", "--quiet", "--manifest-path"]).arg(root().join("fuzz/Cargo.toml"));
    command.args(["--target", &host, "--target-dir"]).arg(&folder);
    command.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    command::run(&mut command)?;
    Ok(folder.join(host).join("release"))
}

/// A folder for what a target finds.
fn work(kind: &str, name: &str) -> Result<PathBuf> {
    let folder = root().join(target_dir()).join("fuzz").join(kind).join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
