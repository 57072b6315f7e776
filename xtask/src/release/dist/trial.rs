//! The package, tried: installed into an empty root, its units read by systemd, and the daemon
//! started in there.

use crate::command::{exists, root, run, target_dir};
use crate::machine::packages::is_root;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(30);
/// The socket of the package's configuration, below its root.
const SOCKET: &str = "run/mainspring/mainspring.sock";
/// The most exposure that systemd may see in the unit of the system, of 10.
const EXPOSURE_MAX: &str = "3.0";

/// What a model's program says first.
const GREETING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"trial","version":"1"}}}"#;

pub(super) fn run_trial(package: &Path) -> Result<()> {
    let scratch = root().join(target_dir()).join("dist-root");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    }
    fs::create_dir_all(&scratch)?;
    install(package, &scratch)?;
    let files = [
        "usr/bin/mainspring",
        "usr/bin/mainspring-mcp",
        "etc/mainspring/mainspring.toml",
        "usr/share/man/man1/mainspring-up.1.gz",
        "usr/share/doc/mainspring/copyright",
    ];
    for file in files {
        ensure!(scratch.join(file).is_file(), "the package has no /{file}");
    }
    read_units(&scratch)?;
    talk(&scratch)?;
    fs::remove_dir_all(&scratch)?;
    println!("the package is installed, started, talked to and ended in a scratch root");
    Ok(())
}

/// By dpkg, as an administrator would; without rights for that, unpacked.
fn install(package: &Path, scratch: &Path) -> Result<()> {
    if !is_root() {
        return run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(scratch));
    }
    let state = scratch.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(state.join(folder))?;
    }
    fs::write(state.join("status"), "")?;
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", scratch.display()));
    dpkg.args(["--force-script-chrootless", "--log=/dev/null", "--install"]).arg(package);
    run(dpkg.stdout(Stdio::null()))
}

/// systemd reads the units, and says how much the service could do.
fn read_units(scratch: &Path) -> Result<()> {
    if !exists("systemd-analyze") {
        println!("missing: systemd-analyze; the units are not read");
        return Ok(());
    }
    let units = scratch.join("usr/lib/systemd/system");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--threshold"]).arg(EXPOSURE_MAX.replace('.', ""));
    security.arg(units.join("mainspring.service")).stdout(Stdio::null());
    run(&mut security).context("the unit is too open")
}

/// The daemon with the configuration of the package, in folders that systemd would make.
fn talk(scratch: &Path) -> Result<()> {
    for folder in ["run/mainspring", "var/lib/mainspring", "tmp"] {
        fs::create_dir_all(scratch.join(folder))?;
        fs::set_permissions(scratch.join(folder), fs::Permissions::from_mode(0o755))?;
    }
    let place = Place { scratch: scratch.to_owned(), chroot: is_root() };
    let mut daemon = Daemon(place.start()?);
    place.wait_for_socket()?;
    let asked = |words: &[&str]| -> Result<String> {
        let output = place.program(words).env("MAINSPRING_SOCKET", place.path(SOCKET)).output()?;
        ensure!(
            output.status.success(),
            "`mainspring {}` failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    asked(&["send", "Memory.Set", "key=colour", "value=blue"])?;
    let said = asked(&["query", "Memory.Get", "key=colour"])?;
    ensure!(said.contains("blue"), "Memory.Get says {said}");
    greet_the_bridge(scratch)?;
    asked(&["send", "Syscall.Shutdown"])?;
    daemon.wait()?;
    let kept = scratch.join("var/lib/mainspring/journal/identity");
    ensure!(!place.chroot || kept.is_file(), "the daemon has kept no journal");
    Ok(())
}

/// `mainspring mcp` goes on as the package's own bridge, and that speaks to the daemon. From
/// outside: the two pass settings on by a descriptor, and the scratch root has no `/proc`.
fn greet_the_bridge(scratch: &Path) -> Result<()> {
    let mut bridge = Command::new(scratch.join("usr/bin/mainspring"))
        .arg("mcp")
        .env("MAINSPRING_SOCKET", scratch.join(SOCKET))
        .env_remove("MAINSPRING_MCP")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the bridge")?;
    let mut input = bridge.stdin.take().context("no input")?;
    let mut output = BufReader::new(bridge.stdout.take().context("no output")?);
    let mut said = String::new();
    let heard = writeln!(input, "{GREETING}").and_then(|()| output.read_line(&mut said));
    drop(input);
    let ended = bridge.wait()?;
    heard.context("the bridge does not answer")?;
    ensure!(said.contains("serverInfo"), "the bridge says {said:?}, and ends with {ended}");
    Ok(())
}

/// The scratch root: entered, where we may; else its files are named from outside.
struct Place {
    scratch: PathBuf,
    chroot: bool,
}

impl Place {
    fn path(&self, path: &str) -> PathBuf {
        if self.chroot { Path::new("/").join(path) } else { self.scratch.join(path) }
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut command = if self.chroot {
            let mut command = Command::new("chroot");
            command.arg(&self.scratch).arg("/usr/bin/mainspring");
            command
        } else {
            Command::new(self.scratch.join("usr/bin/mainspring"))
        };
        command.args(words).env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", "/");
        command
    }

    fn start(&self) -> Result<Child> {
        // Without a root of our own nothing but the socket is where the configuration says.
        let socket = self.path(SOCKET).display().to_string();
        let words: &[&str] = if self.chroot {
            &["up", "--config", "/etc/mainspring/mainspring.toml"]
        } else {
            &["up", "--no-config", "--socket", &socket]
        };
        self.program(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the daemon")
    }

    /// Waits until there is somebody at the socket.
    fn wait_for_socket(&self) -> Result<()> {
        let (socket, start) = (self.scratch.join(SOCKET), Instant::now());
        while start.elapsed() < PATIENCE {
            if UnixStream::connect(&socket).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the daemon does not listen on {}", socket.display())
    }
}

/// A daemon that ends with us.
struct Daemon(Child);

impl Daemon {
    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "the daemon ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the daemon does not end")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
