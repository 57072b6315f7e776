//! Guests that `cargo xtask guests` built, for tests that run them.

use std::path::PathBuf;

/// The module of a guest that `cargo xtask guests` built; `None`, with a line that says so, where
/// it was not run. Under `cargo xtask test` a missing one is a failure.
pub(crate) fn guest_module(name: &str) -> Option<PathBuf> {
    let told = std::env::var_os("MAINSPRING_GUESTS").map(PathBuf::from);
    let beside = || {
        let this = std::env::current_exe().expect("a running program has a path");
        this.ancestors().nth(3).map(|target| target.join("guests")).unwrap_or_default()
    };
    let path = told.clone().unwrap_or_else(beside).join(format!("{name}.wasm"));
    if path.is_file() {
        return Some(path);
    }
    assert!(told.is_none(), "{} is missing", path.display());
    eprintln!("skipped: run `cargo xtask guests` first");
    None
}
