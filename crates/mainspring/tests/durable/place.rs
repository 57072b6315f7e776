//! A folder in which one daemon after the other runs.

use crate::support::{Client, LIBRARY, mainspring, signal_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use tempfile::TempDir;

/// A capability that writes down, in a file that outlives it, what it does before it answers.
pub(crate) const LEDGER: &str = r#"
from lib import *
book = os.open("book", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def answer(message):
    if message["kind"] == "command":
        attempt = message["metadata"].get("attempt", 1)
        os.write(book, ("%s %d\n" % (message["metadata"]["id"], attempt)).encode())
        wait = message["data"].get("wait", 0)
        if wait:
            time.sleep(wait)
    return {"id": message["metadata"]["id"]}
serve(answer)
"#;

pub(crate) struct Place {
    folder: TempDir,
    starts: std::cell::Cell<usize>,
}

/// A daemon that runs, killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    socket: PathBuf,
    log: PathBuf,
}

impl Place {
    /// With the capability [`LEDGER`], and `more` in its manifest.
    pub(crate) fn with_ledger(more: &str) -> Place {
        let ledger = crate::support::process(
            "ledger",
            &["command:Ledger.Write", "query:Ledger.Read"],
            &["python3", "ledger.py"],
            more,
        );
        Place::new(&format!("{ledger}\n[journal]\nfolder = 'journal'\n"))
    }

    pub(crate) fn new(config: &str) -> Place {
        let place = Place { folder: TempDir::new().expect("a folder"), starts: std::cell::Cell::new(0) };
        place.write("mainspring.toml", config);
        place.write("lib.py", LIBRARY);
        place.write("ledger.py", LEDGER);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    pub(crate) fn up(&self) -> Running {
        self.up_with(|_| {})
    }

    pub(crate) fn up_with(&self, prepare: impl FnOnce(&mut Command)) -> Running {
        self.try_up(prepare).unwrap_or_else(|(status, log)| panic!("it did not boot: {status}\n{log}"))
    }

    /// Starts a daemon; if it does not boot, its status and what it said.
    pub(crate) fn try_up(&self, prepare: impl FnOnce(&mut Command)) -> Result<Running, (ExitStatus, String)> {
        self.starts.set(self.starts.get() + 1);
        let log = self.path(&format!("log-{}", self.starts.get()));
        let socket = self.path("socket");
        let mut command = mainspring();
        command
            .args(["up", "--json", "--log-level", "debug", "--config"])
            .arg(self.path("mainspring.toml"))
            .arg("--socket")
            .arg(&socket)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("the log"));
        prepare(&mut command);
        let mut child = command.spawn().expect("the program");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the boot");
        let boot: Value = serde_json::from_str(&line).unwrap_or_default();
        if boot["type"] == json!("Sys.BootComplete") {
            return Ok(Running { child, output, socket, log });
        }
        let status = child.wait().expect("its end");
        Err((status, std::fs::read_to_string(&log).unwrap_or_default()))
    }

    /// A command of the program, run here.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        mainspring()
            .args(words)
            .current_dir(self.folder.path())
            .env("MAINSPRING_SOCKET", self.path("socket"))
            .output()
            .expect("the program")
    }

    /// What the ledger's book says: an id a line, and the attempt.
    pub(crate) fn book(&self) -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(self.path("book")).unwrap_or_default();
        let line = |line: &str| {
            let (id, attempt) = line.split_once(' ')?;
            Some((id.to_owned(), attempt.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    /// Every file of the journal, with its bytes; large ones by their first and last parts.
    pub(crate) fn journal(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(self.path("journal"))
            .expect("the journal")
            .map(|entry| {
                let path = entry.expect("a file").path();
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                (name, std::fs::read(path).expect("its bytes"))
            })
            .collect();
        files.sort();
        files
    }
}

impl Running {
    pub(crate) fn connect(&self) -> Client {
        Client::new(UnixStream::connect(&self.socket).expect("a connection"))
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the log")
    }

    /// kill -9, and the end of it.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("its end");
    }

    /// Ends it in order.
    pub(crate) fn end(mut self) {
        signal_process(self.pid(), "TERM");
        let status = self.wait();
        assert!(status.success(), "{status}\n{}", self.log());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut rest = String::new();
        let _ = self.output.read_to_string(&mut rest);
        self.child.wait().expect("its end")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            eprintln!(
                "--- the daemon's log ---\n{}",
                &log[log.floor_char_boundary(log.len().saturating_sub(6000))..]
            );
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
