//! `cargo xtask package`: every crate that is published, as it would be uploaded.
//!
//! Cargo says what it leaves out only when somebody builds the package. So each must have what a
//! reader of the registry looks for, and its licences with it; then all are packed, and those that
//! build in seconds are built from what was packed. `--verify` builds the others too.

use crate::command::{cargo, root, run};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;

/// Crates whose packages take long to build: what they need is compiled again, wasmtime for two of
/// them.
const HEAVY: [&str; 5] =
    ["mainspring", "mainspring-host", "mainspring-kernel", "mainspring-http", "mainspring-uplink"];
/// What must be beside each manifest.
const FILES: [&str; 3] = ["LICENSE-MIT", "LICENSE-APACHE", "README.md"];
/// The keys of a manifest that the registry shows, and finds a crate by.
const KEYS: [&str; 4] = ["description", "license", "documentation", "readme"];
const LISTS: [&str; 2] = ["keywords", "categories"];

#[derive(clap::Args)]
pub(crate) struct PackageArguments {
    /// Build every package from what was packed, not only the small ones.
    #[arg(long)]
    pub(crate) verify: bool,
}

pub(crate) fn run_package(arguments: &PackageArguments) -> Result<()> {
    let published = published()?;
    let faults: Vec<String> = published.iter().flat_map(faults).collect();
    if !faults.is_empty() {
        bail!("{} faults in what is published:\n{}", faults.len(), faults.join("\n"));
    }
    let names: Vec<&str> = published.iter().map(|package| text(package, "name")).collect();
    let is_built = |name: &&str| arguments.verify || !HEAVY.contains(name);
    let (built, packed): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(is_built);
    pack(&built, &[])?;
    // Packed together with what they depend on: the registry does not have those yet.
    if !packed.is_empty() {
        pack(&names, &["--no-verify"])?;
    }
    Ok(())
}

fn pack(names: &[&str], options: &[&str]) -> Result<()> {
    let mut command = cargo();
    // Whoever runs the tests has not committed yet.
    command.args(["package", "--quiet", "--allow-dirty"]).args(options);
    names.iter().for_each(|name| {
        command.args(["--package", name]);
    });
    run(&mut command)
}

/// The packages of the workspace that may be published, as `cargo metadata` tells of them.
fn published() -> Result<Vec<Value>> {
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array_mut().map(std::mem::take).unwrap_or_default();
    // `publish = false` is an empty list of registries.
    Ok(packages.into_iter().filter(|package| package["publish"].is_null()).collect())
}

/// The names of those that are libraries.
pub(crate) fn libraries() -> Result<Vec<String>> {
    let is_library = |package: &Value| {
        let targets = package["targets"].as_array().into_iter().flatten();
        targets.flat_map(|target| target["kind"].as_array().into_iter().flatten()).any(|kind| kind == "lib")
    };
    let libraries = published()?.into_iter().filter(is_library);
    Ok(libraries.map(|package| text(&package, "name").to_owned()).collect())
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// What a package lacks.
fn faults(package: &Value) -> Vec<String> {
    let (name, manifest) = (text(package, "name"), Path::new(text(package, "manifest_path")));
    let shown = manifest.strip_prefix(root()).unwrap_or(manifest).display();
    let keys = KEYS.into_iter().filter(|key| text(package, key).is_empty());
    let lists = LISTS.into_iter().filter(|key| package[key].as_array().is_none_or(Vec::is_empty));
    let missing_keys = keys.chain(lists).map(|key| format!("{shown}: {name} has no `{key}`"));
    let files = FILES.into_iter().filter(|file| !manifest.with_file_name(file).is_file());
    missing_keys.chain(files.map(|file| format!("{shown}: there is no {file} beside it"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_a_key_or_a_licence_is_told_what_it_lacks() {
        let package = serde_json::json!({
            "name": "some", "manifest_path": "/nowhere/Cargo.toml", "description": "Some.", "license": "MIT",
            "documentation": null, "readme": "README.md", "keywords": ["one"], "categories": [],
        });
        let expected = [
            "/nowhere/Cargo.toml: some has no `documentation`",
            "/nowhere/Cargo.toml: some has no `categories`",
            "/nowhere/Cargo.toml: there is no LICENSE-MIT beside it",
            "/nowhere/Cargo.toml: there is no LICENSE-APACHE beside it",
            "/nowhere/Cargo.toml: there is no README.md beside it",
        ];
        assert_eq!(faults(&package), expected);
    }

    #[test]
    fn what_is_not_for_the_registry_is_not_among_what_is_published() {
        let names: Vec<String> =
            published().unwrap().iter().map(|found| text(found, "name").into()).collect();
        assert!(names.contains(&"mainspring-reactor".to_owned()), "{names:?}");
        assert!(!names.contains(&"xtask".to_owned()), "{names:?}");
        let libraries = libraries().unwrap();
        assert!(libraries.contains(&"mainspring-reactor".to_owned()), "{libraries:?}");
    }

    #[test]
    fn packages_outside_of_the_workspace_have_its_version_too() {
        let version = env!("CARGO_PKG_VERSION");
        let files = ["crates/mcp/Cargo.toml", "sdk/python/pyproject.toml", "sdk/typescript/package.json"];
        for file in files {
            let text = std::fs::read_to_string(root().join(file)).unwrap();
            let line =
                text.lines().find(|line| line.trim_start().trim_start_matches('"').starts_with("version"));
            assert!(line.is_some_and(|line| line.contains(&format!("\"{version}\""))), "{file}: {line:?}");
        }
    }

    #[test]
    fn the_changelog_tells_of_this_version() {
        let text = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
        let heading = format!("\n## {} (", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&heading), "there is no heading {heading:?}");
    }
}
