//! Installing what the peers need, where that is possible.

use std::process::{Command, Stdio};

/// Installs Debian packages; the error is one line that says what to do by hand.
pub(crate) fn install(packages: &[&str]) -> Result<(), String> {
    eprintln!("installing {} ...", packages.join(" "));
    if apt_get("install", packages) || (apt_get("update", &[]) && apt_get("install", packages)) {
        return Ok(());
    }
    Err(format!("apt-get could not install {0}; install {0} by hand", packages.join(" ")))
}

fn apt_get(command: &str, packages: &[&str]) -> bool {
    Command::new("apt-get")
        .args([command, "-y", "-qq"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
