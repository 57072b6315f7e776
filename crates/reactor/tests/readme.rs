//! What the page about the reactor shows is what the programs print.

use std::path::PathBuf;
use std::process::Command;

/// Examples are built beside the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("the target folder");
    folder.join("examples").join(name)
}

#[test]
fn the_tour_prints_what_the_page_shows() {
    let output = Command::new(example("tour")).output().expect("the example is built with the tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    let page = include_str!("../../../docs/products/reactor.md");
    let shown: String =
        page.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    assert!(shown.contains(&printed), "the page does not show this:\n{printed}");
}
