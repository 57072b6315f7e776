//! `cargo xtask`: the project's own commands, one file each.
//!
//! - `test`: every check and test.
//! - `documents`: what documents promise, checked.
//! - `suites`, `parts`, `release`: further commands.
//! - `machine`: what they need; `command`: how they start programs.

mod command;
mod documents;
mod machine;
mod parts;
mod release;
mod suites;
mod test;

use clap::{Parser, Subcommand};
use machine::{nats, postgres};
use parts::{example, guests, install_c, mcp};
use release::{book, deny, dist, package, semver};
use std::process::ExitCode;
use suites::{bench, console, features, fuzz, http, kills, sdk, simulate, soak, targets};

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, max_term_width = 110)]
struct MainArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Set up what the tests need, then run every check and test; ends with a line that counts
    /// them.
    Test(test::TestArguments),
    /// Check the documents: clauses of the contracts against tests, links, and the width of prose.
    ///
    /// Example: cargo xtask documents --wrap
    Documents(documents::DocumentsArguments),
    /// Make the documents into a book (target/book), and check every link of it.
    Book,
    /// Check licences, versions and sources of the dependencies against deny.toml.
    Deny,
    /// Make what is passed on: a static binary, a Debian package, an archive, checksums
    /// (target/dist).
    ///
    /// Example: cargo xtask dist --test
    Dist(dist::DistArguments),
    /// Compile each feature of the crates alone.
    ///
    /// Example: cargo xtask features --all
    Features(features::FeaturesArguments),
    /// Fuzz the readers of bytes that a stranger reaches, guided by coverage.
    ///
    /// Example: cargo xtask fuzz envelope zcl --minutes 5
    Fuzz(fuzz::FuzzArguments),
    /// Pack every crate that is published, as it would be uploaded, and build from what was packed.
    ///
    /// Example: cargo xtask package --verify
    Package(package::PackageArguments),
    /// Compare what the crates make public with the last release: does the version fit?
    ///
    /// Example: cargo xtask semver --baseline v0.1.0
    Semver(semver::SemverArguments),
    /// Compile what is for every Unix for other systems than this one.
    Targets,
    /// Run a benchmark suite against its peers.
    ///
    /// Example: cargo xtask bench reactor --quick --json target/reactor.json
    Bench(bench::BenchArguments),
    /// Run the kernel's simulator: whole days of traffic with faults, in virtual time, from seeds.
    ///
    /// Example: cargo xtask simulate --seeds 1000
    Simulate(simulate::SimulateArguments),
    /// Kill the program at random under load, again and again, and account for every command from
    /// outside.
    ///
    /// Example: cargo xtask kills --rounds 200
    Kills(kills::KillsArguments),
    /// Run the whole daemon for hours under mixed load and random faults, with an account of every
    /// request.
    ///
    /// Example: cargo xtask soak --hours 2
    Soak(soak::SoakArguments),
    /// Build the example and test guests into target/guests, installing a WebAssembly toolchain if
    /// need be.
    Guests(guests::GuestsArguments),
    /// Run a command with a private PostgreSQL, whose address is in MAINSPRING_POSTGRES.
    ///
    /// Example: cargo xtask postgres cargo test --workspace --test postgres
    Postgres(postgres::PostgresArguments),
    /// Install the nats-server that the tests of several nodes use, and say where it is.
    NatsServer,
    /// Build what an application of examples/ needs, and start it.
    ///
    /// Example: cargo xtask example shop
    Example(example::ExampleArguments),
    /// Build and test the SDKs against the daemon that is built here.
    ///
    /// Example: cargo xtask sdk typescript
    Sdk(sdk::SdkArguments),
    /// Build `mainspring-mcp`, which `mainspring mcp` starts, and put it beside the program.
    ///
    /// Example: cargo xtask mcp --release
    Mcp(mcp::McpArguments),
    /// Test the console in a browser, and prove that its built assets come from the sources.
    ///
    /// Example: cargo xtask console --build
    Console(console::ConsoleArguments),
    /// Try the HTTP listener with what others made: validators, a fuzzer, Prometheus, hostile
    /// clients.
    ///
    /// Example: cargo xtask http hostile
    Http(http::HttpArguments),
    /// Build the C library and install it with its header and pkg-config file.
    ///
    /// Example: cargo xtask install-c --prefix /usr/local
    InstallC(install_c::InstallCArguments),
}

fn main() -> ExitCode {
    let result = match MainArguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Documents(arguments) => documents::run(&arguments),
        Command::Book => book::make(),
        Command::Deny => deny::check(),
        Command::Dist(arguments) => dist::run_dist(&arguments),
        Command::Features(arguments) => features::run_features(&arguments),
        Command::Fuzz(arguments) => fuzz::run_fuzz(&arguments),
        Command::Package(arguments) => package::run_package(&arguments),
        Command::Semver(arguments) => semver::run_semver(&arguments),
        Command::Targets => targets::check(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Kills(arguments) => kills::run(&arguments),
        Command::Soak(arguments) => soak::run_soak(&arguments),
        Command::Guests(arguments) => guests::run(&arguments),
        Command::NatsServer => nats::run(),
        Command::Postgres(arguments) => postgres::run(&arguments),
        Command::Example(arguments) => example::run_example(&arguments),
        Command::Sdk(arguments) => sdk::run_sdks(&arguments),
        Command::Mcp(arguments) => mcp::run_mcp(&arguments),
        Command::Console(arguments) => console::run_console(&arguments),
        Command::Http(arguments) => http::run_http(&arguments),
        Command::InstallC(arguments) => install_c::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    /// What follows `cargo xtask` in a document, up to a comment, a pipe or the end of its code.
    fn shown(page: &str) -> Vec<Vec<String>> {
        let commands = page.split("cargo xtask ").skip(1);
        let ends = |letter: char| matches!(letter, '`' | '\n' | '#' | '|' | '&' | ')' | '"' | ';');
        let lines = commands.filter_map(|rest| rest.split(ends).next());
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn every_command_of_the_documents_is_there() {
        let root = command::root();
        let mut tried = 0;
        for page in documents::files(&root, "md").unwrap() {
            let text = std::fs::read_to_string(root.join(&page)).unwrap();
            for words in shown(&text).into_iter().filter(|words| {
                words.first().is_some_and(|word| {
                    word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
                })
            }) {
                tried += 1;
                let line = std::iter::once("cargo xtask".to_owned()).chain(words.clone());
                match MainArguments::try_parse_from(line).map_err(|error| error.kind()) {
                    Ok(_)
                    | Err(
                        ErrorKind::DisplayHelp
                        | ErrorKind::MissingRequiredArgument
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                    ) => {}
                    Err(kind) => panic!("{}: `cargo xtask {}`: {kind:?}", page.display(), words.join(" ")),
                }
            }
        }
        assert!(tried > 50, "{tried}");
    }
}
