//! A daemon that says what a test wants it to say, and the command beside it.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

/// A daemon for one connection.
pub(crate) struct Fake {
    folder: tempfile::TempDir,
    thread: Option<JoinHandle<()>>,
}

/// The daemon's end of a connection.
pub(crate) struct Connection {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Fake {
    /// Serves one connection with a script.
    pub(crate) fn serve(script: impl FnOnce(&mut Connection) + Send + 'static) -> Fake {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("fake.sock")).unwrap();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            script(&mut Connection { reader: BufReader::new(stream.try_clone().unwrap()), writer: stream });
        });
        Fake { folder, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("fake.sock")
    }

    /// A command that talks to this daemon.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments, self.folder.path());
        command.arg("--socket").arg(self.socket());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let failed = self.thread.take().is_some_and(|thread| thread.join().is_err());
        assert!(!failed || std::thread::panicking(), "the script of the daemon failed");
    }
}

impl Connection {
    /// The next message of the command. `None`: it hung up.
    pub(crate) fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).unwrap_or(0);
        (count > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).unwrap();
    }

    /// Writes until the command hangs up; whether it ever did.
    pub(crate) fn write_until_closed(&mut self, text: &str) -> bool {
        (0..1_000_000).any(|_| self.writer.write_all(text.as_bytes()).is_err())
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, request: &Value, kind: &str, type_name: &str, data: &str) {
        let id = &request["metadata"]["id"];
        self.write(&format!(
            "{{\"kind\":\"{kind}\",\"type\":\"{type_name}\",\"data\":{data},\"metadata\":{{\"id\":\"answer\",\"timestamp\":1,\"causation\":{id}}}}}\n"
        ));
    }

    /// Replies to a request.
    pub(crate) fn reply(&mut self, request: &Value, data: &str) {
        self.answer(request, "reply", request["type"].as_str().unwrap(), data);
    }

    pub(crate) fn event(&mut self, type_name: &str, data: &Value) {
        self.write(&event(type_name, data));
    }
}

/// The line of an event.
pub(crate) fn event(type_name: &str, data: &Value) -> String {
    let message = json!({ "kind": "event", "type": type_name, "data": data, "metadata": { "id": "e", "timestamp": 1000 } });
    format!("{message}\n")
}

/// A command in a folder, without any daemon of the machine's own.
pub(crate) fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring"));
    // Times are told in the zone of whoever reads them.
    command.env("TZ", "UTC");
    command
        .args(arguments)
        .current_dir(folder)
        .env("XDG_RUNTIME_DIR", folder)
        .env_remove("MAINSPRING_SOCKET")
        .env_remove("MAINSPRING_TCP")
        .env_remove("MAINSPRING_TOKEN")
        .env_remove("MAINSPRING_TOKEN_FILE");
    command
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}
