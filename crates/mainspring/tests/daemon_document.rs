//! `docs/daemon-semantics.md` names tests that are there.

use std::path::{Path, PathBuf};

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of every source file below a folder.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push_str(&std::fs::read_to_string(&path).expect("a source file"));
        }
    }
}

#[test]
fn every_test_that_the_document_names_is_there() {
    let document =
        std::fs::read_to_string(package().join("../../docs/daemon-semantics.md")).expect("the document");
    let mut text = String::new();
    sources(&package().join("src"), &mut text);
    sources(&package().join("tests"), &mut text);
    let mut named = 0;
    for quoted in document.split('`').skip(1).step_by(2) {
        // A name of a test is a sentence; everything else in quotes is shorter or has other characters.
        let is_name = quoted.split('_').count() > 3
            && quoted.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_name {
            named += 1;
            assert!(text.contains(&format!("fn {quoted}()")), "there is no test {quoted}");
        }
    }
    assert!(named > 50, "only {named} tests are named");
}

#[test]
fn every_test_of_the_daemon_is_named_in_the_document() {
    let document =
        std::fs::read_to_string(package().join("../../docs/daemon-semantics.md")).expect("the document");
    for file in [
        "batch",
        "boot",
        "clients",
        "floors",
        "guests",
        "orphans",
        "processes",
        "reload",
        "secrets",
        "service",
        "shutdown",
        "strangers",
        "tcp",
        "unread",
    ] {
        let text =
            std::fs::read_to_string(package().join(format!("tests/daemon/{file}.rs"))).expect("a test file");
        for test in text.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split('(').next()) {
            assert!(document.contains(&format!("`{test}`")), "{test} proves no clause of the document");
        }
    }
}
