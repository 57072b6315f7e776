//! Compiling C, with every warning an error.

use crate::library::{Linkage, library};
use crate::run::{crate_folder, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// A compiler call with strict warnings and our headers.
pub(crate) fn compiler(program: &str, standard: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(format!("-std={standard}")).args(STRICT).arg("-I").arg(crate_folder().join("include"));
    command
}

/// Builds a program from one C file. Static programs are C89, shared ones C99, so that both are
/// tried.
pub(crate) fn build(source: &Path, linkage: Linkage, folder: &Path) -> PathBuf {
    let program = folder.join(source.file_stem().expect("a file name"));
    let library = library();
    let mut command = match linkage {
        Linkage::Static => compiler("cc", "c89"),
        Linkage::Shared => compiler("cc", "c99"),
    };
    command.arg("-g").arg("-o").arg(&program).arg(source);
    match linkage {
        Linkage::Static => command.arg(&library.archive).args(&library.system_libraries),
        Linkage::Shared => {
            let folder = library.folder.display();
            command.args([format!("-L{folder}"), format!("-Wl,-rpath,{folder}")]);
            command.args(["-lmainspring_reactor", "-lpthread"])
        }
    };
    succeed(&mut command);
    program
}
