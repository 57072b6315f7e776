//! `cargo xtask dist`: what is passed on, in `target/dist`.
//!
//! Static programs (the daemon, and the bridge to models) with their symbols beside them, an
//! archive of them, a Debian package with units, man pages and completions, a Dockerfile, lists of
//! everything that they are made of, and checksums.

mod debian;
mod sbom;
mod trial;

use crate::command::{self, cargo, exists, root, run, target_dir};
use crate::machine::packages::{Need, ensure};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is passed on: each program with the manifest of the workspace that it is built in.
pub(super) const PROGRAMS: [(&str, &str); 2] =
    [("mainspring", "Cargo.toml"), ("mainspring-mcp", "crates/mcp/Cargo.toml")];
/// Without a C library of the system: one file runs on every distribution.
const TARGET: &str = "x86_64-unknown-linux-musl";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The shells, and what each calls the file of its completions.
const SHELLS: [(&str, &str); 3] =
    [("bash", "mainspring"), ("zsh", "_mainspring"), ("fish", "mainspring.fish")];

#[derive(clap::Args)]
pub(crate) struct DistArguments {
    /// Then install the package into a scratch root, start the daemon there, and talk to it.
    #[arg(long)]
    test: bool,
    /// Take the programs in this folder instead of building them.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

pub(crate) fn run_dist(arguments: &DistArguments) -> Result<()> {
    let needed = ensure(&[
        Need { program: "objcopy", package: "binutils", purpose: "symbols beside the binary" },
        Need { program: "dpkg-deb", package: "dpkg", purpose: "the Debian package" },
    ]);
    if !needed {
        bail!("what is named above is needed");
    }
    let built = match &arguments.programs {
        Some(folder) => PROGRAMS.map(|(name, _)| folder.join(name)).to_vec(),
        None => build()?,
    };
    let folder = root().join(target_dir()).join("dist");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for ((name, manifest), built) in PROGRAMS.iter().zip(&built) {
        let binary = folder.join(name);
        separate_symbols(built, &binary)?;
        require_static(&binary)?;
        fs::write(folder.join(parts_list(name)), sbom::list(name, manifest, TARGET)?)?;
    }
    let extras = folder.join("extras");
    document(&folder.join("mainspring"), &extras)?;
    fs::copy(root().join("packaging/Dockerfile"), folder.join("Dockerfile"))?;
    archive(&folder)?;
    let package = debian::pack(&folder, VERSION)?;
    fs::remove_dir_all(&extras)?;
    checksums(&folder)?;
    if arguments.test {
        trial::run_trial(&package)?;
    }
    show(&folder)
}

/// The file that lists what a program is made of.
fn parts_list(program: &str) -> String {
    format!("{program}.cdx.json")
}

/// Builds the programs. The C parts (ring, mimalloc) want a compiler for that C library.
fn build() -> Result<Vec<PathBuf>> {
    if !ensure(&[Need { program: "musl-gcc", package: "musl-tools", purpose: "C code in a static binary" }]) {
        bail!("musl-gcc is needed");
    }
    if exists("rustup") {
        run(Command::new("rustup").args(["target", "add", TARGET]).current_dir(root()))?;
    }
    let built = PROGRAMS.map(|(name, manifest)| {
        let folder = if manifest == "Cargo.toml" { target_dir() } else { target_dir().join(name) };
        let mut command = cargo();
        command.args(["build", "--locked", "--profile", "dist", "--target", TARGET, "--package", name]);
        command.arg("--manifest-path").arg(root().join(manifest)).arg("--target-dir").arg(&folder);
        run(&mut command).map(|()| root().join(folder).join(TARGET).join("dist").join(name))
    });
    built.into_iter().collect()
}

/// Copies the binary without its debug information, which goes into a file beside it. Functions
/// keep their names.
fn separate_symbols(built: &Path, binary: &Path) -> Result<()> {
    let symbols = binary.with_extension("debug");
    let objcopy = |options: &[&str], from: &Path, to: &Path| {
        run(Command::new("objcopy").args(options).arg(from).arg(to))
    };
    objcopy(&["--only-keep-debug", "--compress-debug-sections"], built, &symbols)?;
    objcopy(&["--strip-debug"], built, binary)?;
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    run(Command::new("objcopy").arg(link).arg(binary))
}

/// A binary that asks for a library or an interpreter is not static.
fn require_static(binary: &Path) -> Result<()> {
    let output = Command::new("objdump").arg("-p").arg(binary).output().context("cannot start objdump")?;
    let headers = String::from_utf8_lossy(&output.stdout);
    if headers.contains("NEEDED") || headers.contains("INTERP") {
        bail!("{} needs libraries of the system:\n{headers}", binary.display());
    }
    Ok(())
}

/// Man pages and completions, by the program itself.
fn document(binary: &Path, extras: &Path) -> Result<()> {
    run(Command::new(binary).arg("manual").arg(extras.join("man1")))?;
    let completions = extras.join("completions");
    fs::create_dir_all(&completions)?;
    for (shell, file) in SHELLS {
        let output = Command::new(binary).args(["completions", shell]).output()?;
        if !output.status.success() || output.stdout.is_empty() {
            bail!("`mainspring completions {shell}` failed: {}", output.status);
        }
        fs::write(completions.join(file), output.stdout)?;
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"] {
        fs::copy(root().join(file), extras.join(file))?;
    }
    Ok(())
}

/// Everything but the package, for systems without dpkg. The same input gives the same bytes.
fn archive(folder: &Path) -> Result<()> {
    let name = format!("mainspring-{VERSION}-x86_64-linux");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", time_of_commit())).arg(format!("--transform=s,^,{name}/,"));
    tar.arg("--file").arg(folder.join(format!("{name}.tar.gz")));
    tar.arg("--directory").arg(folder);
    for (program, _) in PROGRAMS {
        tar.arg(program).arg(parts_list(program));
    }
    tar.arg("--directory").arg(folder.join("extras")).args([
        "man1",
        "completions",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "README.md",
        "CHANGELOG.md",
    ]);
    run(&mut tar)
}

/// When the last change was made: files of what is passed on have this time, whenever they are
/// made.
fn time_of_commit() -> String {
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "0".into())
}

fn checksums(folder: &Path) -> Result<()> {
    let names = names(folder)?;
    let output = Command::new("sha256sum").args(&names).current_dir(folder).output()?;
    if !output.status.success() {
        bail!("`sha256sum` failed: {}", output.status);
    }
    Ok(fs::write(folder.join("SHA256SUMS"), output.stdout)?)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let files = entries.into_iter().filter(|entry| entry.path().is_file());
    let mut names: Vec<String> =
        files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn show(folder: &Path) -> Result<()> {
    println!("in {}:", folder.display());
    for name in names(folder)? {
        println!("{:>10} KB  {name}", fs::metadata(folder.join(&name))?.len() / 1000);
    }
    Ok(())
}

/// Compresses a file in its place, without a name and a time.
fn gzip(file: &Path) -> Result<()> {
    command::run(Command::new("gzip").args(["--best", "--no-name"]).arg(file))
}
