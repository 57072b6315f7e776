//! `cargo xtask install-c`: the C library where C programs look for it.

use crate::command::{self, cargo, root, target_dir};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

#[derive(clap::Args)]
pub(crate) struct InstallCArguments {
    /// Where to install; `include`, `lib` and `share` are made below it.
    #[arg(long)]
    prefix: PathBuf,
}

/// The name under which programs ask for the shared library at run time.
const SONAME: &str = "libmainspring_reactor.so.0";

pub(crate) fn run(arguments: &InstallCArguments) -> Result<()> {
    let system_libraries = build()?;
    let prefix = std::path::absolute(&arguments.prefix)?;
    let (source, built) = (root().join("crates/reactor-c"), target_dir().join("release"));
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let headers = source.join("include");
    copy(&headers.join("mainspring_reactor.h"), &include.join("mainspring_reactor.h"))?;
    // In a folder of its own, so that it shadows nobody's reactor.h.
    copy(&headers.join("reactor.h"), &include.join("mainspring/reactor.h"))?;
    copy(&built.join("libmainspring_reactor.a"), &lib.join("libmainspring_reactor.a"))?;
    let shared = built.join("libmainspring_reactor.so");
    if shared.exists() {
        copy(&shared, &lib.join(SONAME))?;
        link(SONAME, &lib.join("libmainspring_reactor.so"))?;
    } else {
        // Where everything is linked statically, as with some toolchains for musl.
        println!("no shared library: this toolchain makes none");
    }
    let suppressions = "mainspring_reactor.supp";
    copy(&source.join(suppressions), &prefix.join("share/mainspring").join(suppressions))?;
    write_pkg_config(&source, &prefix, &system_libraries)
}

/// Builds the library. Returns what a static program must be linked with besides, which depends on
/// the system: glibc and musl want different ones, and only the compiler knows.
fn build() -> Result<String> {
    let mut command = cargo();
    command.args(["rustc", "--release", "--package", "mainspring-reactor-c", "--lib"]);
    command.args(["--", "--print", "native-static-libs"]).stderr(Stdio::piped());
    let output = command.output().context("cannot start cargo")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    eprint!("{messages}");
    if !output.status.success() {
        bail!("`{}` failed: {}", command::show(&command), output.status);
    }
    system_libraries(&messages).context("the compiler does not say what the static library needs")
}

/// The libraries that the compiler has announced.
fn system_libraries(messages: &str) -> Option<String> {
    let (_, rest) = messages.split_once("native-static-libs: ")?;
    rest.lines().next().map(|line| line.trim().to_string())
}

/// Puts a file in place, and the folders it needs. A program that has the old one open keeps it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    make_room(to)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    println!("{}", to.display());
    Ok(())
}

fn link(target: &str, link: &Path) -> Result<()> {
    make_room(link)?;
    symlink(target, link).with_context(|| format!("cannot link {}", link.display()))?;
    println!("{} -> {target}", link.display());
    Ok(())
}

fn make_room(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot replace {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn write_pkg_config(source: &Path, prefix: &Path, system_libraries: &str) -> Result<()> {
    let template = fs::read_to_string(source.join("mainspring_reactor.pc.in"))?;
    let text = template
        .replace("@PREFIX@", &prefix.to_string_lossy())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@LIBS_PRIVATE@", system_libraries);
    let path = prefix.join("lib/pkgconfig/mainspring_reactor.pc");
    make_room(&path)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_program_is_linked_with_what_the_compiler_says_and_not_with_glibcs_libraries() {
        let musl =
            "   Compiling x\n\nnote: link against\n\nnote: native-static-libs: -lunwind -lc\n\n  Finished";
        assert_eq!(system_libraries(musl).as_deref(), Some("-lunwind -lc"));
        assert_eq!(system_libraries("  Finished"), None);
    }
}
