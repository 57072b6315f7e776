//! `cargo xtask features`: each feature of each crate compiles alone, and so does each crate without
//! any.

use crate::command::{cargo, run};
use anyhow::Result;

/// The crates, and the sets of features that somebody may choose.
const LIGHT: [(&str, &[&str]); 5] = [
    ("mainspring-message", &["", "envelope"]),
    ("mainspring-guest", &["", "capability", "tokio", "futures-io"]),
    ("mainspring-journal", &["", "simulation"]),
    ("mainspring-client", &["", "tokio"]),
    // The bus alone: without guests, and so without wasmtime.
    ("mainspring", &["", "uplink"]),
];
/// Those that need wasmtime, each time with other features of it: minutes each.
const HEAVY: [(&str, &[&str]); 1] = [("mainspring-host", &["", "wasi"])];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also the crates that need wasmtime, which is compiled again for each set.
    #[arg(long)]
    pub(crate) all: bool,
}

pub(crate) fn run_features(arguments: &Arguments) -> Result<()> {
    let heavy: &[_] = if arguments.all { &HEAVY } else { &[] };
    for (package, sets) in LIGHT.iter().chain(heavy) {
        for set in *sets {
            let mut command = cargo();
            command.args(["check", "--quiet", "--package", package]);
            run(command.args(["--no-default-features", "--features", set]))?;
        }
    }
    Ok(())
}
