//! `mainspring console`: opens the console in a browser.

use crate::cli::support::output;
use crate::cli::support::read_command::told;
use crate::cli::support::target::{Failure, Target};
use mainspring_message::Kind;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const EXAMPLES: &str = "\
Examples:
  mainspring console
  mainspring console --print
  ssh -L 7780:127.0.0.1:7780 server mainspring console --print

It prints an address that works once, within a minute, and opens it in a browser if there is a screen. The browser finds the address in a file that only you can read, so it is in no list of processes. The console is served by the first HTTP listener; without one, the daemon listens on loopback from now on, on port 7780 if that is free.

Exit code: 0 the address is printed, 1 the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ConsoleArguments {
    /// Print the address, and open nothing.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &ConsoleArguments) -> ExitCode {
    told(open(arguments))
}

fn open(arguments: &ConsoleArguments) -> Result<ExitCode, Failure> {
    let reply = arguments.target.request(Kind::Command, "Sys.Console", json!({}))?;
    let data: Value = serde_json::from_str(reply.data()).unwrap_or_default();
    let url = data["url"].as_str().filter(|url| is_plain(url)).ok_or_else(|| {
        Failure::Refused("the daemon answered without an address of the console".to_owned())
    })?;
    let printed = output::print(&format!("{url}\n"));
    if !arguments.print && has_screen() {
        let folder = private_folder();
        match redirecting_file(&folder, url) {
            Ok(path) => show(&path),
            Err(error) => {
                eprintln!("mainspring: {}: {error}; open the address yourself", folder.display());
            }
        }
    }
    Ok(printed)
}

/// Whether an address can stand in an attribute of a page as it is.
fn is_plain(url: &str) -> bool {
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    is_web && url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/#[]=".contains(&byte))
}

/// Whether there is something that a browser could show itself on.
fn has_screen() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| is_set(name))
}

/// A folder of this user alone, where there is one; others cannot read the file in any case.
fn private_folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir)
}

/// A page that leads to the address, which only this user can read. The one before is replaced.
fn redirecting_file(folder: &Path, url: &str) -> std::io::Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let path = folder.join(format!("mainspring-console-{user}.html"));
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    writeln!(
        file,
        "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>\
         <meta http-equiv=refresh content=\"0;url={url}\"><title>Mainspring</title>\
         <a href=\"{url}\">Open the console</a>"
    )?;
    Ok(path)
}

/// Has a browser show a file. It goes on by itself.
fn show(path: &Path) {
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let chosen = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
    let opened = |program: OsString| {
        let mut command = Command::new(program);
        command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    };
    if ![Some(usual.into()), chosen].into_iter().flatten().any(opened) {
        eprintln!("mainspring: there is no {usual} to open a browser with; open the address yourself");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_addresses_that_are_harmless_in_a_page_are_opened() {
        assert!(is_plain("http://127.0.0.1:7780/#t=0af") && is_plain("https://[::1]:1/#t=a"));
        for wrong in ["javascript:alert(1)", "http://a/\"><script>", "file:///etc/passwd", "http://a/ b", ""]
        {
            assert!(!is_plain(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_file_that_redirects_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let url = "http://127.0.0.1:7780/#t=secret";
        for _ in 0..2 {
            let path = redirecting_file(folder.path(), url).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert!(std::fs::read_to_string(&path).unwrap().contains(&format!("content=\"0;url={url}\"")));
        }
        // A link that somebody put there is not followed.
        let path =
            folder.path().join(format!("mainspring-console-{}.html", rustix::process::geteuid().as_raw()));
        std::fs::remove_file(&path).unwrap();
        let victim = folder.path().join("victim");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        redirecting_file(folder.path(), url).unwrap();
        assert!(!victim.exists());
    }
}
