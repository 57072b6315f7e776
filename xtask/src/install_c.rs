//! `cargo xtask install-c`: the C library where C programs look for it.

use crate::command::{self, cargo, root, target_dir};
use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to install; `include`, `lib` and `share` are made below it.
    #[arg(long)]
    prefix: PathBuf,
}

/// The name under which programs ask for the shared library at run time.
const SONAME: &str = "libmainspring_reactor.so.0";

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    command::run(cargo().args(["build", "--release", "--package", "mainspring-reactor-c"]))?;
    let prefix = std::path::absolute(&arguments.prefix)?;
    let (source, built) = (root().join("crates/reactor-c"), target_dir().join("release"));
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let headers = source.join("include");
    copy(&headers.join("mainspring_reactor.h"), &include.join("mainspring_reactor.h"))?;
    // In a folder of its own, so that it shadows nobody's reactor.h.
    copy(&headers.join("reactor.h"), &include.join("mainspring/reactor.h"))?;
    copy(&built.join("libmainspring_reactor.a"), &lib.join("libmainspring_reactor.a"))?;
    copy(&built.join("libmainspring_reactor.so"), &lib.join(SONAME))?;
    link(SONAME, &lib.join("libmainspring_reactor.so"))?;
    let suppressions = "mainspring_reactor.supp";
    copy(&source.join(suppressions), &prefix.join("share/mainspring").join(suppressions))?;
    write_pkg_config(&source, &prefix)
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

fn write_pkg_config(source: &Path, prefix: &Path) -> Result<()> {
    let template = fs::read_to_string(source.join("mainspring_reactor.pc.in"))?;
    let text = template
        .replace("@PREFIX@", &prefix.to_string_lossy())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let path = prefix.join("lib/pkgconfig/mainspring_reactor.pc");
    make_room(&path)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
