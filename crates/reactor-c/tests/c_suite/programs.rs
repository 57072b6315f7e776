//! The C programs of `tests/c`, against the static and the shared library, and under valgrind.
//!
//! Each file is a process of its own; the names of the tests inside carry the clause they prove
//! (`docs/contracts/reactor-c.md`). Static programs are compiled as C89, shared ones as C99, with
//! every warning an error.

use crate::compiler::build;
use crate::library::Linkage;
use crate::run::{crate_folder, scratch, succeed, valgrind};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

fn source(name: &str) -> PathBuf {
    crate_folder().join("tests/c").join(format!("{name}.c"))
}

fn run_with(name: &str, linkage: Linkage) {
    let program = build(&source(name), linkage, &scratch(&format!("{linkage:?}")));
    let printed = succeed(&mut Command::new(program));
    assert!(printed.contains("ok "), "{name} ran no test");
}

fn run_under_valgrind(name: &str) {
    let Some(mut command) = valgrind() else {
        println!("MAINSPRING_VALGRIND is not 1: not run under valgrind");
        return;
    };
    let program = build(&source(name), Linkage::Static, &scratch("valgrind"));
    succeed(command.arg(program));
}

macro_rules! c_tests {
    ($($name:ident),* $(,)?) => {
        const C_TESTS: &[&str] = &[$(stringify!($name)),*];

        mod with_the_static_library {
            $(#[test] fn $name() { super::run_with(stringify!($name), super::Linkage::Static); })*
        }

        mod with_the_shared_library {
            $(#[test] fn $name() { super::run_with(stringify!($name), super::Linkage::Shared); })*
        }

        mod under_valgrind {
            $(#[test] fn $name() { super::run_under_valgrind(stringify!($name)); })*
        }
    };
}

c_tests! {
    bad_arguments,
    introspection,
    life_cycle,
    original_faults,
    original_functions,
    original_gotchas,
    original_limits,
    processes,
    running,
    threads,
    timers,
    watching,
}

#[test]
fn every_c_file_is_run() {
    let files = std::fs::read_dir(crate_folder().join("tests/c")).expect("the folder of C tests");
    let paths = files.map(|file| file.expect("a file").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|ending| ending == "c"));
    let found: BTreeSet<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_string())).collect();
    let run: BTreeSet<String> = C_TESTS.iter().map(ToString::to_string).collect();
    assert_eq!(found, run);
}
