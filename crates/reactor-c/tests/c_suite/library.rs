//! The library that the tests link against.
//!
//! Cargo builds a static or shared library for nobody but whoever asks for it by name, not for the
//! tests of its own package. So the tests ask, and are told where the files are.

use crate::run::{crate_folder, scratch, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// How a program is linked against the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Linkage {
    Static,
    Shared,
}

pub(crate) struct Library {
    /// `libmainspring_reactor.a`.
    pub(crate) archive: PathBuf,
    /// `libmainspring_reactor.so`.
    pub(crate) shared: PathBuf,
    /// A folder with the shared library under the names that linkers look for.
    pub(crate) folder: PathBuf,
    /// What the system must add to the static library, as the compiler says: `Libs.private` of the
    /// pkg-config file.
    pub(crate) system_libraries: Vec<String>,
}

/// The library, built with the profile that the tests were built with.
pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let messages = succeed(&mut build_command());
        let (archive, shared) = (artifact(&messages, ".a"), artifact(&messages, ".so"));
        let folder = name_for_linkers(&shared);
        Library { archive, shared, folder, system_libraries: system_libraries(&messages) }
    })
}

fn build_command() -> Command {
    let test = std::env::current_exe().expect("the path of this test");
    // <target>/<profile>/deps/<test>
    let profile_folder = test.ancestors().nth(2).expect("a profile's folder");
    let target_folder = profile_folder.parent().expect("a target folder");
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(crate_folder()).args(["rustc", "--quiet", "--lib", "--message-format=json"]);
    command.args(["--profile", profile, "--target-dir"]).arg(target_folder);
    command.args(["--", "--print", "native-static-libs"]);
    command
}

/// The libraries that the compiler has announced.
fn system_libraries(messages: &str) -> Vec<String> {
    let (_, rest) = messages.split_once("native-static-libs: ").expect("the compiler's word");
    let line = rest.split(['\\', '"']).next().unwrap_or_default();
    line.split_whitespace().map(String::from).collect()
}

/// The file that cargo has announced with this ending.
fn artifact(messages: &str, ending: &str) -> PathBuf {
    let name = format!("libmainspring_reactor{ending}");
    let path = messages.split('"').find(|word| word.ends_with(&format!("/{name}")));
    PathBuf::from(path.unwrap_or_else(|| panic!("cargo did not say where {name} is")))
}

/// Puts the shared library where a linker finds it by its plain name, and a loader by the name it
/// gives itself.
fn name_for_linkers(shared: &Path) -> PathBuf {
    let folder = scratch("shared-library");
    let (loaded, linked) =
        (folder.join("libmainspring_reactor.so.0"), folder.join("libmainspring_reactor.so"));
    // Each in one step: a program of another test run may be about to load it.
    let fresh = folder.join(format!("fresh-{}", std::process::id()));
    fs::copy(shared, &fresh).expect("a copy of the shared library");
    fs::rename(&fresh, &loaded).expect("the library under its own name");
    std::os::unix::fs::symlink("libmainspring_reactor.so.0", &fresh).expect("a link to the shared library");
    fs::rename(&fresh, &linked).expect("the link under the plain name");
    folder
}
