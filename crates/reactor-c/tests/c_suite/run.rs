//! Running programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of this crate.
pub(crate) fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder for a test's own files.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the test's files");
    folder
}

/// Runs a command to its end.
pub(crate) fn output(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("cannot run {}: {error}", command.get_program().display()),
    }
}

/// Runs a command that must succeed, and returns what it printed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = output(command);
    let (printed, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}{complaints}", output.status);
    printed.into_owned()
}

/// Puts a program under valgrind if the test command asks for it.
pub(crate) fn valgrind() -> Option<Command> {
    if !std::env::var("MAINSPRING_VALGRIND").is_ok_and(|value| value == "1") {
        return None;
    }
    let there =
        Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(there, "MAINSPRING_VALGRIND is 1 but valgrind is missing: install the package valgrind");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=1", "--leak-check=full"]);
    command.arg("--errors-for-leak-kinds=definite,indirect");
    command.arg(format!("--suppressions={}", crate_folder().join("mainspring_reactor.supp").display()));
    Some(command)
}
