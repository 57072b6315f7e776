//! The nursery: every child process and whatever those left behind, until they are reaped.
//!
//! The daemon is the parent that orphans fall to (a "child subreaper"), so that nothing a capability started can outlive it: what leaves
//! the process group, too, is found by the tag in its environment, or by the pipes that it was given.

use super::super::Port;
use super::launch::LIFE_VARIABLE;
use mainspring_reactor::{Handle, Signal as ReactorSignal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Rlimit, Signal, WaitOptions};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the end of the daemon waits for children that were killed.
const REAP_PATIENCE: Duration = Duration::from_secs(2);
/// Rounds of looking for orphans of orphans at the end.
const SWEEPS_MAX: usize = 64;

/// The children there are.
pub(crate) struct Nursery {
    /// By process, the tag of its life.
    children: RefCell<BTreeMap<i32, String>>,
    /// What children may open, whatever the daemon may.
    descriptors: Rlimit,
}

impl Nursery {
    /// A nursery that adopts orphans.
    pub(crate) fn new(
        reactor: &Handle,
        descriptors: Rlimit,
    ) -> Result<Rc<Nursery>, mainspring_reactor::Error> {
        let nursery = Rc::new(Nursery { children: RefCell::default(), descriptors });
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!("orphans of capabilities go to somebody else: {error}");
        }
        let at_signal = Rc::clone(&nursery);
        reactor.on_signal(ReactorSignal::CHLD, move |_| at_signal.sweep())?;
        Ok(nursery)
    }

    pub(super) fn descriptors(&self) -> Rlimit {
        self.descriptors
    }

    /// What tells the processes of this life from all others.
    pub(super) fn tag(&self, port: &Port) -> String {
        let actor = port.actor();
        format!("{}.{}.{}", rustix::process::getpid().as_raw_nonzero(), actor.capability, actor.incarnation)
    }

    pub(super) fn take_in(&self, pid: Pid, port: &Port) {
        self.children.borrow_mut().insert(pid.as_raw_nonzero().get(), self.tag(port));
    }

    /// Kills a child and its whole group. The child must not have been reaped: then its number is nobody else's.
    pub(super) fn kill(&self, pid: Pid) {
        self.signal(pid, Signal::KILL);
    }

    pub(super) fn signal(&self, pid: Pid, signal: Signal) {
        if self.children.borrow().contains_key(&pid.as_raw_nonzero().get()) {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    /// Reaps a child that has ended, after killing what is left of its group. `None` while it lives.
    pub(super) fn reap(&self, pid: Pid) -> Option<rustix::process::WaitStatus> {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        let (_, status) = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).ok()??;
        self.children.borrow_mut().remove(&pid.as_raw_nonzero().get());
        self.sweep();
        Some(status)
    }

    /// Reaps orphans that have ended, and kills those whose life is over.
    pub(super) fn sweep(&self) {
        for pid in own_children() {
            if self.children.borrow().contains_key(&pid.as_raw_nonzero().get()) {
                continue;
            }
            if self.is_of_a_life_that_is_over(pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    fn is_of_a_life_that_is_over(&self, pid: Pid) -> bool {
        let Ok(environment) = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else {
            return false;
        };
        let name = format!("{LIFE_VARIABLE}=");
        let tag = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(name.as_bytes()));
        tag.is_some_and(|tag| !self.children.borrow().values().any(|living| living.as_bytes() == tag))
    }

    /// Kills orphans that have one of these pipes as a standard stream: whatever they did to their environment, they come from the child
    /// that was given it. To be called when that child is gone.
    pub(super) fn end_holders(&self, pipes: &[u64]) {
        for pid in own_children() {
            if self.children.borrow().contains_key(&pid.as_raw_nonzero().get()) || !holds(pid, pipes) {
                continue;
            }
            // Its own children as well, if it is the first of its group. Any other group may be somebody else's.
            if rustix::process::getpgid(Some(pid)) == Ok(pid) {
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            } else {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Kills everything that is left and waits until it is gone.
    pub(crate) fn close(&self) {
        let deadline = Instant::now() + REAP_PATIENCE;
        let children: Vec<i32> = self.children.take().into_keys().collect();
        for pid in children.iter().copied().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        for _ in 0..SWEEPS_MAX {
            let left = own_children();
            if left.is_empty() || Instant::now() >= deadline {
                break;
            }
            for pid in left {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                wait_for(pid, deadline);
            }
        }
    }
}

/// Waits until a process that was killed is gone, and reaps it.
fn wait_for(pid: Pid, deadline: Instant) {
    if let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left));
    }
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
}

/// Whether a standard stream of a process is one of these pipes, by their inodes.
fn holds(pid: Pid, pipes: &[u64]) -> bool {
    (0..3).any(|stream| {
        let path = format!("/proc/{}/fd/{stream}", pid.as_raw_nonzero());
        // Followed to the pipe itself.
        std::fs::metadata(path).is_ok_and(|about| pipes.contains(&about.ino()) && about.file_type().is_fifo())
    })
}

/// The children of this process, whoever started them.
fn own_children() -> Vec<Pid> {
    let mut found = Vec::new();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return found };
    for thread in threads.flatten() {
        if let Ok(text) = std::fs::read_to_string(thread.path().join("children")) {
            found.extend(text.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
    }
    found
}
