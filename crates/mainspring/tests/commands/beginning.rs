//! `new capability`: every skeleton works as it is written.

use crate::fake::{command, stderr, stdout};
use crate::real::Real;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

fn new_capability(folder: &Path, language: &str) -> String {
    let output = command(&["new", "capability", "hello-there", "--lang", language], folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).to_owned()
}

/// What the command says to type, in the capability's folder.
fn build(folder: &Path, told: &str) {
    let Some(line) = told.lines().find(|line| line.trim_start().starts_with("(cd ")) else { return };
    // Whatever the build needs is there already, since this program was built.
    let line = line.replace("cargo build", &format!("{} build --quiet", env!("CARGO")));
    let built = Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(built.status.success(), "{line}: {}", String::from_utf8_lossy(&built.stderr));
}

fn works(language: &str) {
    let daemon = Real::start_with("manifests = ['capabilities/*/capability.toml']", |folder| {
        let told = new_capability(folder, language);
        assert!(told.starts_with("wrote capabilities/hello-there\n"), "{told}");
        build(folder, &told);
    });
    for (name, id) in [("Ada", "plain"), ("a \"b\" \\ é {}:,", "an \"id\" \\ of {odd} kind"), ("", "empty")]
    {
        let data = json!({ "name": name }).to_string();
        let output = daemon.run(&["query", "HelloThere.Greet", &data, "--id", id, "--timeout", "30s"]);
        assert_eq!(output.status.code(), Some(0), "{language}: {}", stderr(&output));
        let reply: Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!(reply, json!({ "text": format!("Hello, {name}!") }), "{language}");
    }
    let actors = daemon.ok(&["actors"]);
    let row: Vec<&str> =
        actors.lines().find(|row| row.starts_with("hello-there")).unwrap().split_whitespace().collect();
    // Up, and never restarted.
    assert_eq!((row[1], row[row.len() - 1]), ("up", "1"), "{actors}");
}

#[test]
fn a_skeleton_in_python_works() {
    works("python");
}

#[test]
fn a_skeleton_in_javascript_works() {
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: there is no node here");
        return;
    }
    works("javascript");
}

#[test]
fn a_skeleton_in_shell_works() {
    works("shell");
}

#[test]
fn a_skeleton_in_c_works() {
    works("c");
}

#[test]
fn a_skeleton_in_rust_works() {
    works("rust");
}

#[test]
fn a_configuration_is_written_if_there_is_none_and_nothing_is_ever_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let told = new_capability(folder.path(), "shell");
    assert!(told.contains("wrote mainspring.toml\n"), "{told}");
    let checked = command(&["check", "--quiet"], folder.path()).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    let again =
        command(&["new", "capability", "hello-there", "--lang", "c"], folder.path()).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("is there already"), "{}", stderr(&again));
    let bad = command(&["new", "capability", "../x", "--lang", "c"], folder.path()).output().unwrap();
    assert_eq!(bad.status.code(), Some(2));
}
