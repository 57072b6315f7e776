//! What the README shows is what the programs print.

use std::path::PathBuf;
use std::process::Command;

/// Examples are built beside the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("the target folder");
    folder.join("examples").join(name)
}

#[test]
fn the_tour_prints_what_the_readme_shows() {
    let output = Command::new(example("tour")).output().expect("the example is built with the tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    let readme = include_str!("../../../README.md");
    let shown: String =
        readme.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    assert!(shown.contains(&printed), "the README does not show this:\n{printed}");
}
