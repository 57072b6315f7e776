//! Every child process and whatever those left behind, until they are reaped.
//!
//! The daemon is the parent that orphans fall to (a "child subreaper"), so that nothing a
//! capability started can outlive it: what leaves the process group, too, is found by the tag in
//! its environment, or by the pipes that it was given.

use crate::daemon::actors::Port;
use crate::daemon::actors::process::launch::INCARNATION_VARIABLE;
use crate::daemon::actors::process::sweep::{Finding, Sweep};
use mainspring_reactor::{Handle, Signal as ReactorSignal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the end of the daemon waits for children that were killed.
const REAP_TIMEOUT: Duration = Duration::from_secs(2);
/// Rounds of looking for orphans of orphans at the end.
const SWEEPS_MAX: usize = 64;
/// How long orphans are looked at in one go. Beyond: the rest has to wait, for as long as that
/// took, so that the daemon serves the others for half of the time at least, however many there
/// are.
const SWEEP_TIME_MAX: Duration = Duration::from_millis(1);

/// The children there are.
pub(crate) struct ChildProcesses {
    reactor: Handle,
    /// By process, the tag of its incarnation.
    children: RefCell<BTreeMap<i32, String>>,
    /// What was a child of this process before it was a daemon: a shell may have started it and
    /// become the daemon (`exec`) then.
    inherited: RefCell<BTreeSet<i32>>,
    /// Whether there was such a child at all: then orphans may be its children as well.
    has_inherited: bool,
    /// The tag that this process has itself, as a child of another daemon.
    own_tag: Option<OsString>,
    sweep: RefCell<Sweep>,
    /// Whether the rest of a sweep is waited for.
    sweep_waits: Cell<bool>,
    /// What children may open, whatever the daemon may.
    descriptors: Rlimit,
}

impl ChildProcesses {
    /// Child processes of a daemon that adopts orphans.
    pub(crate) fn new(
        reactor: &Handle,
        descriptors: Rlimit,
    ) -> Result<Rc<ChildProcesses>, mainspring_reactor::Error> {
        let inherited: BTreeSet<i32> =
            own_children().into_iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        let child_processes = Rc::new(ChildProcesses {
            reactor: reactor.clone(),
            children: RefCell::default(),
            has_inherited: !inherited.is_empty(),
            inherited: RefCell::new(inherited),
            own_tag: std::env::var_os(INCARNATION_VARIABLE),
            sweep: RefCell::default(),
            sweep_waits: Cell::new(false),
            descriptors,
        });
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(
                "cannot become a child subreaper, so orphans of capabilities are not ended: {error}"
            );
        }
        let at_signal = Rc::clone(&child_processes);
        reactor.on_signal(ReactorSignal::CHLD, move |_| at_signal.sweep())?;
        Ok(child_processes)
    }

    pub(super) fn descriptors(&self) -> Rlimit {
        self.descriptors
    }

    /// What tells the processes of this incarnation from all others.
    pub(super) fn tag(&self, port: &Port) -> String {
        let actor = port.actor();
        format!("{}.{}.{}", rustix::process::getpid().as_raw_nonzero(), actor.capability, actor.incarnation)
    }

    pub(super) fn take_in(&self, pid: Pid, port: &Port) {
        self.children.borrow_mut().insert(pid.as_raw_nonzero().get(), self.tag(port));
    }

    /// Signals a child and its whole group, unless it has been reaped: then its number may be
    /// another's.
    pub(super) fn signal(&self, pid: Pid, port: &Port, signal: Signal) {
        if self.children.borrow().get(&pid.as_raw_nonzero().get()) == Some(&self.tag(port)) {
            signal_with_group(pid, signal);
        }
    }

    /// Kills a child that nobody watches, and reaps it like an orphan when it is gone.
    pub(super) fn give_up(self: &Rc<ChildProcesses>, pid: Pid, port: &Port) {
        self.signal(pid, port, Signal::KILL);
        let tag = self.tag(port);
        self.children
            .borrow_mut()
            .retain(|number, living| *number != pid.as_raw_nonzero().get() || *living != tag);
        self.sweep();
    }

    /// Reaps a child that has ended, after killing what is left of its group. `None` while it
    /// lives.
    pub(super) fn reap(self: &Rc<ChildProcesses>, pid: Pid) -> Option<rustix::process::WaitStatus> {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        let (_, status) = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).ok()??;
        self.children.borrow_mut().remove(&pid.as_raw_nonzero().get());
        self.sweep();
        Some(status)
    }

    /// Reaps orphans that have ended, and kills those whose incarnation is over: some of them at
    /// once, the others by and by.
    pub(super) fn sweep(self: &Rc<ChildProcesses>) {
        self.sweep.borrow_mut().ask();
        if !self.sweep_waits.get() {
            self.sweep_some();
        }
    }

    /// Kills orphans that have one of these pipes as a standard stream: whatever they did to their
    /// environment, they come from the child that was given it. To be called when that child is
    /// gone.
    pub(super) fn end_holders(self: &Rc<ChildProcesses>, pipes: &[u64]) {
        self.sweep.borrow_mut().ask_for_holders(pipes);
        self.sweep();
    }

    /// Looks at orphans for a while; if there are more, goes on after a pause.
    fn sweep_some(self: &Rc<ChildProcesses>) {
        let began = self.reactor.now();
        let mut sweep = self.sweep.borrow_mut();
        let spent = || self.reactor.now().saturating_duration_since(began);
        while let Some(pid) = sweep.next(own_children) {
            let finding = self.look_at(pid, &sweep);
            sweep.found(pid, finding);
            if spent() >= SWEEP_TIME_MAX {
                break;
            }
        }
        if !sweep.has_more() {
            return;
        }
        let child_processes = Rc::clone(self);
        let resumed = self.reactor.after(spent(), move |_| {
            child_processes.sweep_waits.set(false);
            child_processes.sweep_some();
        });
        // Without a timer the next child that ends goes on with it.
        self.sweep_waits.set(resumed.is_ok());
    }

    /// Reaps an orphan, or kills it if its incarnation is over.
    fn look_at(&self, pid: Pid, sweep: &Sweep) -> Finding {
        let number = pid.as_raw_nonzero().get();
        if self.children.borrow().contains_key(&number) {
            return Finding::Child;
        }
        if !matches!(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)) {
            self.inherited.borrow_mut().remove(&number);
            return Finding::Gone;
        }
        if self.inherited.borrow().contains(&number) {
            return Finding::Child;
        }
        let tag = sweep.known_tag(pid).map(<[u8]>::to_vec).or_else(|| tag_of(pid));
        if tag.as_deref().is_some_and(|tag| self.is_over(tag)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        } else if holds(pid, sweep.pipes()) {
            // Its own children as well, if it is the first of its group. Any other group may be
            // somebody else's.
            if rustix::process::getpgid(Some(pid)) == Ok(pid) {
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            }
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        Finding::Orphan { tag }
    }

    /// Whether a tag is that of an incarnation that is over. That of the daemon itself is none of
    /// its own.
    fn is_over(&self, tag: &[u8]) -> bool {
        self.own_tag.as_ref().is_none_or(|own| own.as_bytes() != tag)
            && !self.children.borrow().values().any(|living| living.as_bytes() == tag)
    }

    /// Kills everything that is left and waits until it is gone.
    pub(crate) fn close(&self) {
        let deadline = Instant::now() + REAP_TIMEOUT;
        let children: Vec<i32> = self.children.take().into_keys().collect();
        for pid in children.iter().copied().filter_map(Pid::from_raw) {
            signal_with_group(pid, Signal::KILL);
        }
        for _ in 0..SWEEPS_MAX {
            let mut left = own_children();
            left.retain(|pid| children.contains(&pid.as_raw_nonzero().get()) || self.came_from_a_child(*pid));
            if left.is_empty() || Instant::now() >= deadline {
                break;
            }
            for pid in &left {
                let _ = rustix::process::kill_process(*pid, Signal::KILL);
            }
            for pid in left {
                wait_for(pid, deadline);
            }
        }
    }

    /// Whether an orphan comes from a child that the daemon started, whatever it did to hide that:
    /// so does every one, unless there were others before the daemon began. Then its limit tells:
    /// every child is forbidden core files, which it hands on to its own.
    fn came_from_a_child(&self, pid: Pid) -> bool {
        if !self.has_inherited {
            return true;
        }
        if self.inherited.borrow().contains(&pid.as_raw_nonzero().get()) {
            return false;
        }
        let may_write_cores = |limit: Rlimit| limit.maximum != Some(0);
        tag_of(pid).is_some_and(|tag| self.is_over(&tag))
            || !may_write_cores(rustix::process::getrlimit(Resource::Core))
            || core_limit_of(pid).is_some_and(|limit| !may_write_cores(limit))
    }
}

/// Signals a child that has not been reaped, and its whole group. It may have left that group: then
/// it is signalled by itself.
fn signal_with_group(pid: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(pid, signal);
    if rustix::process::getpgid(Some(pid)) != Ok(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The tag in the environment of a process.
fn tag_of(pid: Pid) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    entries
        .find_map(|entry| entry.strip_prefix(INCARNATION_VARIABLE.as_bytes())?.strip_prefix(b"="))
        .map(<[u8]>::to_vec)
}

/// How large a core file a process may write.
fn core_limit_of(pid: Pid) -> Option<Rlimit> {
    let text = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max core file size"))?;
    let mut words = line.split_ascii_whitespace().map(|word| word.parse().ok());
    Some(Rlimit { current: words.next()?, maximum: words.next()? })
}

/// Waits until a process that was killed is gone, and reaps it.
fn wait_for(pid: Pid, deadline: Instant) {
    if let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        // The end of any child interrupts it.
        let _ = rustix::io::retry_on_intr(|| {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left))
        });
    }
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
}

/// Whether a standard stream of a process is one of these pipes, by their inodes.
fn holds(pid: Pid, pipes: &[u64]) -> bool {
    let is_pipe = |stream: i32| {
        let path = format!("/proc/{}/fd/{stream}", pid.as_raw_nonzero());
        // Followed to the pipe itself.
        std::fs::metadata(path).is_ok_and(|about| pipes.contains(&about.ino()) && about.file_type().is_fifo())
    };
    !pipes.is_empty() && (0..3).any(is_pipe)
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
