//! Guests written in Rust: the workspace `guests/rust`.
//!
//! A package whose name begins with `wasi-` is built for `wasm32-wasip1`, with `wasip2-` for
//! `wasm32-wasip2` (its result is a component), and every other one for `wasm32-unknown-unknown`.

use super::toolchain::{self, Choice};
use crate::command::{root, run};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const BARE: &str = "wasm32-unknown-unknown";
const WASI: &str = "wasm32-wasip1";
const WASI_2: &str = "wasm32-wasip2";
/// What the name of a package begins with, unless it is for the bare target.
const PREFIXES: [(&str, &str); 2] = [("wasi-", WASI), ("wasip2-", WASI_2)];

pub(super) fn build(folder: &Path, choice: Choice) -> Result<()> {
    let packages = packages()?;
    for target in [BARE, WASI, WASI_2] {
        let names: Vec<&String> = packages.iter().filter(|name| target_of(name) == target).collect();
        if names.is_empty() {
            continue;
        }
        // Debian has no library for it, so that it cannot be had everywhere; the tests that need it
        // say that they are skipped.
        if target == WASI_2 && !toolchain::can_be_had(target) {
            println!("guests: without {}: rustup cannot add {target} here", join(&names));
            continue;
        }
        build_for(target, &names, folder, choice)?;
    }
    Ok(())
}

fn target_of(package: &str) -> &'static str {
    let special = PREFIXES.into_iter().find(|(prefix, _)| package.starts_with(prefix));
    special.map_or(BARE, |(_, target)| target)
}

fn join(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
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
    let choice = if target == WASI_2 { Choice::Rustup } else { choice };
    let toolchain = toolchain::find(target, choice)?;
    println!("guests: {} in Rust for {target}, with {}", names.len(), toolchain.name());
    // A folder for each toolchain: what one compiled is of no use to the other.
    let kind = if toolchain == toolchain::Toolchain::Current { "current" } else { "debian" };
    let build_folder = super::build_folder().join(kind);
    let mut command = toolchain.cargo_build(target, &build_folder)?;
    command.arg("--manifest-path").arg(root().join("guests/rust/Cargo.toml"));
    command.arg("--target-dir").arg(&build_folder).current_dir(root());
    for name in names {
        command.args(["--package", name]);
    }
    run(&mut command)?;
    for name in names {
        let module = build_folder.join(target).join("release").join(format!("{name}.wasm"));
        let kind = if target == WASI_2 { "component.wasm" } else { "wasm" };
        fs::copy(&module, folder.join(format!("{name}.{kind}")))
            .with_context(|| format!("the build left no {}", module.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_built_for_what_its_name_says() {
        for (name, target) in [("echo", BARE), ("wasi-hello", WASI), ("wasip2-net", WASI_2)] {
            assert_eq!(target_of(name), target);
        }
    }
}
