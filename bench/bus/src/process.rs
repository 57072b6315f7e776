//! A server in a process of its own, and what the system knows of it.

use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command};
use std::time::{Duration, Instant};

/// How long a server may take to accept connections.
const START_TIME_LIMIT: Duration = Duration::from_secs(20);
const START_PAUSE: Duration = Duration::from_millis(10);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(String),
    Tcp(String),
}

impl Address {
    fn accepts(&self) -> bool {
        match self {
            Address::Unix(path) => UnixStream::connect(path).is_ok(),
            Address::Tcp(address) => std::net::TcpStream::connect(address).is_ok(),
        }
    }
}

/// A running server; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts a server and waits until it accepts connections.
    pub(crate) fn start(command: &mut Command, address: &Address) -> Result<Server, String> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("cannot start {shown}: {error}"))?;
        let mut server = Server { child };
        let deadline = Instant::now() + START_TIME_LIMIT;
        while !address.accepts() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("{shown} ended at once: {status}"));
            }
            if Instant::now() > deadline {
                return Err(format!("{shown} accepts nothing after {} s", START_TIME_LIMIT.as_secs()));
            }
            std::thread::sleep(START_PAUSE);
        }
        Ok(server)
    }

    /// Starts a process that nobody connects to; returns what it prints as well.
    pub(crate) fn start_helper(command: &mut Command) -> Result<(Server, ChildStdout), String> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| format!("cannot start {shown}: {error}"))?;
        let output = child.stdout.take();
        let server = Server { child };
        output.map(|output| (server, output)).ok_or_else(|| format!("{shown} has no standard output"))
    }

    /// CPU time of all its threads so far.
    pub(crate) fn cpu_ns(&self) -> Result<u64, String> {
        cpu_ns(self.child.id())
    }

    /// CPU time of its main thread so far.
    pub(crate) fn main_thread_cpu_ns(&self) -> Option<u64> {
        let pid = self.child.id();
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// CPU time of the processes that it started so far.
    pub(crate) fn children_cpu_ns(&self) -> u64 {
        let pid = self.child.id();
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| cpu_ns(pid.parse().ok()?).ok()).sum()
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let pages: Option<u64> = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
        // SAFETY: sysconf reads a constant of the system.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        pages.map(|pages| pages * page_bytes).ok_or_else(|| format!("cannot make sense of {path}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gracefully, because a daemon ends its own children.
        // SAFETY: a signal to a child that was not waited for, so its number is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(START_PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The CPU clock of another process, to the nanosecond: `/proc/PID/stat` counts in hundredths of a
/// second.
fn cpu_ns(pid: u32) -> Result<u64, String> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both write to locals that outlive the calls.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        return Err(format!("process {pid} has no CPU clock: it has ended"));
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
