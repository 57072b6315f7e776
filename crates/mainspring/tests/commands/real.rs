//! A real daemon in a folder of its own, and the commands beside it.

use crate::fake::command;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A client in Python: sends each message as `json.dumps` writes it, with spaces, and prints what
/// comes back until one is answered.
const PYTHON_CLIENT: &str = r#"
import json, socket, sys
daemon = socket.socket(socket.AF_UNIX)
daemon.settimeout(30)
daemon.connect("it.sock")
for text in sys.argv[1:]:
    daemon.sendall((json.dumps(json.loads(text)) + "\n").encode())
for line in daemon.makefile():
    print(line, end="")
    if json.loads(line)["metadata"].get("causation") == json.loads(sys.argv[-1])["metadata"]["id"]:
        break
"#;

/// A daemon that is ready.
pub(crate) struct Real {
    folder: tempfile::TempDir,
    child: Child,
    boot: Value,
}

impl Real {
    /// Starts a daemon on a configuration.
    pub(crate) fn start(config: &str) -> Real {
        Real::start_with(config, |_| {})
    }

    /// Starts a daemon on a configuration, in a folder that is prepared first.
    pub(crate) fn start_with(config: &str, prepare: impl FnOnce(&Path)) -> Real {
        Real::start_as(config, prepare, &["--log-level", "warn"])
    }

    /// Starts a daemon with these flags; its log is the file `log` in its folder.
    pub(crate) fn start_as(config: &str, prepare: impl FnOnce(&Path), flags: &[&str]) -> Real {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("mainspring.toml"),
            format!("{config}\n[[listen]]\nunix = 'it.sock'\n"),
        )
        .unwrap();
        prepare(folder.path());
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut child = command(&[&["up", "--json"], flags].concat(), folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("Sys.BootComplete"), "{line}");
        Real { folder, child, boot: serde_json::from_str(&line).unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The host and port of its TCP door.
    pub(crate) fn tcp(&self) -> &str {
        let mut adapters = self.boot["data"]["adapters"].as_array().unwrap().iter();
        adapters.find_map(|adapter| adapter.as_str()?.strip_prefix("tcp:")).unwrap()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("log")).unwrap()
    }

    /// A command that finds this daemon by itself.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(arguments, self.folder())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Sends messages as a client in Python would, and returns the answer to the last of them.
    pub(crate) fn ask_from_python(&self, messages: &[Value]) -> Value {
        let output = Command::new("python3")
            .args(["-c", PYTHON_CLIENT])
            .args(messages.iter().map(Value::to_string))
            .current_dir(self.folder())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }

    /// Stops the daemon where it is, until what this returns is dropped.
    pub(crate) fn freeze(&self) -> Frozen {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Frozen(pid)
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the daemon's log ---\n{}", self.log());
        }
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        let _ = self.child.wait();
    }
}

/// A daemon that is stopped, and goes on when this is dropped.
pub(crate) struct Frozen(rustix::process::Pid);

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}
