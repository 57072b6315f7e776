//! Guests written in Rust: the workspace `guests/rust`.
//!
//! A package whose name begins with `wasi-` is built for `wasm32-wasip1`, every other one for `wasm32-unknown-unknown`.

use super::toolchain::{self, Choice};
use crate::command::{root, run};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const BARE: &str = "wasm32-unknown-unknown";
const WASI: &str = "wasm32-wasip1";
const WASI_PREFIX: &str = "wasi-";

pub(super) fn build(folder: &Path, choice: Choice) -> Result<()> {
    let packages = packages()?;
    let (wasi, bare): (Vec<_>, Vec<_>) = packages.iter().partition(|name| name.starts_with(WASI_PREFIX));
    for (target, names) in [(BARE, bare), (WASI, wasi)] {
        if !names.is_empty() {
            build_for(target, &names, folder, choice)?;
        }
    }
    Ok(())
}

fn packages() -> Result<Vec<String>> {
    let workspace = root().join("guests/rust");
    let mut names = Vec::new();
    for entry in fs::read_dir(&workspace).with_context(|| format!("cannot read {}", workspace.display()))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn build_for(target: &str, names: &[&String], folder: &Path, choice: Choice) -> Result<()> {
    let toolchain = toolchain::find(target, choice)?;
    println!("guests: {} in Rust for {target}, with {}", names.len(), toolchain.name());
    // A folder for each toolchain: what one compiled is of no use to the other.
    let kind = if toolchain == toolchain::Toolchain::Current { "current" } else { "debian" };
    let build_folder = super::build_folder().join(kind);
    let mut command = toolchain.cargo_build(target);
    command.arg("--manifest-path").arg(root().join("guests/rust/Cargo.toml"));
    command.arg("--target-dir").arg(&build_folder).current_dir(root());
    for name in names {
        command.args(["--package", name]);
    }
    run(&mut command)?;
    for name in names {
        let module = build_folder.join(target).join("release").join(format!("{name}.wasm"));
        fs::copy(&module, folder.join(format!("{name}.wasm")))
            .with_context(|| format!("the build left no {}", module.display()))?;
    }
    Ok(())
}
