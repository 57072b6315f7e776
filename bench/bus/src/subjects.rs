//! Who is measured: a server, and how it is spoken to.

use crate::process::{Address, Server};
use crate::{daemon, peers};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A server under load.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    /// Whoever answers behind the server, where that is not the server itself.
    _helper: Option<Server>,
    protocol: &'static str,
    pub(crate) address: String,
}

impl Subject {
    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A server that is spoken to on its socket.
    pub(crate) fn on_socket(
        name: &'static str,
        protocol: &'static str,
        server: Server,
        address: String,
    ) -> Subject {
        Subject { name, server, _helper: None, protocol, address }
    }

    /// The words that make the load generator speak to it.
    pub(crate) fn words(&self) -> [&str; 3] {
        ["load", self.protocol, &self.address]
    }
}

/// Everybody, in the order of the report.
pub(crate) const NAMES: [&str; 6] =
    ["mainspring", "mainspring-process", "mainspring-wasm", "raw", "nats", "redis"];

/// Starts a subject; its sockets are in the folder.
pub(crate) fn start(name: &str, folder: &Path) -> Result<Subject, String> {
    let on_socket = |name, protocol, (server, address): (Server, Address)| {
        let address = match address {
            Address::Unix(path) | Address::Tcp(path) => path,
        };
        Ok(Subject { name, server, _helper: None, protocol, address })
    };
    match name {
        "mainspring" => on_socket("mainspring", "memory", daemon::native(folder)?),
        "mainspring-process" => on_socket("mainspring-process", "capability", daemon::with_process(folder)?),
        "mainspring-wasm" => on_socket("mainspring-wasm", "capability", daemon::with_guest(folder)?),
        "raw" => on_socket("raw", "echo", raw(folder)?),
        "redis" => on_socket("redis", "redis", redis(folder)?),
        "nats" => nats(),
        other => Err(format!("there is no subject {other}")),
    }
}

fn raw(folder: &Path) -> Result<(Server, Address), String> {
    let socket = folder.join("raw.sock").display().to_string();
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let address = Address::Unix(socket.clone());
    Ok((Server::start(Command::new(this).args(["echo", &socket]), &address)?, address))
}

fn redis(folder: &Path) -> Result<(Server, Address), String> {
    let socket = folder.join("redis.sock").display().to_string();
    let address = Address::Unix(socket.clone());
    let mut command = Command::new(peers::redis_server()?);
    command.args(["--unixsocket", &socket, "--port", "0", "--save", "", "--appendonly", "no"]);
    command.current_dir(folder).stdout(Stdio::null());
    Ok((Server::start(&mut command, &address)?, address))
}

pub(crate) fn nats() -> Result<Subject, String> {
    // A port that is free now; nats-server has no way to choose one and to say which.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.map_err(|error| error.to_string())?.port();
    let (listening, url) = (Address::Tcp(format!("127.0.0.1:{port}")), format!("nats://127.0.0.1:{port}"));
    let mut command = Command::new(peers::nats_server()?);
    command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server::start(&mut command, &listening)?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut responder = Command::new(this);
    responder.args(["responder", &url]).stdout(Stdio::piped());
    let (helper, output) = Server::start_helper(&mut responder)?;
    let mut ready = String::new();
    BufReader::new(output).read_line(&mut ready).map_err(|error| error.to_string())?;
    if ready.trim() != "ready" {
        return Err("the service behind nats-server did not come up".into());
    }
    Ok(Subject { name: "nats", server, _helper: Some(helper), protocol: "nats", address: url })
}
