//! Who is measured: servers that answer when a command is on disk, and two loops without a server.

use crate::process::{Address, Server};
use crate::{daemon, peers};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Everybody, in the order of the report.
pub(super) const NAMES: [&str; 8] = [
    "mainspring",
    "mainspring-process",
    "mainspring-not-durable",
    "mainspring-process-not-durable",
    "raw",
    "redis",
    "jetstream",
    "sqlite",
];

/// Somebody under load.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) protocol: &'static str,
    pub(super) address: String,
    server: Option<Server>,
    /// Whether it tells how often it has flushed.
    has_journal: bool,
}

impl Subject {
    /// Starts a subject; its sockets and its data are in the folder.
    pub(super) fn start(name: &str, folder: &Path) -> Result<Subject, String> {
        let journal = |name: &str| folder.join(format!("journal-{name}")).display().to_string();
        let ours = |name, protocol, (server, address): (Server, Address), has_journal| {
            let (Address::Unix(address) | Address::Tcp(address)) = address;
            Ok(Subject { name, protocol, address, server: Some(server), has_journal })
        };
        let alone = |name, protocol| {
            let address = folder.display().to_string();
            Ok(Subject { name, protocol, address, server: None, has_journal: false })
        };
        match name {
            "mainspring" => {
                let daemon = daemon::native_with(folder, "durable", &["--journal", &journal("native")])?;
                ours("mainspring", "memory", daemon, true)
            }
            "mainspring-process" => {
                let words = ["--journal", &journal("process")];
                let daemon = daemon::with_process_and(folder, "durable-process", &words)?;
                ours("mainspring-process", "capability", daemon, true)
            }
            "mainspring-not-durable" => {
                ours("mainspring-not-durable", "memory", daemon::native_with(folder, "memory", &[])?, false)
            }
            "mainspring-process-not-durable" => {
                let daemon = daemon::with_process_and(folder, "memory-process", &[])?;
                ours("mainspring-process-not-durable", "capability", daemon, false)
            }
            "redis" => ours("redis", "redis", redis(folder)?, false),
            "jetstream" => ours("jetstream", "jetstream", jetstream(folder)?, false),
            "raw" => alone("raw", "commit"),
            "sqlite" => alone("sqlite", "sqlite"),
            other => Err(format!("there is no subject {other}")),
        }
    }

    /// CPU time of its server so far.
    pub(super) fn cpu_ns(&self) -> Result<Option<u64>, String> {
        self.server.as_ref().map(Server::cpu_ns).transpose()
    }

    /// CPU time of its main thread so far, which is the loop of our daemons.
    pub(super) fn loop_cpu_ns(&self) -> Option<u64> {
        self.server.as_ref().filter(|_| self.name.starts_with("mainspring"))?.main_thread_cpu_ns()
    }

    /// How often a daemon with a journal has flushed.
    pub(super) fn flushes(&self) -> Result<Option<u64>, String> {
        if !self.has_journal {
            return Ok(None);
        }
        let told = ask_for_stats(&self.address).map_err(|error| format!("Sys.Stats: {error}"))?;
        let marker = "\"flushes\":";
        let at = told.find(marker).ok_or("Sys.Stats tells of no flushes")? + marker.len();
        let digits: String = told[at..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().map(Some).map_err(|_| "Sys.Stats tells no number of flushes".to_owned())
    }
}

/// Starts a daemon on a journal; gives how many seconds it took until it accepted connections, and
/// how many of them it says that it read the journal.
pub(super) fn start_on(folder: &Path, journal: &Path) -> Result<(f64, f64), String> {
    let socket = folder.join("start.sock").display().to_string();
    let log = folder.join("start.log");
    let file = std::fs::File::create(&log).map_err(|error| error.to_string())?;
    let mut command = Command::new(peers::mainspring()?);
    command.args(["up", "--no-config", "--log-json", "--socket", &socket, "--journal"]).arg(journal);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let began = Instant::now();
    let server = Server::start(&mut command, &Address::Unix(socket));
    let whole = began.elapsed().as_secs_f64();
    let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
    drop(server.map_err(|error| format!("{error}: {text}"))?);
    let marker = "facts read in ";
    let found = text.find(marker).map(|at| &text[at + marker.len()..]);
    let digits: Option<String> = found.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
    let ms: Option<f64> = digits.and_then(|digits| digits.parse().ok());
    ms.map(|ms| (whole, ms.max(1.0) / 1000.0))
        .ok_or_else(|| format!("the log does not tell how long it took: {text}"))
}

fn ask_for_stats(socket: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let id = bench_support::monotonic_ns();
    writeln!(
        stream,
        r#"{{"kind":"query","type":"Sys.Stats","data":{{}},"metadata":{{"id":"stats-{id}","timestamp":1}}}}"#
    )?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

fn redis(folder: &Path) -> Result<(Server, Address), String> {
    let socket = folder.join("redis.sock").display().to_string();
    let address = Address::Unix(socket.clone());
    let mut command = Command::new(peers::redis_server()?);
    command.args(["--unixsocket", &socket, "--port", "0", "--save", ""]);
    // Rewriting the file is no part of what is measured.
    command.args(["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]);
    command.current_dir(folder).stdout(Stdio::null());
    Ok((Server::start(&mut command, &address)?, address))
}

fn jetstream(folder: &Path) -> Result<(Server, Address), String> {
    // A port that is free now; nats-server has no way to choose one and to say which.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.map_err(|error| error.to_string())?.port();
    let (config, data) = (folder.join("nats.conf"), folder.join("jetstream"));
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {:?}, sync_interval: always }}\n",
        data.display().to_string()
    );
    std::fs::write(&config, text).map_err(|error| format!("cannot write {}: {error}", config.display()))?;
    let mut command = Command::new(peers::nats_server()?);
    command.arg("--config").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    let address = format!("127.0.0.1:{port}");
    let server = Server::start(&mut command, &Address::Tcp(address.clone()))?;
    Ok((server, Address::Tcp(format!("nats://{address}"))))
}
