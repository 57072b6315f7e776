//! Installing what a machine lacks, where that is possible.

use crate::command::{exists, run};
use std::process::{Command, Stdio};

/// A program and the Debian package that has it.
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) purpose: &'static str,
}

/// Installs whatever is missing, and says in one line what still is. True if all is there.
pub(crate) fn ensure(needs: &[Need]) -> bool {
    let missing = || needs.iter().filter(|need| !exists(need.program));
    let packages: Vec<&str> = missing().map(|need| need.package).collect();
    if !packages.is_empty() {
        println!("==> installing {}", packages.join(" "));
        install(&packages);
    }
    for need in missing() {
        println!("missing: {} ({}); install the package {}", need.program, need.purpose, need.package);
    }
    missing().next().is_none()
}

/// Installs Debian packages, where there is an apt-get that we may use.
pub(crate) fn install(packages: &[&str]) {
    if !exists("apt-get") {
        return;
    }
    let apt = |words: &[&str]| {
        let mut command = if is_root() { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root() {
            command.args(["-n", "apt-get"]);
        }
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        run(&mut command)
    };
    let wanted: Vec<&str> =
        ["install", "-y", "--no-install-recommends"].into_iter().chain(packages.iter().copied()).collect();
    // An old list of packages may do; if not, fetch a new one.
    if apt(&wanted).is_err() && apt(&["update", "-q"]).is_ok() {
        let _ = apt(&wanted);
    }
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
