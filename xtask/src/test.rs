//! `cargo xtask test`: everything that must hold, in one command.

use crate::command::{self, cargo, root, show, target_dir};
use crate::machine::nats;
use crate::machine::packages::{Need, ensure};
use crate::machine::postgres;
use crate::parts::guests;
use crate::parts::mcp;
use crate::release::book;
use crate::release::deny;
use crate::release::package;
use crate::suites::console;
use crate::suites::features;
use crate::suites::http;
use crate::suites::sdk;
use crate::suites::simulate;
use crate::suites::targets;
use anyhow::{Context, Result, bail};
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Seeds that the simulator runs as part of the tests.
const SIMULATED_SEEDS: &str = "1000";
/// Steps of each.
const SIMULATED_STEPS: &str = "2000";
/// The random inputs of the property tests are the same in every run, so that a run fails for what
/// was changed and not by luck. `cargo test` by itself, `simulate` and `fuzz` take others.
const PROPERTY_SEED: &str = "1";

/// The zig that compiles C for WASI.
const ZIG: &str = "0.14.1";

#[derive(clap::Args)]
pub(crate) struct TestArguments {
    /// Skip the simulator.
    #[arg(long)]
    quick: bool,
    /// Check the benchmarks as well, which means to build all their peers.
    #[arg(long)]
    benchmarks: bool,
}

/// What has been counted.
#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
    failures: Vec<String>,
    /// How long each stage took, in the order of their ends.
    stages: Vec<(String, Duration)>,
}

pub(crate) fn run(arguments: &TestArguments) -> Result<()> {
    let start = Instant::now();
    let mut count = Count::default();
    ensure(&[
        Need { program: "c++", package: "g++", purpose: "the C header in C++ programs" },
        Need { program: "nm", package: "binutils", purpose: "the symbols of the C library" },
    ]);
    let valgrind = ensure(&[Need { program: "valgrind", package: "valgrind", purpose: "C tests for leaks" }]);
    ensure(&[Need { program: "go", package: "golang-go", purpose: "the skeleton in Go" }]);
    let strace =
        ensure(&[Need { program: "strace", package: "strace", purpose: "tests that count system calls" }]);

    count.step("guests", guests::ensure);
    count.check("formatting", cargo().args(["fmt", "--all", "--check"]));
    count.check(
        "clippy",
        cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]),
    );
    count.check("guests: formatting", guests_cargo("fmt").args(["--all", "--check"]));
    let folder = target_dir().join("guests-clippy");
    let mut guests_clippy = guests_cargo("clippy");
    guests_clippy.args(["--all-targets", "--quiet", "--target-dir"]).arg(folder);
    count.check("guests: clippy", guests_clippy.args(["--", "--deny", "warnings"]));
    count.step("book", book::make);
    count.check("mcp: formatting", mcp::mcp_cargo("fmt").arg("--check"));
    let mut mcp_clippy = mcp::mcp_cargo("clippy");
    count.check("mcp: clippy", mcp_clippy.args(["--all-targets", "--quiet", "--", "--deny", "warnings"]));
    count.step("dependencies", deny::check);
    count.step("features", || features::run_features(&features::FeaturesArguments { all: false }));
    count.step("packages", || package::run_package(&package::PackageArguments { verify: false }));
    count.step("other systems", targets::check);
    count.check(
        "documentation",
        cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "--deny warnings"),
    );
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    tests.env("MAINSPRING_VALGRIND", if valgrind { "1" } else { "0" });
    tests.env("MAINSPRING_STRACE", if strace { "1" } else { "0" });
    tests.env("MAINSPRING_GUESTS", guests::folder());
    if env::var_os("PROPTEST_RNG_SEED").is_none() {
        tests.env("PROPTEST_RNG_SEED", PROPERTY_SEED);
    }
    match wasi_c_compiler() {
        Ok(compiler) => {
            tests.env("WASI_CC", compiler);
        }
        Err(error) => println!("missing: {error:#}; the skeleton of a guest in C is not tried"),
    }
    count.step("nats-server", || nats::tell(&mut tests));
    let server = postgres::Server::start();
    match &server {
        Ok(server) => server.tell(&mut tests),
        Err(error) => println!("missing: {error:#}; the database tests are skipped"),
    }
    count.tests("tests and doctests", &mut tests)?;
    drop(server);
    count.tests("mcp: tests", &mut mcp::mcp_cargo("test"))?;
    count.check("sdk: the daemon", &mut sdk::build());
    count.step("sdk: the bridge", || mcp::build(false).map(drop));
    let start_of_sdks = Instant::now();
    for run in sdk::test_all(&sdk::languages()?)? {
        let name = format!("sdk: {}", run.language);
        count.add_suite(&name, tally_of(run.text.lines()), run.status);
        count.stages.push((format!("{name} (beside the others)"), run.took));
    }
    count.stages.push(("sdk: all of them".into(), start_of_sdks.elapsed()));
    count.suite("http", &mut http::test())?;
    count.suite("console", &mut console::test())?;
    if !arguments.quick {
        let options = ["--seeds", SIMULATED_SEEDS, "--steps", SIMULATED_STEPS].map(String::from).to_vec();
        count.step("simulation", || simulate::run(&simulate::SimulateArguments { options }));
    }
    if arguments.benchmarks {
        count.check("benchmarks: formatting", bench_cargo("fmt").args(["--all", "--check"]));
        let target = target_dir().join("bench");
        let clippy = ["--all-targets", "--quiet", "--target-dir"];
        count.check(
            "benchmarks: clippy",
            bench_cargo("clippy").args(clippy).arg(target).args(["--", "--deny", "warnings"]),
        );
    }

    println!("\nfinished in {} s", start.elapsed().as_secs());
    for (stage, took) in &count.stages {
        println!("{:>6} s  {stage}", took.as_secs());
    }
    for failure in &count.failures {
        println!("failed: {failure}");
    }
    println!("{} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    if count.failed > 0 {
        bail!("{} of the checks and tests failed", count.failed);
    }
    Ok(())
}

/// A compiler of C for WASI, as the skeleton of a guest wants it: zig, which pip has.
fn wasi_c_compiler() -> Result<String> {
    let folder = root().join(target_dir()).join("tools").join(format!("ziglang-{ZIG}"));
    if !folder.join("ziglang").is_dir() {
        println!("==> installing zig {ZIG}");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&folder);
        command::run(pip.arg(format!("ziglang=={ZIG}")))?;
    }
    Ok(format!("env PYTHONPATH={} python3 -m ziglang cc -target wasm32-wasi", folder.display()))
}

/// Guests are built for this machine too: nothing of what clippy looks at depends on the target.
fn guests_cargo(subcommand: &str) -> Command {
    let mut command = cargo();
    command.arg(subcommand).arg("--manifest-path").arg(root().join("guests/rust/Cargo.toml"));
    command
}

fn bench_cargo(subcommand: &str) -> Command {
    let mut command = cargo();
    command.arg(subcommand).arg("--manifest-path").arg(root().join("bench/Cargo.toml"));
    command
}

impl Count {
    /// One thing that holds or does not.
    fn step(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        println!("==> {name}");
        let start = Instant::now();
        let outcome = step();
        self.stages.push((name.into(), start.elapsed()));
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                println!("{error:#}");
                self.failed += 1;
                self.failures.push(name.into());
            }
        }
    }

    fn check(&mut self, name: &str, command: &mut Command) {
        self.step(name, || command::run(command));
    }

    /// A run of the test harness, whose closing lines are added up.
    fn tests(&mut self, name: &str, command: &mut Command) -> Result<()> {
        let failures = self.failures.len();
        let status = self.read(name, command, Count::read_line)?;
        // A crate that does not compile, or a test that kills its process, leaves no closing line.
        if !status.success() && self.failures.len() == failures {
            self.failed += 1;
            self.failures.push(format!("{}: {status}", show(command)));
        }
        Ok(())
    }

    /// A run of a suite of its own, which ends with a line like `12 passed, 0 failed, 1 skipped`.
    fn suite(&mut self, name: &str, command: &mut Command) -> Result<()> {
        let mut lines = Vec::new();
        let status = self.read(name, command, |_, line| lines.push(line.to_owned()))?;
        self.add_suite(name, tally_of(lines.iter().map(String::as_str)), status);
        Ok(())
    }

    /// Adds what a suite counted.
    fn add_suite(&mut self, name: &str, tally: &str, status: ExitStatus) {
        let failed = number_before(tally, " failed");
        self.passed += number_before(tally, " passed");
        self.skipped += number_before(tally, " skipped");
        self.failed += failed;
        if failed == 0 && (!status.success() || tally.is_empty()) {
            self.failed += 1;
        }
        if failed > 0 || !status.success() || tally.is_empty() {
            self.failures.push(format!("{name}: {status}"));
        }
    }

    /// Runs a command, shows what it says, and has each line read.
    fn read(
        &mut self,
        name: &str,
        command: &mut Command,
        mut on_line: impl FnMut(&mut Count, &str),
    ) -> Result<ExitStatus> {
        println!("==> {name}");
        let start = Instant::now();
        let shown = show(command);
        let mut child =
            command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{shown}`"))?;
        let output = child.stdout.take().context("no output")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            println!("{line}");
            on_line(self, &line);
        }
        let status = child.wait()?;
        self.stages.push((name.into(), start.elapsed()));
        Ok(status)
    }

    fn read_line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
            self.skipped += number_before(result, " ignored");
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.into());
        }
    }
}

/// The last line in which a suite counts; empty if there is none.
fn tally_of<'a>(lines: impl Iterator<Item = &'a str>) -> &'a str {
    lines.filter(|line| line.ends_with(" skipped") && line.contains(" passed, ")).last().unwrap_or_default()
}

/// The number that stands before a word, as in "12 passed".
fn number_before(text: &str, word: &str) -> usize {
    let Some(end) = text.find(word) else { return 0 };
    let digits = text[..end].rsplit(|character: char| !character.is_ascii_digit()).next().unwrap_or("");
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_the_harness_are_added_up() {
        let mut count = Count::default();
        count.read_line("test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out");
        count.read_line("test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        count.read_line("test identity::a_name ... FAILED");
        assert_eq!((count.passed, count.failed, count.skipped), (17, 3, 1));
        assert_eq!(count.failures, ["identity::a_name"]);
    }

    #[test]
    fn the_last_tally_of_a_suite_counts_and_its_absence_is_a_failure() {
        let mut count = Count::default();
        let run =
            |count: &mut Count, script: &str| count.suite("suite", Command::new("sh").args(["-c", script]));
        run(&mut count, "echo 1 passed, 1 failed, 1 skipped; echo 7 passed, 0 failed, 2 skipped").unwrap();
        assert_eq!((count.passed, count.failed, count.skipped), (7, 0, 2));
        run(&mut count, "echo 3 passed, 2 failed, 0 skipped; exit 1").unwrap();
        assert_eq!((count.passed, count.failed, count.failures.len()), (10, 2, 1));
        run(&mut count, "true").unwrap();
        run(&mut count, "echo 1 passed, 0 failed, 0 skipped; exit 1").unwrap();
        assert_eq!((count.passed, count.failed, count.failures.len()), (11, 4, 3));
    }
}
