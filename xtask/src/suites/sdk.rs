//! `cargo xtask sdk`: builds and tests the SDKs of `sdk/`, each by a script of its own, against the
//! daemon that is built here.

use crate::command::{cargo, root, run, target_dir};
use crate::machine::packages::{Need, ensure};
use crate::parts::guests;
use crate::parts::mcp;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// What every SDK has: it installs what it needs, tests everything, and ends with a line `N passed,
/// M failed, K skipped`.
const SCRIPT: &str = "ci.sh";

#[derive(clap::Args)]
pub(crate) struct SdkArguments {
    /// Which ones, by their folder in sdk/; all of them if none is named.
    languages: Vec<String>,
}

pub(crate) fn run_sdks(arguments: &SdkArguments) -> Result<()> {
    let all = languages()?;
    if let Some(unknown) = arguments.languages.iter().find(|name| !all.contains(name)) {
        bail!("there is no SDK `{unknown}`; there are {}", all.join(", "));
    }
    guests::ensure()?;
    run(&mut build())?;
    mcp::build(false)?;
    let chosen = if arguments.languages.is_empty() { &all } else { &arguments.languages };
    let failed: Vec<String> =
        test_all(chosen)?.into_iter().filter(|run| !run.status.success()).map(|run| run.language).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// How the tests of an SDK went.
pub(crate) struct Run {
    pub(crate) language: String,
    pub(crate) status: ExitStatus,
    /// What it said.
    pub(crate) text: String,
    pub(crate) took: Duration,
}

/// Tests SDKs side by side: much of the time each waits for a process, or for time to pass. What
/// one says is shown when it has ended.
pub(crate) fn test_all(languages: &[String]) -> Result<Vec<Run>> {
    ensure(&[
        Need { program: "node", package: "nodejs", purpose: "the TypeScript SDK" },
        Need { program: "npm", package: "npm", purpose: "the TypeScript SDK, and suites for MCP" },
        Need { program: "pgrep", package: "procps", purpose: "tests of MCP servers as capabilities" },
    ]);
    let commands: Vec<(String, Command)> =
        languages.iter().map(|language| Ok((language.clone(), test(language)?))).collect::<Result<_>>()?;
    let printing = Mutex::new(());
    let one = |language: String, mut command: Command| -> Result<Run> {
        let start = Instant::now();
        // Both streams in one, in their order.
        let (reader, writer) = std::io::pipe()?;
        let mut child = command
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()
            .with_context(|| format!("cannot start the tests of {language}"))?;
        // The command holds the writer, which must be gone before there is an end to read.
        drop(command);
        let text = std::io::read_to_string(reader)?;
        let (status, took) = (child.wait()?, start.elapsed());
        let _printing = printing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        println!("==> sdk: {language} ({} s)\n{}", took.as_secs(), text.trim_end());
        Ok(Run { language, status, text, took })
    };
    println!("==> sdk: {} (side by side)", languages.join(", "));
    thread::scope(|scope| {
        let running: Vec<_> =
            commands.into_iter().map(|(language, command)| scope.spawn(|| one(language, command))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect()
    })
}

/// The SDKs that are there: the folders with a script.
pub(crate) fn languages() -> Result<Vec<String>> {
    let folder = root().join("sdk");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(SCRIPT).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Builds the daemon, and the programs of the Rust SDK that the conformance suite drives, as the
/// tests of the workspace do: examples bring the features that tests ask for, so nothing is left to
/// be done after them.
pub(crate) fn build() -> Command {
    let mut command = cargo();
    command.args(["build", "--workspace", "--quiet", "--bin", "mainspring"]);
    for example in ["conformance_capability", "conformance_client", "conformance_client_tokio"] {
        command.args(["--example", example]);
    }
    command
}

/// Tests one SDK.
pub(crate) fn test(language: &str) -> Result<Command> {
    let target = absolute(target_dir());
    let folder = target.join("sdk").join(language);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut command = Command::new(root().join("sdk").join(language).join(SCRIPT));
    command.env("MAINSPRING", target.join("debug/mainspring")).env("SDK_TARGET", folder);
    command.env("MAINSPRING_GUESTS", root().join(guests::folder()));
    Ok(command)
}

/// The path of a Node that runs TypeScript as it is, which is installed below `target/sdk`.
pub(crate) fn node22() -> Result<PathBuf> {
    let mut command = Command::new(root().join("sdk/node22.sh"));
    let output = command.arg(absolute(target_dir()).join("sdk")).stderr(Stdio::inherit()).output();
    let output = output.context("cannot start sdk/node22.sh")?;
    if !output.status.success() {
        bail!("Node 22 cannot be installed: `sdk/node22.sh` failed: {}", output.status);
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// A target folder that is named by a relative path begins at the top of the repository, as cargo
/// is run there.
fn absolute(folder: PathBuf) -> PathBuf {
    root().join(folder)
}
