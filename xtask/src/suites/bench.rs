//! `cargo xtask bench`: builds and runs one suite of the `bench` workspace.

use crate::command::{self, cargo, root, target_dir};
use crate::machine::packages::{Need, ensure};
use crate::machine::postgres::Server;
use crate::parts::guests;
use crate::parts::mcp;
use crate::suites::console;
use crate::suites::sdk;
use anyhow::Result;
use clap::ValueEnum;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct BenchArguments {
    /// Which suite.
    suite: Suite,
    /// Options of the suite: --quick, --json FILE, --filter CASE, ... (--help lists them).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// The reactor against raw epoll, libev, libuv, libevent, mio, polling, calloop and tokio.
    Reactor,
    /// Guests: idle, woken beside the same work written natively, polling among many watches,
    /// started.
    Guests,
    /// One database client natively, in a new guest and in an old one that wakes itself; starts a
    /// private PostgreSQL.
    Postgres,
    /// Requests through the daemon, beside nats-server, Redis and a bare echo server.
    Bus,
    /// Commands that survive a power cut, beside a raw flush loop, Redis, JetStream and SQLite.
    Durable,
    /// Commands by HTTP, beside a bare echo by hyper on tokio and nginx with a fixed body.
    Http,
    /// What a tap costs the daemon, and what operators who look at everything cost a bystander.
    Observed,
    /// Requests to other nodes over NATS, beside bare requests by the same nats-server.
    Nodes,
    /// The kernel by itself, beside JSON parsing, schema validation and in-process actors.
    Kernel,
    /// The kernel's timing wheel, beside a binary heap and timers of other crates.
    Wheel,
    /// Capabilities and clients with the SDKs beside the same by hand, and calls of tools through
    /// `mainspring mcp` beside a bare server of the protocol. `--quick` is a short run, whose
    /// figures are shown and not judged.
    Sdk,
    /// What an open console costs the daemon, idle and at 10,000 messages a second; in a browser.
    Console,
}

pub(crate) fn run_suite(suite: &str, options: &[String], server: Option<&Server>) -> Result<()> {
    let mut command = cargo();
    if let Some(server) = server {
        server.tell(&mut command);
    }
    command
        .args(["run", "--release", "--quiet", "--manifest-path"])
        .arg(root().join("bench/Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir().join("bench"))
        .env("MAINSPRING_GUESTS", guests::folder())
        .env("MAINSPRING_BIN", root().join(target_dir()).join("release/mainspring"))
        .args(["--bin", &format!("{suite}-bench"), "--"])
        .args(options);
    command::run(&mut command)
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    if matches!(arguments.suite, Suite::Guests | Suite::Postgres | Suite::Bus) {
        guests::ensure()?;
    }
    if matches!(arguments.suite, Suite::Sdk) {
        return run_sdk(arguments.options.iter().any(|option| option == "--quick"));
    }
    if matches!(arguments.suite, Suite::Console) {
        return console::measure(&arguments.options);
    }
    if matches!(arguments.suite, Suite::Http) {
        ensure(&[Need { program: "nginx", package: "nginx-light", purpose: "a peer of the HTTP listener" }]);
    }
    if matches!(arguments.suite, Suite::Bus | Suite::Durable | Suite::Http | Suite::Observed | Suite::Nodes) {
        let mut daemon = cargo();
        command::run(daemon.args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "mainspring",
            "--bin",
            "mainspring",
        ]))?;
    }
    let server = matches!(arguments.suite, Suite::Postgres).then(Server::start).transpose()?;
    let part = match arguments.suite {
        Suite::Durable => Some("--durable"),
        Suite::Observed => Some("--observed"),
        Suite::Nodes => Some("--nodes"),
        _ => None,
    };
    if let Some(part) = part {
        let options: Vec<String> = [vec![part.into()], arguments.options.clone()].concat();
        return run_suite("bus", &options, None);
    }
    let suite = arguments.suite.to_possible_value();
    run_suite(suite.as_ref().map_or("", |suite| suite.get_name()), &arguments.options, server.as_ref())
}

/// The SDKs' own benchmarks, each in its language. All of them run, then the first that failed is
/// told.
fn run_sdk(is_quick: bool) -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--release", "--quiet", "--package", "mainspring", "--bin", "mainspring"]);
    command::run(&mut build)?;
    mcp::build(true)?;
    command::run(mcp::mcp_cargo("build").args(["--release", "--quiet", "--example", "bare_server"]))?;
    // The package of the TypeScript SDK, packed and installed.
    command::run(sdk::test("typescript")?.arg("prepare"))?;
    let target = root().join(target_dir());
    let daemon = target.join("release/mainspring");
    let folder = root().join("sdk");
    let mut python = Command::new("python3");
    python.arg(folder.join("python/bench/bench.py")).arg(&daemon);
    python.env("PYTHONPATH", folder.join("python/src"));
    let mut typescript = Command::new("node");
    typescript.arg(target.join("sdk/typescript/dev/run/bench/run.mjs")).env("MAINSPRING", &daemon);
    let mut bridge = Command::new("python3");
    bridge.arg(folder.join("mcp/bench/bench.py")).arg(&daemon);
    bridge.arg(target.join("mcp/release/examples/bare_server"));
    if is_quick {
        python.arg("300");
        typescript.args(["--count", "3000", "--rounds", "1"]);
        bridge.arg("300");
    }
    let mut outcome = Ok(());
    for (name, suite) in [("python", &mut python), ("typescript", &mut typescript), ("mcp", &mut bridge)] {
        println!("==> {name}");
        // A figure beyond its bound is an exit code.
        let ended = suite.env("BENCH_UNJUDGED", if is_quick { "1" } else { "" });
        outcome = outcome.and(command::run(ended));
    }
    outcome
}
