//! `cargo xtask guests`: builds every guest below `guests/` into `target/guests/*.wasm`.
//!
//! What was built is kept with a fingerprint of every file that it came from, so that a second run
//! costs a few milliseconds and needs no toolchain at all.

mod c;
mod component;
mod fingerprint;
mod rust;
mod toolchain;

use crate::command::{root, target_dir};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use toolchain::Choice;

/// The file that says what the modules beside it were built from.
const FINGERPRINT_FILE: &str = "fingerprint";

#[derive(clap::Args)]
pub(crate) struct GuestsArguments {
    /// Build even if nothing changed.
    #[arg(long)]
    force: bool,
    /// Which Rust toolchain to use.
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    toolchain: Choice,
}

pub(crate) fn run(arguments: &GuestsArguments) -> Result<()> {
    build(arguments.force, arguments.toolchain)
}

/// Builds what changed, with whichever toolchain there is.
pub(crate) fn ensure() -> Result<()> {
    build(false, Choice::Auto)
}

/// Where the modules are, as a full path.
pub(crate) fn folder() -> PathBuf {
    root().join(target_dir()).join("guests")
}

/// Where what they are made of is.
fn build_folder() -> PathBuf {
    root().join(target_dir()).join("guests-build")
}

fn build(force: bool, choice: Choice) -> Result<()> {
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let fingerprint = fingerprint::of_sources()?;
    let kept = folder.join(FINGERPRINT_FILE);
    if !force && fs::read_to_string(&kept).is_ok_and(|old| old == fingerprint) {
        println!("guests: up to date in {}", folder.display());
        return Ok(());
    }
    // Modules of guests that are gone must not linger, and an interrupted build must not look
    // finished.
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.is_file() {
            fs::remove_file(&path)?;
        }
    }
    rust::build(&folder, choice)?;
    c::build(&folder)?;
    component::build(&folder)?;
    fs::write(&kept, fingerprint)?;
    report(&folder)
}

fn report(folder: &std::path::Path) -> Result<()> {
    let mut modules: Vec<(String, u64)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".wasm") {
            modules.push((name, entry.metadata()?.len()));
        }
    }
    modules.sort();
    println!("guests: {} modules in {}", modules.len(), folder.display());
    for (name, bytes) in modules {
        println!("  {name:<24} {:>7.1} kB", bytes as f64 / 1000.0);
    }
    Ok(())
}
