//! `cargo xtask install-c`: the C library where C programs look for it.

use crate::command::{self, cargo, root, target_dir};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to install; `include`, `lib` and `lib/pkgconfig` are made below it.
    #[arg(long)]
    prefix: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    command::run(cargo().args(["build", "--release", "--package", "mainspring-reactor-c"]))?;
    let prefix = std::path::absolute(&arguments.prefix)?;
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let pkgconfig = lib.join("pkgconfig");
    for folder in [&include, &pkgconfig] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let source = root().join("crates/reactor-c");
    let built = target_dir().join("release");
    let copy = |from: PathBuf, to: PathBuf| {
        println!("{}", to.display());
        fs::copy(&from, &to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
    };
    copy(source.join("include/mainspring_reactor.h"), include.join("mainspring_reactor.h"))?;
    copy(built.join("libmainspring_reactor.a"), lib.join("libmainspring_reactor.a"))?;
    copy(built.join("libmainspring_reactor.so"), lib.join("libmainspring_reactor.so"))?;
    let template = fs::read_to_string(source.join("mainspring_reactor.pc.in"))?;
    let text = template
        .replace("@PREFIX@", &prefix.to_string_lossy())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let path = pkgconfig.join("mainspring_reactor.pc");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
