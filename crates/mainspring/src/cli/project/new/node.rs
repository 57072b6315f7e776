//! Whether the Node that is here can run a skeleton.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long a program may take to say its version. One that waits for something else is not asked
/// further.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest line that is looked at.
const LINE_BYTES_MAX: u64 = 256;

/// The oldest Node that runs a skeleton, and what to do with an older one.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::project::new) struct NodeNeeded {
    /// The first two numbers of its version.
    pub(in crate::cli::project::new) oldest: (u32, u32),
    /// What else can be done than to install it; ends a sentence.
    pub(in crate::cli::project::new) otherwise: &'static str,
}

impl NodeNeeded {
    /// A sentence for whoever has no such Node, as the first of what is to be done.
    pub(in crate::cli::project::new) fn advice(self) -> Option<String> {
        let here = match version_of(Command::new("node").arg("--version")) {
            Err(_) => "there is no `node` here".to_owned(),
            // What says nothing of its version may be good enough.
            Ok(version) if !is_older(&version, self.oldest) => return None,
            Ok(version) => format!("this is {version}"),
        };
        let (major, minor) = self.oldest;
        Some(format!(
            "  # it needs Node {major}.{minor} or later, and {here}: install one{}\n",
            self.otherwise
        ))
    }
}

/// The first line that a program writes; nothing if it writes none for a while, or ends without.
fn version_of(command: &mut Command) -> io::Result<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = child.stdout.take();
    let (told, tells) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if let Some(output) = output {
            drop(BufReader::new(output.take(LINE_BYTES_MAX)).read_line(&mut line));
        }
        drop(told.send(line));
    });
    let line = tells.recv_timeout(PATIENCE).unwrap_or_default();
    // It has said what it has to say.
    drop(child.kill());
    drop(child.wait());
    Ok(line.trim().to_owned())
}

/// Whether a version, such as `v20.20.2`, is known to come before another.
fn is_older(version: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < oldest,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_never_says_its_version_holds_nobody_up() {
        let started = std::time::Instant::now();
        let version = |script: &str| version_of(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(version("echo v20.1.0; exec sleep 60"), "v20.1.0");
        assert_eq!(version("yes | tr -d '\\n'").len(), 256, "a line without an end");
        assert_eq!(version("exit 1"), "");
        assert!(started.elapsed() < PATIENCE);
        assert_eq!(version("exec sleep 60"), "");
        assert!(version_of(&mut Command::new("no-such-program-here")).is_err());
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for old in ["v20.20.2", "v22.9.0", "v22.17.1", "8.0.0"] {
            assert!(is_older(old, (22, 18)), "{old}");
        }
        for new in ["v22.18.0", "v24.1.0", "v100.0.0", "", "deno", "v22"] {
            assert!(!is_older(new, (22, 18)), "{new}");
        }
    }
}
