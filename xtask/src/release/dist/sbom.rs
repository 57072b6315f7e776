//! A list of everything that the program is made of, as CycloneDX 1.5.

use crate::command::{cargo, root};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A program and what it depends on, without what is only needed to build or test it.
pub(super) fn list(program: &str, manifest: &str, target: &str) -> Result<String> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
        .arg("--manifest-path")
        .arg(root().join(manifest))
        .output()?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let document = document(&metadata, program).with_context(|| format!("there is no package {program}"))?;
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn document(metadata: &Value, program: &str) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> = entries(&metadata["packages"]).collect();
    let nodes: BTreeMap<&str, &Value> = entries(&metadata["resolve"]["nodes"]).collect();
    let (id, root) = packages.iter().find(|(_, package)| package["name"] == program)?;
    let (mut found, mut waiting) = (BTreeSet::new(), vec![*id]);
    while let Some(id) = waiting.pop() {
        if found.insert(id) {
            waiting.extend(needed(nodes.get(id)?));
        }
    }
    let components: Vec<Value> = found
        .iter()
        .filter(|other| *other != id)
        .filter_map(|id| packages.get(id))
        .map(|package| component(package))
        .collect();
    let dependencies: Vec<Value> = found
        .iter()
        .filter_map(|id| Some((packages.get(id)?, nodes.get(id)?)))
        .map(|(package, node)| {
            let on: Vec<String> =
                needed(node).filter_map(|id| packages.get(id)).map(|package| reference(package)).collect();
            json!({ "ref": reference(package), "dependsOn": on })
        })
        .collect();
    let mut main = component(root);
    main["type"] = "application".into();
    Some(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": main }, "components": components, "dependencies": dependencies,
    }))
}

fn entries(list: &Value) -> impl Iterator<Item = (&str, &Value)> {
    list.as_array().into_iter().flatten().filter_map(|entry| Some((entry["id"].as_str()?, entry)))
}

/// What a package needs when it runs: dependencies of no other kind than the usual one.
fn needed(node: &Value) -> impl Iterator<Item = &str> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let usual =
        |kinds: &Value| kinds.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
    dependencies
        .filter(move |dependency| usual(&dependency["dep_kinds"]))
        .filter_map(|dependency| dependency["pkg"].as_str())
}

fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value) -> Value {
    let licence = package["license"].as_str().unwrap_or("NOASSERTION").replace('/', " OR ");
    json!({
        "type": "library", "bom-ref": reference(package), "purl": reference(package),
        "name": package["name"], "version": package["version"], "description": package["description"],
        "licenses": [{ "expression": licence }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_to_run_is_listed_and_what_builds_or_tests_is_not() {
        let package =
            |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let edge = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("program"), package("library"), package("builder"), package("tester")],
            "resolve": { "nodes": [
                { "id": "program", "deps": [edge("library", Value::Null), edge("builder", "build".into()), edge("tester", "dev".into())] },
                { "id": "library", "deps": [] }, { "id": "builder", "deps": [] }, { "id": "tester", "deps": [] },
            ] },
        });
        let document = document(&metadata, "program").unwrap();
        let names: Vec<&str> = document["components"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|found| found["name"].as_str())
            .collect();
        assert_eq!(names, ["library"]);
        assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["dependencies"][1]["dependsOn"], json!(["pkg:cargo/library@1.0.0"]));
    }
}
