//! What C programs see of the library: headers, exported names and the pkg-config file.

use crate::compiler::compiler;
use crate::headers::{declared_functions, header};
use crate::library::library;
use crate::run::{crate_folder, output, scratch, succeed};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

const SIGABRT: i32 = 6;

/// Both headers in one file, each of them twice.
const INCLUDES: &str = "#include <mainspring_reactor.h>\n#include <reactor.h>\n\
    #include <mainspring_reactor.h>\n#include <reactor.h>\nint main(void) { return reactor_poll(0, 0) != 0; }\n";

fn declared() -> BTreeSet<String> {
    let mut names = declared_functions(&header("mainspring_reactor.h"));
    names.append(&mut declared_functions(&header("reactor.h")));
    names
}

#[test]
fn the_headers_compile_in_every_dialect_of_c_and_cpp() {
    let folder = scratch("headers");
    let dialects = [
        ("cc", "headers.c", &["c89", "c99", "c11", "gnu17"][..]),
        ("c++", "headers.cpp", &["c++98", "c++11", "c++17"][..]),
    ];
    for (program, file, standards) in dialects {
        let source = folder.join(file);
        fs::write(&source, INCLUDES).expect("a source file");
        for standard in standards {
            succeed(compiler(program, standard).arg("-fsyntax-only").arg(&source));
        }
    }
}

/// Builds a C++ program against the shared library.
fn build_cpp(name: &str, text: &str) -> PathBuf {
    let folder = scratch("cpp");
    let (source, program) = (folder.join(format!("{name}.cpp")), folder.join(name));
    fs::write(&source, text).expect("a source file");
    let library_folder = library().folder.display().to_string();
    let mut command = compiler("c++", "c++11");
    command.arg(source).arg("-o").arg(&program);
    command.args([format!("-L{library_folder}"), format!("-Wl,-rpath,{library_folder}")]);
    succeed(command.arg("-lmainspring_reactor"));
    program
}

#[test]
fn a_cpp_program_links() {
    succeed(&mut Command::new(build_cpp("program", INCLUDES)));
}

/// A callback that does what callbacks must not.
const THROWS: &str = "#include <mainspring_reactor.h>\n\
    extern \"C\" void on_call(ms_reactor *, void *) { throw 1; }\n\
    int main() { ms_reactor *reactor; ms_reactor_create(&reactor, 0, 0); ms_reactor_defer(reactor, on_call, 0);\n\
    try { ms_reactor_poll(reactor, -1); } catch (...) { } return 0; }\n";

#[test]
fn a_cpp_exception_from_a_callback_ends_the_process_in_an_orderly_way() {
    let program = build_cpp("throws", THROWS);
    let output = output(&mut Command::new(program));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{complaint}");
    assert!(complaint.contains("foreign exception"), "{complaint}");
}

#[test]
fn the_shared_library_exports_exactly_what_the_headers_declare() {
    let listing = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(&library().shared));
    let exported: BTreeSet<String> =
        listing.lines().filter_map(|line| line.split_whitespace().last()).map(String::from).collect();
    assert_eq!(exported, declared());
}

#[test]
fn the_original_names_are_all_there() {
    let original = declared_functions(
        &fs::read_to_string(crate_folder().join("tests/c/original/reactor.h")).expect("the test's header"),
    );
    assert_eq!(original.len(), 13);
    assert_eq!(original, declared_functions(&header("reactor.h")));
}

#[test]
fn the_shared_library_knows_its_own_name() {
    let listing = succeed(Command::new("readelf").arg("-d").arg(&library().shared));
    assert!(listing.contains("[libmainspring_reactor.so.0]"), "{listing}");
}

#[test]
fn the_program_in_the_readme_compiles() {
    let readme = fs::read_to_string(crate_folder().join("README.md")).expect("the readme");
    let program = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let source = scratch("headers").join("readme.c");
    fs::write(&source, program.expect("a program")).expect("a source file");
    succeed(compiler("cc", "c99").arg("-fsyntax-only").arg(&source));
}

#[test]
fn the_headers_version_is_the_crates() {
    let text = header("mainspring_reactor.h");
    let part = |name: &str| {
        let line = text.lines().find(|line| line.contains(&format!("MS_REACTOR_VERSION_{name} ")));
        line.and_then(|line| line.split_whitespace().last()).expect("a part of the version").to_string()
    };
    assert_eq!([part("MAJOR"), part("MINOR"), part("PATCH")].join("."), env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_pkg_config_file_names_what_is_needed() {
    let template = fs::read_to_string(crate_folder().join("mainspring_reactor.pc.in")).expect("the template");
    for needed in ["prefix=@PREFIX@", "Version: @VERSION@", "-I${includedir}", "-lmainspring_reactor"] {
        assert!(template.contains(needed), "{needed}");
    }
    // Which libraries these are depends on the system: `cargo xtask install-c` asks the compiler,
    // as these tests do.
    assert!(template.lines().any(|line| line == "Libs.private: @LIBS_PRIVATE@"));
    assert!(library().system_libraries.iter().all(|library| library.starts_with("-l")));
}

#[test]
fn every_exported_function_is_called_by_a_c_test() {
    let mut sources = String::new();
    for file in fs::read_dir(crate_folder().join("tests/c")).expect("the folder of C tests") {
        let path = file.expect("a file").path();
        if path.is_file() {
            sources += &fs::read_to_string(path).expect("a source file");
        }
    }
    for name in declared() {
        assert!(sources.contains(&format!("{name}(")), "no C test calls {name}");
    }
}
