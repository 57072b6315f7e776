//! One incarnation of a child process: from its start until it is reaped.

use crate::daemon::actors::Port;
use crate::daemon::actors::process::child_processes::ChildProcesses;
use crate::daemon::actors::process::launch::Child;
use crate::daemon::actors::process::outcome::outcome;
use crate::daemon::actors::process::stderr_budget::StderrBudget;
use crate::daemon::actors::process::streams::ChildStream;
use crate::daemon::actors::stderr_log::StderrLog;
use crate::daemon::transport::outgoing::Outgoing;
use crate::settings::ProcessProgram;
use crate::system::process_stats::ProcessStats;
use crate::text::units::show_duration;
use mainspring_kernel::ActorExit;
use mainspring_message::lines::LineSplitter;
use mainspring_reactor::{Handle, Interest, Timer, Watcher};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// How long a child that closed one of its streams may take to end: mostly it is ending already,
/// and how says more.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the daemon knows of one child.
pub(super) struct ProcessIncarnation {
    pub(super) port: Port,
    pub(super) reactor: Handle,
    program: Rc<ProcessProgram>,
    child_processes: Rc<ChildProcesses>,
    pid: Pid,
    pub(super) line_bytes_max: usize,
    exit_watch: Option<Watcher>,
    pub(super) stdin: Option<ChildStream>,
    pub(super) stdout: Option<ChildStream>,
    pub(super) stderr: Option<ChildStream>,
    /// The inodes of its pipes, by which whoever else has them is known.
    pipes: Vec<u64>,
    pub(super) out: Outgoing,
    /// The pipe is full, and the kernel was told.
    pub(super) blocked: bool,
    pub(super) listening: bool,
    /// Its input is to end when everything is written.
    pub(super) stopping: bool,
    /// How it ended, while what it said before is still being read.
    pub(super) exit: Option<ActorExit>,
    /// Nothing of it matters any more but that it is reaped.
    given_up: bool,
    timer: Option<Timer>,
    pub(super) lines: LineSplitter,
    pub(super) stderr_log: StderrLog,
    pub(super) stderr_budget: StderrBudget,
    pub(super) buffer: Box<[u8]>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

fn inodes(pipes: &[&OwnedFd]) -> Vec<u64> {
    pipes.iter().filter_map(|pipe| Some(rustix::fs::fstat(pipe).ok()?.st_ino)).collect()
}

pub(super) type SharedIncarnation = Rc<RefCell<ProcessIncarnation>>;

impl ProcessIncarnation {
    /// Takes a child that was started into care. It says that it is there, and is not listened to
    /// yet.
    pub(super) fn begin(
        child: Child,
        port: Port,
        reactor: &Handle,
        program: &Rc<ProcessProgram>,
        child_processes: &Rc<ChildProcesses>,
    ) -> Result<SharedIncarnation, String> {
        let incarnation = Rc::new(RefCell::new(ProcessIncarnation {
            line_bytes_max: port.line_bytes_max(),
            stderr_log: StderrLog::of(&port, reactor),
            port,
            reactor: reactor.clone(),
            program: Rc::clone(program),
            child_processes: Rc::clone(child_processes),
            pid: child.pid,
            exit_watch: None,
            pipes: inodes(&[&child.stdin, &child.stdout, &child.stderr]),
            stdin: ChildStream::new(child.stdin),
            stdout: ChildStream::new(child.stdout),
            stderr: ChildStream::new(child.stderr),
            out: Outgoing::default(),
            blocked: false,
            listening: true,
            stopping: false,
            exit: None,
            given_up: false,
            timer: None,
            lines: LineSplitter::default(),
            stderr_budget: StderrBudget::new(reactor.now()),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            bytes_in: 0,
            bytes_out: 0,
        }));
        let at_exit = Rc::clone(&incarnation);
        let watching = reactor
            .watch(child.pidfd)
            .label("child")
            .start_with(Interest::READ, move |_, _| ProcessIncarnation::ended(&at_exit));
        let mut child = incarnation.borrow_mut();
        match watching {
            Ok(watcher) => child.exit_watch = Some(watcher),
            Err(error) => {
                child.terminate();
                return Err(error.to_string());
            }
        }
        child.port.spawned(Ok(()));
        drop(child);
        Ok(incarnation)
    }

    /// Ends the child's input; then it is told (SIGTERM), then killed.
    pub(super) fn stop(this: &SharedIncarnation) {
        this.borrow_mut().stopping = true;
        ProcessIncarnation::flush(this);
        let mut incarnation = this.borrow_mut();
        let (grace, told) = (incarnation.program.grace, Rc::clone(this));
        let reactor = incarnation.reactor.clone();
        let timer = reactor.after(grace, move |reactor| {
            let mut incarnation = told.borrow_mut();
            let (capability, waited) = (&**incarnation.port.name(), show_duration(grace));
            tracing::warn!(
                capability,
                "its input has ended, and it has not for {waited}: it gets SIGTERM, and is killed in another {waited}"
            );
            incarnation.child_processes.signal(incarnation.pid, &incarnation.port, Signal::TERM);
            let killed = Rc::clone(&told);
            incarnation.timer = reactor.after(grace, move |_| killed.borrow().kill()).ok();
        });
        incarnation.set_timer(timer.ok());
    }

    /// A child that closed a stream has some time to end before it is made to.
    pub(super) fn expect_exit(this: &SharedIncarnation, what: &'static str) {
        let mut incarnation = this.borrow_mut();
        if incarnation.stopping
            || incarnation.given_up
            || incarnation.exit.is_some()
            || incarnation.timer.is_some()
        {
            return;
        }
        let late = Rc::clone(this);
        let timer = incarnation.reactor.clone().after(EXIT_TIMEOUT, move |_| {
            late.borrow_mut().fail(&format!("{what} and went on"));
        });
        incarnation.set_timer(timer.ok());
    }

    fn set_timer(&mut self, timer: Option<Timer>) {
        if let Some(old) = std::mem::replace(&mut self.timer, timer) {
            self.reactor.cancel(old);
        }
    }

    fn kill(&self) {
        self.child_processes.signal(self.pid, &self.port, Signal::KILL);
    }

    /// Gives the child up, and says why.
    pub(super) fn fail(&mut self, reason: &str) {
        if !self.given_up {
            self.port.exited(ActorExit::Failed(reason.to_owned()));
            self.terminate();
        }
    }

    /// Ends the child and everything in its group. Whatever it still says is ignored; it is reaped
    /// when it is gone.
    pub(super) fn terminate(&mut self) {
        if std::mem::replace(&mut self.given_up, true) {
            return;
        }
        self.kill();
        self.close_all();
        if self.exit_watch.is_none() {
            self.child_processes.give_up(self.pid, &self.port);
        }
    }

    /// The child has ended. What it said before is read at the usual pace, and given nothing more;
    /// then the kernel is told.
    fn ended(this: &SharedIncarnation) {
        let mut incarnation = this.borrow_mut();
        let Some(status) = incarnation.child_processes.reap(incarnation.pid) else { return };
        incarnation.child_processes.end_holders(&incarnation.pipes);
        if let Some(watcher) = incarnation.exit_watch.take() {
            incarnation.reactor.unwatch(watcher);
        }
        if incarnation.given_up {
            return incarnation.close_all();
        }
        incarnation.exit = Some(outcome(&status));
        if !incarnation.blocked {
            incarnation.blocked = true;
            incarnation.port.blocked();
        }
        incarnation.close_input();
        if incarnation.stdout.as_ref().is_none_or(|stdout| stdout.watcher.is_none()) {
            return incarnation.report_exit();
        }
        drop(incarnation);
        ProcessIncarnation::wait_for_last_output(this);
    }

    /// Somebody else may hold the child's output open: that is not waited for, unless it is we who
    /// do not read.
    fn wait_for_last_output(this: &SharedIncarnation) {
        let mut incarnation = this.borrow_mut();
        let late = Rc::clone(this);
        let timer = incarnation.reactor.clone().after(EXIT_TIMEOUT, move |_| {
            if late.borrow().listening {
                late.borrow_mut().report_exit();
            } else {
                ProcessIncarnation::wait_for_last_output(&late);
            }
        });
        incarnation.set_timer(timer.ok());
    }

    /// Everything that the child said has been heard: the kernel is told how it ended.
    pub(super) fn report_exit(&mut self) {
        let Some(exit) = self.exit.take() else { return };
        self.port.said_the_last(&mut self.lines);
        self.read_rest_of_stderr();
        self.given_up = true;
        self.port.exited(exit);
        self.close_all();
    }

    fn close_all(&mut self) {
        self.close_input();
        self.close_output();
        self.close_stderr();
        self.set_timer(None);
        self.buffer = Box::default();
    }

    pub(super) fn stats(&self) -> Value {
        let pid = self.pid.as_raw_nonzero().get();
        let used = ProcessStats::of(pid);
        json!({
            "kind": "process",
            "pid": pid,
            "memoryBytes": used.map(|used| used.memory_bytes),
            "cpuMs": used.map(|used| used.cpu_ms),
            "bytesIn": self.bytes_in,
            "bytesOut": self.bytes_out,
            "waitingBytes": self.out.len(),
            "listening": self.listening,
        })
    }
}
