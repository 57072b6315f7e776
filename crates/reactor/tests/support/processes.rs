//! Child processes of a test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How long a forked child may work.
const CHILD_SECONDS_MAX: libc::c_uint = 20;

/// Forks. The child runs `work` and ends without running anything of the test harness; it reports
/// by its exit code.
pub(crate) fn fork(work: impl FnOnce()) -> Forked {
    // SAFETY: the child runs only the test's own code, with the C library's allocator, which
    // survives a fork.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: no precondition. A child that hangs must not hang the test.
            unsafe { libc::alarm(CHILD_SECONDS_MAX) };
            let code = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(()) => 0,
                Err(_) => 101,
            };
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(code) }
        }
        pid => Forked { pid },
    }
}

/// A child made by [`fork`].
pub(crate) struct Forked {
    pub(crate) pid: libc::pid_t,
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl Forked {
    /// Whether the child has not ended.
    pub(crate) fn is_running(&self) -> bool {
        // SAFETY: all zeroes is a valid value, which the call fills in.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            assert_eq!(libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, options), 0);
            info.si_signo == 0
        }
    }

    /// Waits for the child and checks that its work went well.
    pub(crate) fn join(self) {
        assert_eq!(self.wait(), Ended::Exited(0), "the child's part of the test failed");
    }

    /// Waits for the child.
    pub(crate) fn wait(self) -> Ended {
        let mut status = 0;
        // SAFETY: the status is a live integer.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } != self.pid {
            assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::Interrupted);
        }
        if libc::WIFEXITED(status) {
            Ended::Exited(libc::WEXITSTATUS(status))
        } else {
            Ended::Killed(libc::WTERMSIG(status))
        }
    }
}

/// Processor time that this thread has used so far.
pub(crate) fn thread_cpu_time() -> Duration {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The real monotonic clock.
pub(crate) fn monotonic_time() -> Duration {
    read_clock(libc::CLOCK_MONOTONIC)
}

fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a live timespec.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ends the whole process if a test hangs, for as long as it lives.
pub(crate) struct Watchdog(Option<std::sync::mpsc::Sender<()>>);

impl Watchdog {
    pub(crate) fn new() -> Watchdog {
        let (sender, receiver) = std::sync::mpsc::channel();
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        std::thread::spawn(move || {
            let timeout = Duration::from_secs(CHILD_SECONDS_MAX.into());
            if receiver.recv_timeout(timeout) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{name} hangs");
                std::process::abort();
            }
        });
        Watchdog(Some(sender))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// The numbers of all descriptors that this process has open.
#[cfg(target_os = "linux")]
pub(crate) fn open_descriptors() -> Vec<std::os::fd::RawFd> {
    let listed: Vec<std::os::fd::RawFd> = std::fs::read_dir("/proc/self/fd")
        .expect("the list of descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The list itself was one of them.
    let is_open = |fd: &std::os::fd::RawFd| {
        // SAFETY: only asks whether the number is open.
        unsafe { libc::fcntl(*fd, libc::F_GETFD) >= 0 }
    };
    listed.into_iter().filter(is_open).collect()
}

/// The signals that the thread of this name blocks, as a set of bits. It may take a moment to get
/// its name.
#[cfg(target_os = "linux")]
pub(crate) fn blocked_in_thread(name: &str) -> Option<u64> {
    let name = &name[..name.len().min(15)];
    for _ in 0..2000 {
        for thread in std::fs::read_dir("/proc/self/task").expect("the threads").flatten() {
            // A thread may end meanwhile.
            let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
            let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
            if field("Name:") == Some(name) {
                return field("SigBlk:").and_then(|bits| u64::from_str_radix(bits, 16).ok());
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Sets how many descriptors this process may have, and returns how many that were.
pub(crate) fn limit_descriptors(count: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls are handed a live rlimit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, count);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        before
    }
}
