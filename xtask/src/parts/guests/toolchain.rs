//! Which Rust toolchain compiles for WebAssembly: rustup's, or Debian's second one.
//!
//! Some machines cannot reach rustup's servers but can reach Debian's, whose `rustc-web` comes with
//! the source of its standard library and no compiled one. It then compiles that library first
//! (`-Zbuild-std`, some 45 s once per target).

use crate::command::{cargo, exists, root};
use crate::machine::packages::install;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What was asked for on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// The installed target; else rustup's; else Debian's.
    Auto,
    /// The toolchain that runs this command, with the target that rustup adds.
    Rustup,
    /// Debian's `rustc-web`, installed by apt-get if need be.
    Debian,
}

/// A toolchain that can build for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Toolchain {
    /// The one that runs this command.
    Current,
    /// Debian's, with a linker from elsewhere.
    Debian { linker: PathBuf },
}

const DEBIAN_BIN: &str = "/usr/bin";
const DEBIAN_LIBRARY_SOURCE: &str = "/usr/lib/rustlib/src/rust/library";
const DEBIAN_WASI_LIBC: &str = "/usr/lib/wasm32-wasi";
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "wasi-libc"];

/// Finds, or installs, what builds for `target`.
pub(super) fn find(target: &str, choice: Choice) -> Result<Toolchain> {
    if choice != Choice::Debian && can_be_had(target) {
        return Ok(Toolchain::Current);
    }
    if choice != Choice::Rustup
        && let Some(toolchain) = debian()
    {
        return Ok(toolchain);
    }
    bail!(
        "nothing here compiles Rust for {target}: run `rustup target add {target}`, or `apt-get install {}`",
        DEBIAN_PACKAGES.join(" ")
    )
}

/// Whether the toolchain that runs this command has, or gets, a target.
pub(super) fn can_be_had(target: &str) -> bool {
    has_target(target) || add_target(target)
}

fn has_target(target: &str) -> bool {
    sysroot().is_some_and(|sysroot| sysroot.join("lib/rustlib").join(target).join("lib").is_dir())
}

fn add_target(target: &str) -> bool {
    if !exists("rustup") {
        return false;
    }
    println!("guests: adding the target {target} by rustup");
    let status = Command::new("rustup").args(["target", "add", target]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()) && has_target(target)
}

fn debian() -> Option<Toolchain> {
    let there = || Path::new(DEBIAN_BIN).join("cargo").is_file() && Path::new(DEBIAN_LIBRARY_SOURCE).is_dir();
    if !there() {
        println!("guests: installing {}", DEBIAN_PACKAGES.join(" "));
        install(&DEBIAN_PACKAGES);
    }
    let linker = wasm_linker()?;
    there().then_some(Toolchain::Debian { linker })
}

/// The linker that comes with rustup's toolchain, or LLVM's own.
pub(super) fn wasm_linker() -> Option<PathBuf> {
    let bundled = sysroot().map(|sysroot| sysroot.join("lib/rustlib").join(host()).join("bin/rust-lld"));
    bundled.filter(|path| path.is_file()).or_else(|| exists("wasm-ld").then(|| PathBuf::from("wasm-ld")))
}

fn sysroot() -> Option<PathBuf> {
    rustc(&["--print", "sysroot"]).map(|text| PathBuf::from(text.trim()))
}

fn host() -> String {
    let version = rustc(&["-vV"]).unwrap_or_default();
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_string()
}

fn rustc(arguments: &[&str]) -> Option<String> {
    let output = Command::new("rustc").args(arguments).current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Toolchain {
    /// What it is called in a line of progress.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Toolchain::Current => "the current toolchain",
            Toolchain::Debian { .. } => "Debian's toolchain",
        }
    }

    /// `cargo build --release --target <target>`, in an environment that nothing of the outer cargo
    /// leaks into. Objects are put into `folder`.
    pub(super) fn cargo_build(&self, target: &str, folder: &Path) -> Result<Command> {
        let mut command = match self {
            Toolchain::Current => cargo(),
            Toolchain::Debian { .. } => Command::new(Path::new(DEBIAN_BIN).join("cargo")),
        };
        clean(&mut command, self != &Toolchain::Current);
        command.args(["build", "--release", "--target", target]);
        if let Toolchain::Debian { linker } = self {
            command.arg("-Zbuild-std=std,panic_abort").env("RUSTC_BOOTSTRAP", "1");
            command.env("PATH", path_with_debian_first());
            let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
            command.env(variable, linker);
            if target.contains("wasi") {
                let no_threads = no_threads(folder)?;
                let flags = format!("-L {DEBIAN_WASI_LIBC} -C link-arg={}", no_threads.display());
                command.env("RUSTFLAGS", flags);
            }
        }
        Ok(command)
    }
}

/// Debian's C library predates threads; this stands in for what Rust's library wants of them.
fn no_threads(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let object = folder.join("no_threads.o");
    super::c::object(&root().join("xtask/src/parts/guests/no_threads.c"), &object)?;
    Ok(object)
}

fn path_with_debian_first() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from(DEBIAN_BIN)).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}

/// Removes what the cargo around us has set for the package it runs; another toolchain must not see
/// which one that was either.
fn clean(command: &mut Command, other_toolchain: bool) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if is_of_the_outer_package(&name) || (other_toolchain && is_of_the_outer_toolchain(&name)) {
            command.env_remove(&name);
        }
    }
}

fn is_of_the_outer_package(name: &str) -> bool {
    let prefixes = ["CARGO_PKG_", "CARGO_BIN_", "CARGO_MANIFEST_", "CARGO_FEATURE_", "CARGO_CFG_"];
    let names = [
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_TARGET_DIR",
        "CARGO_TARGET_TMPDIR",
        "CARGO_BUILD_TARGET",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
        "OUT_DIR",
    ];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || names.contains(&name)
}

fn is_of_the_outer_toolchain(name: &str) -> bool {
    name.starts_with("RUSTUP_")
        || name.starts_with("RUSTC")
        || ["CARGO", "RUSTDOC", "LD_LIBRARY_PATH", "RUST_RECURSION_COUNT"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_cargo_does_not_leak_but_its_registry_settings_stay() {
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "RUSTFLAGS", "CARGO_TARGET_DIR"] {
            assert!(is_of_the_outer_package(name), "{name}");
        }
        for name in ["RUSTUP_TOOLCHAIN", "RUSTC", "CARGO", "LD_LIBRARY_PATH"] {
            assert!(is_of_the_outer_toolchain(name), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_HTTP_PROXY", "CARGO_REGISTRIES_CRATES_IO_PROTOCOL", "PATH"] {
            assert!(!is_of_the_outer_package(name) && !is_of_the_outer_toolchain(name), "{name}");
        }
    }
}
