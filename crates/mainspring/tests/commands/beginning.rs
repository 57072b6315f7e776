//! `new capability`: every skeleton works as it is written.

use crate::fake::{command, stderr, stdout};
use crate::real::Real;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn new_capability(folder: &Path, language: &str) -> String {
    let output = command(&["new", "capability", "hello-there", "--lang", language, "--plain"], folder)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).to_owned()
}

/// `PATH`, with the folder of this program first.
fn path_with_the_program() -> std::ffi::OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_mainspring"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = program.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

/// Types what the command says to type in the capability's folder: to build the program, and to
/// test it.
fn build_and_test(folder: &Path, told: &str) -> Result<(), String> {
    let lines = told.lines().filter(|line| line.trim_start().starts_with("(cd "));
    let mut typed = 0;
    for line in lines {
        typed += 1;
        // Whatever the build needs is there already, since this program was built.
        let line = line.replace("&& cargo", &format!("&& {} --quiet", env!("CARGO")));
        let output = Command::new("sh")
            .args(["-c", &line])
            .current_dir(folder)
            .env_remove("CARGO_TARGET_DIR")
            // How fast it runs is not the question here, and optimising takes most of the time.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            // The test of a guest runs it.
            .env("PATH", path_with_the_program())
            // The runner of tests may be one itself.
            .env_remove("NODE_TEST_CONTEXT")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if !output.status.success() {
            return Err(format!("{line}: {}{}", stdout(&output), stderr(&output)));
        }
    }
    assert!(typed > 0, "{told}");
    Ok(())
}

/// The same as `new capability`, in a sandbox.
fn new_guest(folder: &Path, language: &str) -> String {
    let output =
        command(&["new", "guest", "hello-there", "--lang", language, "--plain"], folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).to_owned()
}

/// Makes the program say something else.
fn spoil(folder: &Path) {
    let capability = folder.join("capabilities/hello-there");
    for name in ["main.py", "main.js", "src/main.ts", "main.go", "main.sh", "main.c", "src/main.rs"] {
        let path = capability.join(name);
        if let Ok(text) = fs::read_to_string(&path) {
            assert!(text.contains("Hello, "));
            fs::write(&path, text.replace("Hello, ", "Bye, ")).unwrap();
        }
    }
}

fn works(language: &str) {
    works_as(language, new_capability);
}

fn works_as(language: &str, new: fn(&Path, &str) -> String) {
    let mut listed = String::new();
    let daemon = Real::start_with("manifests = ['capabilities/*/capability.toml']", |folder| {
        let told = new(folder, language);
        assert!(told.starts_with("wrote capabilities/hello-there\n"), "{told}");
        build_and_test(folder, &told).unwrap();
        listed = told;
    });
    for (name, id) in [("Ada", "plain"), ("a \"b\" \\ é {}:,", "an \"id\" \\ of {odd} kind"), ("", "empty")]
    {
        let data = json!({ "name": name }).to_string();
        let output = daemon.run(&["query", "HelloThere.Greet", &data, "--id", id, "--timeout", "30s"]);
        assert_eq!(output.status.code(), Some(0), "{language}: {}", stderr(&output));
        let reply: Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!(reply, json!({ "text": format!("Hello, {name}!") }), "{language}");
    }
    // What is written with spaces is the same message.
    let reply = daemon.ask_from_python(&[json!({
        "kind": "query", "type": "HelloThere.Greet", "data": { "name": "a: \"b\", {c}" },
        "metadata": { "id": "with spaces", "timestamp": 0, "extra": [{ "id": "another" }] },
    })]);
    assert_eq!(reply["data"], json!({ "text": "Hello, a: \"b\", {c}!" }), "{language}: {reply}");
    // The other type: a command whose event is told to whoever watches.
    let mut watch = daemon.command(&["watch", "--json", "--count", "1", "HelloThere.Met"]);
    let watch = watch.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    while !daemon.ok(&["emit", "HelloThere.Met", "{}", "--correlation", "probe"]).contains("1 client") {}
    drop(watch.wait_with_output().unwrap());
    assert_eq!(
        daemon.ok(&["send", "HelloThere.Meet", "name=Ada", "--timeout", "30s"]).replace(' ', ""),
        "{\"met\":1}\n"
    );
    assert_eq!(
        daemon.ok(&["send", "HelloThere.Meet", "name=Bob", "--timeout", "30s"]).replace(' ', ""),
        "{\"met\":2}\n"
    );
    let described = daemon.ok(&["describe", "HelloThere.Meet"]);
    assert!(described.contains("data of the reply:\n") && described.contains("\"met\""), "{described}");
    let refused = daemon.run(&["query", "HelloThere.Greet", "name:=7"]);
    assert!(stderr(&refused).contains("(422)"), "{}", stderr(&refused));
    let actors = daemon.ok(&["actors"]);
    let row: Vec<&str> =
        actors.lines().find(|row| row.starts_with("hello-there")).unwrap().split_whitespace().collect();
    // Up, and never restarted.
    assert_eq!((row[1], row[row.len() - 1]), ("up", "1"), "{actors}");
    assert!(!listed.contains("manifests"), "the configuration lists it: {listed}");
    spoil(daemon.folder());
    let failed = build_and_test(daemon.folder(), &listed).expect_err("a test that can fail");
    assert!(failed.contains("Bye, Ada!"), "{language}: {failed}");
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
fn a_skeleton_in_typescript_works() {
    // Its compiler comes from the registry of npm.
    let npm = Command::new("npm").args(["view", "typescript", "version"]).output();
    if !npm.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no npm here, or it reaches no registry");
        return;
    }
    works("ts");
}

/// The skeleton of an SDK: its package is there, its tests pass and can fail, and the daemon runs
/// it.
fn works_with_the_sdk(what: &str, language: &str, main: &str) {
    let mut listed = String::new();
    let daemon = Real::start_with("manifests = ['capabilities/*/capability.json']", |folder| {
        let output = command(&["new", what, "hello-there", "--lang", language], folder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        listed = stdout(&output).to_owned();
        build_and_test(folder, &listed).unwrap();
    });
    let greeted = daemon.ok(&["send", "HelloThere.Greet", "name=Ada", "--timeout", "30s"]);
    assert_eq!(greeted.replace(": ", ":"), "{\"text\":\"Hello, Ada!\"}\n");
    let refused = daemon.run(&["query", "HelloThere.Times", "name=Bob", "--timeout", "30s"]);
    assert!(stderr(&refused).contains("never greeted"), "{}", stderr(&refused));
    let described = daemon.ok(&["describe", "HelloThere.Greet"]);
    assert!(
        described.contains("Greets somebody.") && described.contains("data of the reply:"),
        "{described}"
    );
    let folder = daemon.folder().join("capabilities/hello-there");
    if language == "rust" {
        assert_eq!(printed_manifest(&folder, what == "guest"), written_manifest(&folder));
    }
    let path = folder.join(main);
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("Hello, ", "Bye, ")).unwrap();
    let failed = build_and_test(daemon.folder(), &listed).expect_err("a test that can fail");
    assert!(failed.contains("Bye, Ada!"), "{language}: {failed}");
}

/// The manifest that a program in Rust prints of itself, without the program.
fn printed_manifest(folder: &Path, is_guest: bool) -> Value {
    let output = if is_guest {
        let module = "target/wasm32-unknown-unknown/release/hello-there.wasm";
        command(&["run", module, "--", "--manifest"], folder).output().unwrap()
    } else {
        Command::new(folder.join("target/release/hello-there")).arg("--manifest").output().unwrap()
    };
    without_program(stdout(&output))
}

fn written_manifest(folder: &Path) -> Value {
    without_program(&fs::read_to_string(folder.join("capability.json")).unwrap())
}

fn without_program(text: &str) -> Value {
    let mut manifest: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    manifest.as_object_mut().unwrap().remove("program");
    manifest
}

#[test]
fn a_skeleton_in_python_with_the_sdk_works() {
    works_with_the_sdk("capability", "python", "main.py");
}

#[test]
fn a_skeleton_in_javascript_with_the_sdk_works() {
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: there is no node here");
        return;
    }
    works_with_the_sdk("capability", "javascript", "main.mjs");
}

#[test]
fn a_node_that_is_too_old_for_typescript_is_told_before_anything_fails() {
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("node");
    let new = |language: &str, dir: &str| {
        let words = ["new", "capability", "hello", "--lang", language, "--dir", dir];
        let output = command(&words, folder.path()).env("PATH", folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output).to_owned()
    };
    let told = new("typescript", "none");
    assert!(
        told.contains("Next:\n  # it needs Node 22.18 or later, and there is no `node` here: install one"),
        "{told}"
    );
    for (version, language, advice) in [
        (
            "v20.20.2",
            "typescript",
            "  # it needs Node 22.18 or later, and this is v20.20.2: install one, or begin again with --lang javascript\n",
        ),
        ("v20.20.2", "javascript", ""),
        ("v18.1.0", "javascript", "  # it needs Node 20.4 or later, and this is v18.1.0: install one\n"),
        ("v22.18.0", "typescript", ""),
    ] {
        fs::write(&node, format!("#!/bin/sh\necho {version}\n")).unwrap();
        fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let told = new(language, &format!("{version}-{language}"));
        assert!(told.contains(&format!("Next:\n{advice}  (cd ")), "{told}");
    }
}

#[test]
fn a_skeleton_in_typescript_with_the_sdk_works() {
    // Before 22.18 Node does not run TypeScript as it is.
    let version = Command::new("node").arg("--version").output().map(|output| stdout(&output).to_owned());
    let major =
        version.ok().and_then(|text| text.trim_start_matches('v').split('.').next()?.parse::<u32>().ok());
    if major.is_none_or(|major| major < 23) {
        eprintln!("skipped: there is no node here that runs TypeScript");
        return;
    }
    works_with_the_sdk("capability", "typescript", "main.ts");
}

#[test]
fn a_skeleton_in_rust_with_the_sdk_works() {
    works_with_the_sdk("capability", "rust", "src/main.rs");
}

#[test]
fn a_guest_in_rust_with_the_sdk_works() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    if !Path::new(stdout(&sysroot).trim()).join("lib/rustlib/wasm32-unknown-unknown").exists() {
        eprintln!("skipped: there is no standard library for wasm32-unknown-unknown here");
        return;
    }
    works_with_the_sdk("guest", "rust", "src/main.rs");
}

#[test]
fn a_skeleton_in_go_works() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: there is no go here");
        return;
    }
    works("go");
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
fn a_skeleton_of_a_guest_in_c_works() {
    // `cargo xtask test` names a compiler.
    if std::env::var_os("WASI_CC").is_none() {
        eprintln!("skipped: WASI_CC names no compiler of C for WASI");
        return;
    }
    works_as("c", new_guest);
}

#[test]
fn a_skeleton_of_a_guest_in_rust_works() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let has_target = sysroot
        .is_ok_and(|output| Path::new(stdout(&output).trim()).join("lib/rustlib/wasm32-wasip1/lib").is_dir());
    if !has_target {
        eprintln!("skipped: this toolchain does not compile for wasm32-wasip1");
        return;
    }
    works_as("rust", new_guest);
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

#[test]
fn the_line_that_lists_it_is_told_if_the_configuration_does_not_list_it() {
    for (config, words) in [
        (
            "native = ['Memory']\n[log]\nlevel = 'warn'\n",
            "add to mainspring.toml, above its first [table]:\n",
        ),
        ("manifests = []\n[log]\nlevel = 'warn'\n", "let `manifests` list it too:\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mainspring.toml");
        fs::write(&file, config).unwrap();
        let told = new_capability(folder.path(), "shell");
        assert!(told.contains(words), "{told}");
        assert_eq!(fs::read_to_string(&file).unwrap(), config, "nothing is changed silently");
        let check = || {
            let output = command(&["check"], folder.path()).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            stdout(&output).contains("hello-there")
        };
        assert!(!check());
        // Doing what it says is enough.
        let line = told.lines().find(|line| line.trim().starts_with("manifests = ")).unwrap();
        fs::write(&file, format!("{line}\n{}", config.replace("manifests = []\n", ""))).unwrap();
        assert!(check());
    }
}
