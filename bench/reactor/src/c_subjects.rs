//! Compiling the C subjects, once, into the target folder.
//!
//! The libraries are the distribution's, linked statically where it ships an archive, since the
//! Rust peers are too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::packages;

/// A subject written in C and what it is linked with.
pub(crate) struct CSubject {
    /// The subject's name.
    pub(crate) name: &'static str,
    /// Its file's, without the ending.
    source: &'static str,
    /// The Debian package with its header.
    package: Option<&'static str>,
    /// Ways to link it, best first.
    links: &'static [&'static [&'static str]],
}

/// All C subjects.
pub(crate) const C_SUBJECTS: [CSubject; 5] = [
    CSubject { name: "raw", source: "raw", package: None, links: &[&[]] },
    CSubject { name: "raw-level", source: "raw", package: None, links: &[&[]] },
    CSubject {
        name: "libev",
        source: "libev",
        package: Some("libev-dev"),
        links: &[&["-l:libev.a", "-lm"], &["-lev"]],
    },
    CSubject {
        name: "libuv",
        source: "libuv",
        package: Some("libuv1-dev"),
        links: &[
            &["-l:libuv_a.a", "-lpthread", "-ldl", "-lrt"],
            &["-l:libuv.a", "-lpthread", "-ldl", "-lrt"],
            &["-luv"],
        ],
    },
    CSubject {
        name: "libevent",
        source: "libevent",
        package: Some("libevent-dev"),
        links: &[&["-l:libevent_core.a"], &["-levent_core"], &["-levent"]],
    },
];

impl CSubject {
    /// The words that come before the case on its command line.
    pub(crate) fn words(&self) -> Vec<String> {
        if self.name.ends_with("-level") { vec!["level".into()] } else { Vec::new() }
    }

    /// The compiled program, compiled now unless it is there and newer than its sources.
    ///
    /// # Errors
    ///
    /// One line for the user: what is missing and what to install.
    pub(crate) fn build(&self) -> Result<PathBuf, String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
        let source = sources.join(self.source).with_extension("c");
        let program =
            target_folder().map_err(|error| format!("no target folder: {error}"))?.join(self.source);
        if modified(&program) > modified(&source).max(modified(&sources.join("workload.h"))) {
            return Ok(program);
        }
        if self.links.iter().any(|link| compile(&source, &program, link).is_ok()) {
            return Ok(program);
        }
        if let Some(package) = self.package {
            packages::install(&[package])?;
        }
        let attempts = self.links.iter().map(|link| compile(&source, &program, link));
        attempts.reduce(Result::or).expect("a subject has a way to be linked").map(|()| program)
    }
}

/// A folder beside this program, which sits in Cargo's target folder.
fn target_folder() -> std::io::Result<PathBuf> {
    let folder = std::env::current_exe()?.with_file_name("reactor-bench-c");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn compile(source: &Path, program: &Path, link: &[&str]) -> Result<(), String> {
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-std=gnu11", "-o"]).arg(program).arg(source).args(link);
    let output = cc.output().map_err(|error| format!("no C compiler (cc): {error}; install gcc"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.contains("error")).or(said.lines().last());
    Err(format!("does not compile: {}", error.unwrap_or("cc said nothing")))
}
