//! The capability under test: a daemon of its own that runs nothing else, and the way to talk to
//! it.

use crate::cli::support::target::Failure;
use crate::client::{Address, Client, ClientError, ReplyTimeout};
use crate::config::{self, Overrides};
use crate::settings::Capability;
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of the daemon's log that are kept.
const LOG_LINES_MAX: usize = 20;
/// The names that a manifest has.
const MANIFEST_NAMES: [&str; 2] = ["capability.toml", "capability.json"];
/// How long the daemon may take to be gone after it was told to end, beyond what its capability may
/// take.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// A folder that is removed with everything in it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A daemon that runs one capability.
pub(super) struct TestSubject {
    pub(super) capability: Capability,
    child: Child,
    log: Arc<Mutex<VecDeque<String>>>,
    socket: PathBuf,
    _scratch: Scratch,
}

impl TestSubject {
    /// Reads the manifest in a folder (or the manifest itself) and starts a daemon for it.
    pub(super) fn start(place: &Path) -> Result<TestSubject, Failure> {
        let manifest = find_manifest(place)?;
        let scratch = scratch()?;
        let config = scratch.0.join("mainspring.toml");
        let text = format!(
            "native = []\nmanifests = [{:?}]\n[[listen]]\nunix = \"it.sock\"\n",
            manifest.display().to_string()
        );
        let failed = |error: std::io::Error| Failure::Refused(format!("cannot prepare a test: {error}"));
        fs::write(&config, text).map_err(failed)?;
        let settings = config::load(Some(&config), &Overrides::default())
            .map_err(|error| Failure::Refused(error.to_string()))?;
        let capability = settings.capabilities.into_iter().next();
        let capability = capability
            .ok_or_else(|| Failure::Refused(format!("{} describes no capability", manifest.display())))?;
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["up", "--json", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let log: Arc<Mutex<VecDeque<String>>> = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            keep_log(stderr, Arc::clone(&log));
        }
        let mut boot = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut boot).map_err(failed)?;
        }
        let socket = scratch.0.join("it.sock");
        let mut subject = TestSubject { capability, child, log, socket, _scratch: scratch };
        if !boot.contains("Sys.BootComplete") {
            let _ = subject.child.wait();
            return Err(Failure::Refused(format!("it does not start:\n{}", subject.log())));
        }
        Ok(subject)
    }

    /// A connection to the daemon.
    pub(super) fn connect(&self, timeout: Duration) -> Result<Client, ClientError> {
        Client::connect(&Address::Unix(self.socket.clone()), ReplyTimeout::new(Some(timeout)))
    }

    /// The last lines of the log, the capability's own among them.
    pub(super) fn log(&self) -> String {
        let lines = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("    {line}\n")).collect()
    }

    /// Waits until the daemon has ended, and says how long that took; nothing if it does not end.
    pub(super) fn ended(&mut self, grace: Duration) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < grace + END_PATIENCE {
            match self.child.try_wait() {
                Ok(Some(_)) => return Some(began.elapsed()),
                // Nothing tells a process without a loop that a child has ended, so it is asked.
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        None
    }
}

impl Drop for TestSubject {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&self.child),
                rustix::process::Signal::TERM,
            );
            let _ = self.ended(Duration::ZERO);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn find_manifest(place: &Path) -> Result<PathBuf, Failure> {
    let found = match place.is_dir() {
        true => MANIFEST_NAMES.iter().map(|name| place.join(name)).find(|path| path.is_file()),
        false => Some(place.to_path_buf()).filter(|path| path.is_file()),
    };
    let found = found.ok_or_else(|| {
        Failure::Usage(format!("{} has no {}", place.display(), MANIFEST_NAMES.join(" and no ")))
    })?;
    fs::canonicalize(&found).map_err(|error| Failure::Usage(format!("{}: {error}", found.display())))
}

fn scratch() -> Result<Scratch, Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let path = std::env::temp_dir().join(format!("mainspring-test-{}", crate::client::fresh_id()));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .map_err(|error| Failure::Refused(format!("cannot make {}: {error}", path.display())))?;
    Ok(Scratch(path))
}

fn keep_log(stderr: impl Read + Send + 'static, log: Arc<Mutex<VecDeque<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let mut lines = log.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == LOG_LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(String::from_utf8_lossy(&line).into_owned());
        }
    });
}
