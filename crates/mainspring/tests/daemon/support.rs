//! A daemon in a folder of its own, and clients that speak to it.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take before a test gives up: long, because the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program.
pub(crate) fn mainspring() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring"));
    command.env_remove("MAINSPRING_SOCKET").env_remove("NOTIFY_SOCKET");
    command
}

/// A daemon that runs until it is dropped.
pub(crate) struct Daemon {
    child: Child,
    folder: TempDir,
    /// What it says about itself when it is up.
    pub(crate) boot: Value,
    output: BufReader<std::process::ChildStdout>,
}

impl Daemon {
    /// A daemon with the built-in defaults.
    pub(crate) fn start() -> Daemon {
        Daemon::with_config("")
    }

    /// A daemon with this configuration.
    pub(crate) fn with_config(config: &str) -> Daemon {
        Daemon::with_files(config, &[])
    }

    /// A daemon with this configuration and these files beside it.
    pub(crate) fn with_files(config: &str, files: &[(&str, &str)]) -> Daemon {
        Daemon::prepared(config, files, |_| {})
    }

    /// The same, with more to say about how it is started.
    pub(crate) fn prepared(
        config: &str,
        files: &[(&str, &str)],
        prepare: impl FnOnce(&mut Command),
    ) -> Daemon {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("mainspring.toml"), config).expect("the configuration");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let log = File::create(folder.path().join("log")).expect("the log");
        let mut command = mainspring();
        command
            .args(["up", "--json", "--log-level", "debug", "--config"])
            .arg(folder.path().join("mainspring.toml"))
            .arg("--socket")
            .arg(folder.path().join("socket"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        prepare(&mut command);
        let mut child = command.spawn().expect("the program");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the boot");
        let boot: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            panic!("it did not boot: {line:?}\n{log}")
        });
        assert_eq!(boot["type"], json!("Sys.BootComplete"), "{boot}");
        Daemon { child, folder, boot, output }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).expect("the log")
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(UnixStream::connect(self.socket()).expect("a connection"))
    }

    pub(crate) fn signal(&self, signal: &str) {
        signal_process(self.pid(), signal);
    }

    /// Waits for its end, and gives what else it said on standard output.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut rest = String::new();
        // Standard output ends when the process does.
        let _ = self.output.read_to_string(&mut rest);
        self.child.wait().expect("its end")
    }

    /// Ends it as it should be ended, and checks that it left nothing behind.
    pub(crate) fn end(mut self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "{status}\n{}", self.log());
        assert!(!self.socket().exists(), "the socket is still there");
    }

    /// Its numbers.
    pub(crate) fn stats(&self) -> Value {
        self.connect().query("Sys.Stats", json!({}))
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("its descriptors").count()
    }

    /// Its children, dead ones that were not reaped among them.
    pub(crate) fn children(&self) -> usize {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        std::fs::read_to_string(path).expect("its children").split_ascii_whitespace().count()
    }

    /// Bytes of memory that it uses.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).expect("statm");
        text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
    }
}

/// A daemon without a configuration, which listens at `socket`; for tests that look at its start,
/// its streams or its end themselves.
pub(crate) fn start_at(socket: &Path, words: &[&str], log: Stdio) -> Child {
    let mut command = mainspring();
    command.args(["up", "--no-config", "--socket"]).arg(socket).args(words);
    let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("the program");
    eventually("it listens", || UnixStream::connect(socket).is_ok());
    child
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the daemon's log ---\n{}", tail(&self.log()));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(8000);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(start);
    &text[start..]
}

pub(crate) fn signal_process(pid: u32, signal: &str) {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().expect("kill");
    assert!(status.success(), "kill -{signal} {pid}");
}

/// Whether a process is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with('Z')))
}

/// Waits until `holds`: for what nobody tells.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

pub(crate) fn fresh_id() -> String {
    format!("t-{}", NEXT_ID.fetch_add(1, Ordering::Relaxed))
}

/// A message as a line with its line break.
pub(crate) fn line(kind: &str, type_name: &str, id: &str, data: &Value) -> String {
    line_with(kind, type_name, id, data, &json!({}))
}

/// A message with more metadata.
pub(crate) fn line_with(kind: &str, type_name: &str, id: &str, data: &Value, more: &Value) -> String {
    let mut metadata = json!({ "id": id, "timestamp": 1 });
    for (name, value) in more.as_object().expect("an object") {
        metadata[name] = value.clone();
    }
    format!("{}\n", json!({ "kind": kind, "type": type_name, "data": data, "metadata": metadata }))
}

/// A client.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    pub(crate) fn new(stream: UnixStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        let reader = BufReader::new(stream.try_clone().expect("a second descriptor"));
        Client { stream, reader }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the daemon reads");
    }

    /// The next message, or nothing at the end.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            // Cut off in the middle.
            Ok(_) if !line.ends_with('\n') => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("nothing came: {error}"),
        }
    }

    pub(crate) fn receive(&mut self) -> Value {
        self.next().expect("a message, and not the end")
    }

    /// The next message that `fits`; others are skipped.
    pub(crate) fn receive_until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.receive();
            if fits(&message) {
                return message;
            }
        }
    }

    /// Everything until the end.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Sends one message and gives the outcome.
    pub(crate) fn ask(&mut self, kind: &str, type_name: &str, data: Value) -> Value {
        let id = fresh_id();
        self.send(line(kind, type_name, &id, &data));
        self.receive_until(|message| {
            message["metadata"]["causation"] == json!(id) && message["kind"] != json!("event")
        })
    }

    /// The data of the reply to a command.
    pub(crate) fn command(&mut self, type_name: &str, data: Value) -> Value {
        reply_data(self.ask("command", type_name, data))
    }

    /// The data of the reply to a query.
    pub(crate) fn query(&mut self, type_name: &str, data: Value) -> Value {
        reply_data(self.ask("query", type_name, data))
    }

    pub(crate) fn subscribe(&mut self, types: &[&str]) {
        self.command("Sys.Subscribe", json!({ "types": types }));
    }

    /// The next event of this type.
    pub(crate) fn event(&mut self, type_name: &str) -> Value {
        self.receive_until(|message| message["kind"] == json!("event") && message["type"] == json!(type_name))
    }

    /// Says that nothing more will be sent.
    pub(crate) fn end_input(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a shutdown");
    }
}

fn reply_data(message: Value) -> Value {
    assert_eq!(message["kind"], json!("reply"), "{message}");
    message["data"].clone()
}

/// The code of an error.
pub(crate) fn code(message: &Value) -> u64 {
    assert_eq!(message["kind"], json!("error"), "{message}");
    message["data"]["code"].as_u64().expect("a code")
}

/// A capability of a process that handles these `kind:Type` pairs, as it is written in
/// `mainspring.toml`.
pub(crate) fn process(id: &str, handles: &[&str], command: &[&str], more: &str) -> String {
    let branches: Vec<String> = handles
        .iter()
        .map(|handle| {
            let (kind, name) = handle.split_once(':').expect("kind:Type");
            format!("{{ properties = {{ kind = {{ const = {kind:?} }}, type = {{ const = {name:?} }} }} }}")
        })
        .collect();
    format!(
        "[[capability]]\nid = {id:?}\ndescription = \"For a test.\"\ninbound = {{ anyOf = [{}] }}\n{more}\n[capability.program]\nprocess = {command:?}\n",
        branches.join(", ")
    )
}

/// A library for processes in tests: `serve(answer)` answers every request with what
/// `answer(message)` gives.
pub(crate) const LIBRARY: &str = r#"
import json, os, sys, time, signal

def say(kind, name, data, cause=None, **more):
    say.count = getattr(say, "count", 0) + 1
    metadata = {"id": "p-%d-%d" % (os.getpid(), say.count), "timestamp": int(time.time() * 1000)}
    if cause is not None:
        metadata["causation"] = cause["metadata"]["id"]
    metadata.update(more)
    sys.stdout.write(json.dumps({"kind": kind, "type": name, "data": data, "metadata": metadata}) + "\n")
    sys.stdout.flush()

def messages():
    for text in sys.stdin:
        yield json.loads(text)

def reply(message, data):
    say("reply", message["type"], data, message)

def serve(answer):
    for message in messages():
        if message["kind"] in ("command", "query"):
            reply(message, answer(message))
"#;

/// Starts a daemon with processes in Python, each with [`LIBRARY`] at hand as `lib`.
pub(crate) fn with_programs(config: &str, programs: &[(&str, &str)]) -> Daemon {
    let mut files = vec![("lib.py", LIBRARY)];
    files.extend_from_slice(programs);
    Daemon::with_files(config, &files)
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
