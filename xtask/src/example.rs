//! `cargo xtask example`: starts an application of `examples/` from nothing.

use crate::command::{cargo, root, run, show};
use crate::guests;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::process::CommandExt;

/// Each example, with the guests that it needs beside their manifests.
const EXAMPLES: &[(&str, &[&str])] = &[("shop", &["orders"])];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which one: shop.
    name: String,
}

pub(crate) fn run_example(arguments: &Arguments) -> Result<()> {
    let Some((name, needed)) = EXAMPLES.iter().find(|(name, _)| *name == arguments.name) else {
        let names: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        bail!("there is no example `{}`; there are {}", arguments.name, names.join(", "));
    };
    let folder = root().join("examples").join(name);
    guests::ensure()?;
    for guest in *needed {
        let module = guests::folder().join(format!("{guest}.wasm"));
        let place = folder.join("capabilities").join(guest).join(format!("{guest}.wasm"));
        fs::copy(&module, &place)
            .with_context(|| format!("cannot copy {} to {}", module.display(), place.display()))?;
    }
    run(cargo().args(["build", "--release", "--package", "mainspring"]))?;
    // The daemon takes this process's place, so that signals reach it.
    let program = crate::command::target_dir().join("release/mainspring");
    let mut daemon = std::process::Command::new(root().join(program));
    daemon.arg("up").current_dir(&folder);
    let shown = show(&daemon);
    println!("in {}: {shown}", folder.display());
    Err(daemon.exec()).with_context(|| format!("cannot start `{shown}`"))
}
