//! A bus for tests: nats-servers and daemons, each in a folder of its own.

use crate::support::{Client, LIBRARY, PATIENCE, eventually, mainspring, signal_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where the nats-server is that `cargo xtask nats-server` installs.
fn nats_program() -> PathBuf {
    if let Some(path) = std::env::var_os("MAINSPRING_NATS_SERVER") {
        return path.into();
    }
    let daemon = Path::new(env!("CARGO_BIN_EXE_mainspring"));
    let tools = daemon.ancestors().nth(2).expect("the target folder").join("tools");
    let folders = std::fs::read_dir(&tools).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        folders.map(|folder| folder.join("bin/nats-server")).filter(|path| path.is_file()).collect();
    found.sort();
    found.pop().expect("no nats-server: run `cargo xtask nats-server`, which installs one, first")
}

/// A nats-server that runs until it is dropped.
pub(crate) struct NatsServer {
    child: Child,
    folder: TempDir,
    pub(crate) port: u16,
}

impl NatsServer {
    /// One without any accounts.
    pub(crate) fn start() -> NatsServer {
        NatsServer::with_config("")
    }

    /// One with this configuration.
    pub(crate) fn with_config(config: &str) -> NatsServer {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("nats.conf"), config).expect("the configuration");
        let child = run_nats(folder.path(), "-1");
        let ports = folder.path().join(format!("nats-server_{}.ports", child.id()));
        let mut port = 0;
        eventually("the nats-server listens", || {
            let told = std::fs::read_to_string(&ports).unwrap_or_default();
            let told: Value = serde_json::from_str(&told).unwrap_or_default();
            let url = told["nats"][0].as_str().unwrap_or_default();
            port = url.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
            port > 0
        });
        NatsServer { child, folder, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Where other servers of its cluster reach it.
    pub(crate) fn cluster_port(&self) -> u16 {
        let ports = self.path(&format!("nats-server_{}.ports", self.child.id()));
        let told: Value =
            serde_json::from_str(&std::fs::read_to_string(ports).expect("its ports")).expect("JSON");
        let url = told["cluster"][0].as_str().expect("a cluster");
        url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn signal(&self, signal: &str) {
        signal_process(self.child.id(), signal);
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) {
        self.child = run_nats(self.folder.path(), &self.port.to_string());
    }
}

fn run_nats(folder: &Path, port: &str) -> Child {
    let mut command = Command::new(nats_program());
    command.args(["-a", "127.0.0.1", "-p", port, "--ports_file_dir"]).arg(folder);
    command.arg("-c").arg(folder.join("nats.conf")).arg("-l").arg(folder.join("nats.log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nats-server")
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.path("nats.log")).unwrap_or_default();
            eprintln!("--- the log of the nats-server ---\n{log}");
        }
        // A server that is stopped would not notice that it is killed.
        let _ =
            Command::new("kill").args(["-CONT", &self.child.id().to_string()]).stderr(Stdio::null()).status();
        self.kill();
    }
}

/// A daemon of the bus, which can be killed and started again where it was.
pub(crate) struct Node {
    pub(crate) name: String,
    child: Child,
    folder: TempDir,
}

/// What a node is to be.
#[derive(Clone, Default)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) urls: Vec<String>,
    /// More keys of `[uplink]`.
    pub(crate) uplink: String,
    /// The rest of the configuration.
    pub(crate) config: String,
    /// Files beside it.
    pub(crate) files: Vec<(String, String)>,
}

impl Plan {
    pub(crate) fn new(name: &str, nats: &NatsServer) -> Plan {
        Plan { name: name.into(), urls: vec![nats.url()], ..Plan::default() }
    }

    pub(crate) fn uplink(mut self, keys: &str) -> Plan {
        self.uplink.push_str(keys);
        self.uplink.push('\n');
        self
    }

    /// Shares the capability of the tests, with these further keys of its manifest.
    pub(crate) fn serves(self, more: &str) -> Plan {
        let types = [
            "query:Test.Where",
            "command:Test.Do",
            "command:Test.Slow",
            "query:Test.Large",
            "command:Test.Fail",
            "command:Test.Steps",
        ];
        let program = ["python3", "work.py"];
        let capability = crate::support::process("test", &types, &program, more);
        self.config(&capability)
    }

    pub(crate) fn config(mut self, text: &str) -> Plan {
        self.config.push_str(text);
        self.config.push('\n');
        self
    }

    pub(crate) fn file(mut self, name: &str, text: &str) -> Plan {
        self.files.push((name.into(), text.into()));
        self
    }

    pub(crate) fn start(&self) -> Node {
        let folder = TempDir::new().expect("a folder");
        let Plan { name, urls, uplink, config, files } = self;
        let text = format!(
            "native = []\n[uplink]\nnats = {urls:?}\nbus = \"test\"\nnode = {name:?}\n{uplink}\n{config}"
        );
        std::fs::write(folder.path().join("mainspring.toml"), text).expect("the configuration");
        std::fs::write(folder.path().join("lib.py"), LIBRARY).expect("a file");
        std::fs::write(folder.path().join("work.py"), WORK.replace("NODE", name)).expect("a file");
        for (file, text) in files {
            std::fs::write(folder.path().join(file), text).expect("a file");
        }
        let child = run_daemon(folder.path());
        Node { name: name.clone(), child, folder }
    }
}

/// What the capability of the tests does: tells where it is, notes what it did, takes its time.
const WORK: &str = r#"
import threading
from lib import *
lock = threading.Lock()

def answer(message):
    data, name = message["data"], message["type"]
    if name == "Test.Where":
        return {"node": "NODE", "metadata": message["metadata"]}
    if name == "Test.Large":
        return "x" * data
    if name == "Test.Steps":
        for step in range(data):
            with lock:
                say("event", "Test.Progress", {"step": step}, message)
        return data
    if name == "Test.Slow":
        with open("began", "a") as log:
            log.write(message["metadata"]["id"] + "\n")
        time.sleep(data)
    with open("done", "a") as log:
        log.write(message["metadata"]["id"] + "\n")
    return {"node": "NODE"}

def work(message):
    if message["type"] == "Test.Fail":
        with lock:
            say("error", "Test.Fail", {"code": 418, "message": "no tea"}, message)
        return
    data = answer(message)
    with lock:
        reply(message, data)

for message in messages():
    if message["kind"] in ("command", "query"):
        threading.Thread(target=work, args=(message,), daemon=True).start()
"#;

fn run_daemon(folder: &Path) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("the log");
    let mut command = mainspring();
    command.args(["up", "--json", "--log-level", "debug", "--config"]).arg(folder.join("mainspring.toml"));
    command.arg("--socket").arg(folder.join("socket")).current_dir(folder);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("the program");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("the boot");
    let boot: Value = serde_json::from_str(&line).unwrap_or_default();
    let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert_eq!(boot["type"], json!("Sys.BootComplete"), "{line}\n{}", log());
    child
}

impl Node {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(UnixStream::connect(self.path("socket")).expect("a connection"))
    }

    pub(crate) fn signal(&self, signal: &str) {
        signal_process(self.pid(), signal);
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(&mut self) {
        eventually("it ends", || self.child.try_wait().expect("its state").is_some());
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) {
        self.child = run_daemon(self.folder.path());
    }

    /// The lines of a file that its capability writes.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What it tells of the bus.
    pub(crate) fn bus(&self) -> Value {
        self.connect().query("Sys.Stats", json!({}))["floors"]["uplink"].clone()
    }

    /// Waits until it can send to exactly these nodes.
    pub(crate) fn sees(&self, nodes: &[&str]) {
        let mut told = Value::Null;
        let deadline = Instant::now() + PATIENCE;
        loop {
            told = if let Ok(stream) = UnixStream::connect(self.path("socket")) {
                Client::new(stream).query("Sys.Stats", json!({}))["floors"]["uplink"].clone()
            } else {
                told
            };
            let import = &told["imports"][0];
            if import["nodes"] == json!(nodes) && import["adopted"] == json!(true) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{} does not see {nodes:?}: {told:#}\n{}",
                self.name,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the log of {} ---\n{}", self.name, self.log());
        }
        self.kill();
    }
}

/// Whether an error says that the request was started.
pub(crate) fn started(message: &Value) -> bool {
    assert_eq!(message["kind"], json!("error"), "{message}");
    match message["data"]["started"].as_str() {
        Some("yes") => true,
        Some("no") => false,
        _ => panic!("{message}"),
    }
}
