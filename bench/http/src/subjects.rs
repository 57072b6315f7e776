//! Who is measured: each a process of its own, all of them on the same core; the load has another.

use crate::process::{Address, Server};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a client shows the daemon; the others take no notice.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server under load.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    pub(crate) address: String,
}

/// Everybody, in the order of the report.
pub(crate) const NAMES: [&str; 3] = ["mainspring", "hyper", "nginx"];

/// Starts a subject.
pub(crate) fn start(name: &str) -> Result<Subject, String> {
    let address = free_address()?;
    let (name, mut command) = match name {
        "mainspring" => ("mainspring", daemon(&address)?),
        "hyper" => ("hyper", echo(&address)?),
        "nginx" => ("nginx", nginx(&address)?),
        other => return Err(format!("there is no subject {other}")),
    };
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: between fork and exec only a system call is made, which allocates nothing.
    unsafe { command.pre_exec(stay_on_first_core) };
    let server = Server::start(&mut command, &Address::Tcp(address.clone()))?;
    Ok(Subject { name, server, address })
}

/// A port that is free now: nginx has no way to choose one and to say which.
fn free_address() -> Result<String, String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    free.map(|address| address.to_string()).map_err(|error| error.to_string())
}

fn stay_on_first_core() -> std::io::Result<()> {
    // SAFETY: a cpu_set_t is an array of integers, for which zero is valid; the call gets its size
    // and a pointer that lives through it.
    let outcome = unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut one);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one)
    };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn folder(name: &str) -> Result<PathBuf, String> {
    let path = std::env::temp_dir().join(format!("mainspring-http-bench-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    Ok(path)
}

fn write(path: &std::path::Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The daemon with its shipped defaults and one HTTP listener: `Memory.Set` is its own.
fn daemon(address: &str) -> Result<Command, String> {
    let told = std::env::var_os("MAINSPRING_BIN").map(PathBuf::from);
    let program = told
        .filter(|path| path.is_file())
        .ok_or("MAINSPRING_BIN names no program; run `cargo xtask bench http`, which builds it")?;
    let folder = folder("daemon")?;
    let config =
        format!("[[listen]]\nhttp = \"{address}\"\ntokens = [{{ name = \"bench\", token = \"{TOKEN}\" }}]\n");
    write(&folder.join("mainspring.toml"), &config)?;
    let mut command = Command::new(program);
    command.args(["up", "--log-level", "warn", "--socket"]).arg(folder.join("socket"));
    command.current_dir(folder);
    Ok(command)
}

fn echo(address: &str) -> Result<Command, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args(["echo", address]);
    Ok(command)
}

/// One process that answers everything with a body as long as that of the echo.
fn nginx(address: &str) -> Result<Command, String> {
    let program =
        ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| PathBuf::from(path).is_file());
    let program = program.ok_or("nginx is not there; `apt-get install nginx-light` brings it")?;
    let folder = folder("nginx")?;
    let config = format!(
        "daemon off; master_process off; pid {0}/pid; error_log stderr error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {0}; proxy_temp_path {0};\n\
         fastcgi_temp_path {0}; uwsgi_temp_path {0}; scgi_temp_path {0}; default_type application/json;\n\
         server {{ listen {address}; location / {{ return 200 '{{\"key\":\"key-0\",\"value\":\"0123456789abcdef0-0\"}}'; }} }} }}\n",
        folder.display()
    );
    let file = folder.join("nginx.conf");
    write(&file, &config)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&folder).arg("-c").arg(file).stderr(Stdio::null());
    Ok(command)
}
