//! Guests written in C: each `guests/c/*.c` is one module, compiled by clang (or zig) against
//! `guests/c/include/zi.h` alone.

use super::toolchain::wasm_linker;
use crate::command::{exists, root, run};
use crate::machine::packages::install;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Newest first; Debian's package is the last.
const CLANGS: [&str; 10] = [
    "clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15",
    "clang-14",
];
const DEBIAN_PACKAGE: &str = "clang-14";
const FLAGS: [&str; 8] =
    ["-O2", "-g0", "-std=c11", "-ffreestanding", "-fno-builtin", "-Wall", "-Wextra", "-Werror"];

/// What compiles C to WebAssembly.
enum Compiler {
    Clang { program: &'static str, linker: PathBuf },
    Zig,
}

pub(super) fn build(folder: &Path) -> Result<()> {
    let sources = sources()?;
    if sources.is_empty() {
        return Ok(());
    }
    let compiler = find()?;
    println!("guests: {} in C, with {}", sources.len(), compiler.name());
    for source in sources {
        compiler.build(&source, folder)?;
    }
    Ok(())
}

/// Compiles one C file to an object, for guests that are linked elsewhere.
pub(super) fn object(source: &Path, object: &Path) -> Result<()> {
    let mut compile = match find()? {
        Compiler::Clang { program, .. } => {
            let mut clang = Command::new(program);
            clang.arg("--target=wasm32");
            clang
        }
        Compiler::Zig => {
            let mut zig = Command::new("python3");
            zig.args(["-m", "ziglang", "cc", "-target", "wasm32-freestanding"]);
            zig
        }
    };
    run(compile.args(FLAGS).arg("-c").arg(source).arg("-o").arg(object))
}

fn sources() -> Result<Vec<PathBuf>> {
    let folder = root().join("guests/c");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

fn find() -> Result<Compiler> {
    if let Some(compiler) = clang() {
        return Ok(compiler);
    }
    if Command::new("python3").args(["-m", "ziglang", "version"]).output().is_ok_and(|it| it.status.success())
    {
        return Ok(Compiler::Zig);
    }
    println!("guests: installing {DEBIAN_PACKAGE}");
    install(&[DEBIAN_PACKAGE]);
    let Some(compiler) = clang() else {
        bail!("nothing here compiles C to WebAssembly: install clang, or `pip install ziglang`");
    };
    Ok(compiler)
}

fn clang() -> Option<Compiler> {
    let linker = wasm_linker()?;
    let program = CLANGS.into_iter().find(|program| exists(program) && knows_wasm(program))?;
    Some(Compiler::Clang { program, linker })
}

/// Apple's clang, among others, comes without the WebAssembly backend.
fn knows_wasm(program: &str) -> bool {
    let output = Command::new(program).arg("--print-targets").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("wasm32"))
}

impl Compiler {
    fn name(&self) -> &'static str {
        match self {
            Compiler::Clang { program, .. } => program,
            Compiler::Zig => "zig",
        }
    }

    fn build(&self, source: &Path, folder: &Path) -> Result<()> {
        let name = source.file_stem().context("a source without a name")?.to_string_lossy();
        let module = folder.join(format!("c-{name}.wasm"));
        match self {
            Compiler::Clang { program, linker } => {
                let objects = super::build_folder().join("c");
                fs::create_dir_all(&objects)?;
                let object = objects.join(format!("{name}.o"));
                let mut compile = Command::new(program);
                compile.arg("--target=wasm32").args(FLAGS).arg("-I").arg(include());
                run(compile.arg("-c").arg(source).arg("-o").arg(&object))?;
                let mut link = Command::new(linker);
                if linker.ends_with("rust-lld") {
                    link.args(["-flavor", "wasm"]);
                }
                run(link.args(["--no-entry", "--export=main", "-o"]).arg(module).arg(object))
            }
            Compiler::Zig => {
                let mut command = Command::new("python3");
                command.args(["-m", "ziglang", "cc", "-target", "wasm32-freestanding", "-nostdlib"]);
                command.args(FLAGS).arg("-I").arg(include()).args([
                    "-Wl,--no-entry",
                    "-Wl,--export=main",
                    "-o",
                ]);
                run(command.arg(module).arg(source))
            }
        }
    }
}

fn include() -> PathBuf {
    root().join("guests/c/include")
}
