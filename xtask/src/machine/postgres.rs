//! A private PostgreSQL: a data folder, a port and a password of its own, stopped and removed
//! afterwards, whatever happens.
//!
//! The server belongs to a shell that starts it, waits for the end of its own input, then stops it
//! and removes its folder. That input is a pipe from this process, which closes however this
//! process ends; so nothing is left behind even if the tests fail or someone presses Ctrl-C.

use crate::command::{self, exists};
use crate::machine::packages::{install, is_root};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The Debian package.
const PACKAGE: &str = "postgresql";
/// Where Debian keeps the programs that are not for everyone, one folder for each version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";
/// The user to become where we are root, which the server refuses to run as. The package makes the
/// first one.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// A port that was free a moment ago may be taken: how often another one is tried.
const ATTEMPTS: u32 = 3;
/// The connection string is in this variable.
const ADDRESS_VARIABLE: &str = "MAINSPRING_POSTGRES";
/// The path of a program that restarts the server is in this one.
const RESTART_VARIABLE: &str = "MAINSPRING_POSTGRES_RESTART";

/// Runs the server; `$1` is its folder, `$2` the folder of its programs, `$3` the port. What it
/// holds is not worth waiting for the disk.
const KEEPER: &str = r#"
trap '' INT TERM HUP
cd "$1" || exit 1
options="-c listen_addresses=127.0.0.1 -c port=$3 -c unix_socket_directories=$1 -c fsync=off -c max_wal_size=2GB"
"$2/initdb" --pgdata=data --username=mainspring --pwfile=password --auth=scram-sha-256 --encoding=UTF8 \
    --locale=C --no-sync >initdb.log 2>&1 || { tail -n 3 initdb.log; exit 1; }
"$2/pg_ctl" --pgdata=data --silent --wait --log=server.log --options="$options" start >start.log 2>&1 \
    || { tail -n 3 server.log start.log; exit 1; }
echo ready
read -r _
"$2/pg_ctl" --pgdata=data --silent --wait --mode=immediate stop >/dev/null 2>&1
cd / && rm -rf "$1"
"#;

#[derive(clap::Args)]
pub(crate) struct PostgresArguments {
    /// The command to run, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// `cargo xtask postgres`: runs a command that finds a server in its environment.
pub(crate) fn run(arguments: &PostgresArguments) -> Result<()> {
    let server = Server::start()?;
    let mut command = Command::new(&arguments.command[0]);
    command.args(&arguments.command[1..]);
    server.tell(&mut command);
    command::run(&mut command)
}

/// A server that runs. Dropping it stops and removes it.
pub(crate) struct Server {
    keeper: Child,
    address: String,
    restart: PathBuf,
}

impl Server {
    /// Installs what is missing, and starts a server.
    pub(crate) fn start() -> Result<Server> {
        let programs = programs()?;
        let user = User::find()?;
        let mut outcome = Server::attempt(&programs, &user);
        for _ in 1..ATTEMPTS {
            if outcome.is_ok() {
                break;
            }
            outcome = Server::attempt(&programs, &user);
        }
        outcome.context("the private PostgreSQL does not start")
    }

    /// Tells a command where the server is.
    pub(crate) fn tell(&self, command: &mut Command) {
        command.env(ADDRESS_VARIABLE, &self.address).env(RESTART_VARIABLE, &self.restart);
    }

    fn attempt(programs: &Path, user: &User) -> Result<Server> {
        let port = free_port()?;
        let password = password()?;
        let folder = std::env::temp_dir().join(format!("mainspring-postgres-{}-{port}", std::process::id()));
        let restart = folder.join("restart");
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        fs::write(folder.join("password"), &password)?;
        fs::write(&restart, user.restart_script(programs, &folder))?;
        fs::set_permissions(&restart, fs::Permissions::from_mode(0o755))?;
        for path in [&folder, &folder.join("password")] {
            user.give(path)?;
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&folder).arg(programs).arg(port.to_string());
        user.become_by(&mut keeper);
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(keeper.stdout.take().context("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.trim() != "ready" {
            output.read_to_string(&mut line)?;
            keeper.wait()?;
            fs::remove_dir_all(&folder)?;
            bail!("{}", line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let address =
            format!("host=127.0.0.1 port={port} user=mainspring password={password} dbname=postgres");
        Ok(Server { keeper, address, restart })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input tells the keeper; then there is nothing to do but wait.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The folder of the server's programs; installs them if need be.
fn programs() -> Result<PathBuf> {
    if let Some(folder) = installed() {
        return Ok(folder);
    }
    println!("==> installing {PACKAGE}");
    install(&[PACKAGE]);
    installed().with_context(|| format!("PostgreSQL is missing: install the package {PACKAGE}"))
}

fn installed() -> Option<PathBuf> {
    let complete =
        |folder: &Path| ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file());
    let versions = fs::read_dir(DEBIAN_FOLDER).into_iter().flatten().flatten();
    let debian = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, folder)| complete(folder))
        .max();
    let path = std::env::var_os("PATH").unwrap_or_default();
    debian.map(|(_, folder)| folder).or_else(|| std::env::split_paths(&path).find(|folder| complete(folder)))
}

/// Whom the server runs as: ourselves, unless we are root.
struct User(Option<Account>);

struct Account {
    name: &'static str,
    uid: u32,
    gid: u32,
}

impl User {
    fn find() -> Result<User> {
        if !is_root() {
            return Ok(User(None));
        }
        let number = |flag: &str, name: &str| {
            let output = Command::new("id").args([flag, name]).output().ok()?;
            String::from_utf8(output.stdout).ok()?.trim().parse().ok()
        };
        let account = USERS
            .into_iter()
            .find_map(|name| Some(Account { name, uid: number("-u", name)?, gid: number("-g", name)? }));
        let account = account
            .with_context(|| format!("PostgreSQL does not run as root, and there is no user {}", USERS[0]))?;
        if !exists("runuser") {
            bail!("PostgreSQL does not run as root, and runuser is missing: install the package util-linux");
        }
        Ok(User(Some(account)))
    }

    fn give(&self, path: &Path) -> Result<()> {
        match &self.0 {
            Some(account) => Ok(chown(path, Some(account.uid), Some(account.gid))?),
            None => Ok(()),
        }
    }

    fn become_by(&self, command: &mut Command) {
        if let Some(account) = &self.0 {
            command.uid(account.uid).gid(account.gid);
        }
        // A group of its own: Ctrl-C is for us, and reaches the server through the pipe.
        command.process_group(0);
    }

    /// A program that restarts the server in `folder`, with the options that it was started with.
    fn restart_script(&self, programs: &Path, folder: &Path) -> String {
        let (programs, folder) = (programs.display(), folder.display());
        let user =
            self.0.as_ref().map_or(String::new(), |account| format!("runuser -u {} -- ", account.name));
        format!(
            "#!/bin/sh\ncd '{folder}' && exec {user}'{programs}/pg_ctl' --pgdata=data --silent --wait --mode=fast \
             --log=server.log restart </dev/null >/dev/null 2>&1\n"
        )
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn password() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
