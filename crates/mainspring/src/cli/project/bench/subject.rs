//! The daemon that is measured.

use crate::cli::support::target::Failure;
use crate::client::{Address, ClientError};
use rustix::process::Signal;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A daemon: one of our own, which ends with this, or one that runs already.
pub(in crate::cli::project::bench) struct Subject {
    address: Address,
    own: Option<(Child, PathBuf)>,
}

impl Subject {
    pub(in crate::cli::project::bench) fn running(address: Address) -> Subject {
        Subject { address, own: None }
    }

    /// Starts a daemon with the shipped defaults, in a folder of its own.
    pub(in crate::cli::project::bench) fn start() -> Result<Subject, Failure> {
        let failed =
            |error: io::Error| Failure::Refused(format!("cannot start a daemon to measure: {error}"));
        let folder = std::env::temp_dir().join(format!("mainspring-bench-{}", crate::client::fresh_id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let socket = folder.join("bench.sock");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["up", "--no-config", "--json", "--log-level", "error", "--socket"]).arg(&socket);
        command.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::piped());
        end_with_us(&mut command);
        let child = command.spawn().inspect_err(|_| drop(fs::remove_dir_all(&folder))).map_err(failed)?;
        let mut subject = Subject { address: Address::Unix(socket), own: Some((child, folder)) };
        let mut line = String::new();
        if let Some(stdout) = subject.own.as_mut().and_then(|(child, _)| child.stdout.take()) {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        if line.contains("Sys.BootComplete") { Ok(subject) } else { Err(ClientError::Closed.into()) }
    }

    pub(in crate::cli::project::bench) fn address(&self) -> &Address {
        &self.address
    }

    /// Whether it was started for the measurement, with the shipped defaults.
    pub(in crate::cli::project::bench) fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

/// Has the system end the daemon when this process ends, however that comes about.
fn end_with_us(command: &mut Command) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
        // It may have ended before it was asked for.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

impl Drop for Subject {
    fn drop(&mut self) {
        let Some((child, folder)) = &mut self.own else { return };
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(child), Signal::TERM);
        let _ = child.wait();
        let _ = fs::remove_dir_all(folder);
    }
}
