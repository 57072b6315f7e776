//! One incarnation of a child process: from its start until it is reaped.

use crate::daemon::actors::Port;
use crate::daemon::actors::process::child_processes::ChildProcesses;
use crate::daemon::actors::process::launch::Child;
use crate::daemon::actors::process::outcome::outcome;
use crate::daemon::actors::process::stderr_budget::StderrBudget;
use crate::daemon::actors::stderr_log::StderrLog;
use crate::daemon::transport::outgoing::{Drained, Outgoing};
use crate::settings::ProcessProgram;
use mainspring_kernel::ActorExit;
use mainspring_message::Envelope;
use mainspring_message::lines::LineSplitter;
use mainspring_reactor::{Handle, Interest, Readiness, Timer, Watcher};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// What is given to a child is written once per turn of the reactor, or whenever it is this much.
const WRITE_BYTES: usize = 64 << 10;
/// How long a child that closed one of its streams may take to end: mostly it is ending already,
/// and how says more.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the daemon knows of one child.
pub(super) struct ProcessIncarnation {
    port: Port,
    reactor: Handle,
    program: Rc<ProcessProgram>,
    child_processes: Rc<ChildProcesses>,
    pid: Pid,
    line_bytes_max: usize,
    exit_watch: Option<Watcher>,
    stdin: Option<ChildStream>,
    stdout: Option<ChildStream>,
    stderr: Option<ChildStream>,
    /// The inodes of its pipes, by which whoever else has them is known.
    pipes: Vec<u64>,
    out: Outgoing,
    /// The pipe is full, and the kernel was told.
    blocked: bool,
    listening: bool,
    /// Its input is to end when everything is written.
    stopping: bool,
    /// How it ended, while what it said before is still being read.
    exit: Option<ActorExit>,
    /// Nothing of it matters any more but that it is reaped.
    given_up: bool,
    timer: Option<Timer>,
    lines: LineSplitter,
    stderr_log: StderrLog,
    stderr_budget: StderrBudget,
    buffer: Box<[u8]>,
    bytes_in: u64,
    bytes_out: u64,
}

/// One end of a pipe, and who watches it.
struct ChildStream {
    pipe: OwnedFd,
    watcher: Option<Watcher>,
}

impl ChildStream {
    fn new(pipe: OwnedFd) -> Option<ChildStream> {
        Some(ChildStream { pipe, watcher: None })
    }
}

fn inodes(pipes: &[&OwnedFd]) -> Vec<u64> {
    pipes.iter().filter_map(|pipe| Some(rustix::fs::fstat(pipe).ok()?.st_ino)).collect()
}

type SharedIncarnation = Rc<RefCell<ProcessIncarnation>>;

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

    /// Starts listening to both outputs, and to whether the child still takes input.
    pub(super) fn attach(this: &SharedIncarnation) -> Result<(), String> {
        let mut incarnation = this.borrow_mut();
        let incarnation = &mut *incarnation;
        let (stdin, stdout, stderr) = (Rc::clone(this), Rc::clone(this), Rc::clone(this));
        if let Some(stream) = &mut incarnation.stdin {
            let watch = incarnation.reactor.watch_raw(stream.pipe.as_raw_fd(), ()).label("child stdin");
            let watcher = watch.start_with(Interest::ERROR, move |(), event| {
                ProcessIncarnation::input_changed(&stdin, event.readiness())
            });
            stream.watcher = Some(watcher.map_err(|error| error.to_string())?);
        }
        if let Some(stream) = &mut incarnation.stdout {
            let watch = incarnation.reactor.watch_raw(stream.pipe.as_raw_fd(), ()).label("child stdout");
            let interest = if incarnation.listening { Interest::READ } else { Interest::empty() };
            let watcher = watch.start_with(interest, move |(), _| ProcessIncarnation::read_output(&stdout));
            stream.watcher = Some(watcher.map_err(|error| error.to_string())?);
        }
        if let Some(stream) = &mut incarnation.stderr {
            let watch = incarnation.reactor.watch_raw(stream.pipe.as_raw_fd(), ()).label("child stderr");
            let watcher =
                watch.start_with(Interest::READ, move |(), _| ProcessIncarnation::read_complaints(&stderr));
            stream.watcher = Some(watcher.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Buffers a message for the child.
    pub(super) fn deliver(&mut self, message: &Envelope) {
        if self.stdin.is_none() {
            return;
        }
        self.out.push(message);
    }

    /// Writes what was delivered, as far as the pipe takes it.
    pub(super) fn flush(this: &SharedIncarnation) {
        let broken = this.borrow_mut().write();
        if broken {
            ProcessIncarnation::expect_exit(this, "it closed its standard input");
        } else {
            ProcessIncarnation::watch_for_room(this);
        }
    }

    /// Returns whether the child does not take anything any more.
    fn write(&mut self) -> bool {
        let Some(stdin) = &self.stdin else { return false };
        let before = self.out.len();
        let drained = self.out.drain(|bytes| {
            let count = bytes.len().min(WRITE_BYTES);
            rustix::io::write(&stdin.pipe, &bytes[..count])
        });
        self.bytes_out += (before - self.out.len()) as u64;
        match drained {
            Err(_) => {
                self.close_input();
                return !self.stopping;
            }
            Ok(Drained::Everything) if self.stopping => self.close_input(),
            Ok(_) => self.out.trim(WRITE_BYTES),
        }
        false
    }

    /// Tells the kernel whether the child takes more, and has the reactor say when it does.
    fn watch_for_room(this: &SharedIncarnation) {
        let mut incarnation = this.borrow_mut();
        let incarnation = &mut *incarnation;
        let full = !incarnation.out.is_empty();
        if full == incarnation.blocked {
            return;
        }
        let Some(stdin) = &incarnation.stdin else { return };
        incarnation.blocked = full;
        if full {
            incarnation.port.blocked();
        } else {
            incarnation.port.ready();
        }
        let interest = if full { Interest::WRITE | Interest::ERROR } else { Interest::ERROR };
        let Some(watcher) = stdin.watcher else { return };
        if let Err(error) = incarnation.reactor.modify(watcher, interest) {
            incarnation.fail(&format!("its standard input cannot be watched: {error}"));
        }
    }

    /// The child takes more, or nothing any more.
    fn input_changed(this: &SharedIncarnation, readiness: Readiness) {
        if readiness.contains(Readiness::ERROR) {
            this.borrow_mut().close_input();
            ProcessIncarnation::expect_exit(this, "it closed its standard input");
        } else {
            ProcessIncarnation::flush(this);
        }
    }

    fn read_output(this: &SharedIncarnation) {
        let mut incarnation = this.borrow_mut();
        match incarnation.read_lines() {
            Ok(true) => {}
            Ok(false) if incarnation.exit.is_some() => incarnation.say_goodbye(),
            Ok(false) => {
                incarnation.close_output();
                drop(incarnation);
                ProcessIncarnation::expect_exit(this, "it closed its standard output");
            }
            Err(error) => incarnation.fail(&format!("its standard output cannot be read: {error}")),
        }
    }

    /// Reads once and hands on the lines. Returns whether there may be more.
    fn read_lines(&mut self) -> Result<bool, Errno> {
        let Some(stdout) = &self.stdout else { return Ok(false) };
        let count = match rustix::io::read(&stdout.pipe, &mut self.buffer[..]) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
            Err(error) => return Err(error),
        };
        self.bytes_in += count as u64;
        self.port.said(&self.buffer[..count], &mut self.lines, self.line_bytes_max);
        Ok(true)
    }

    fn read_complaints(this: &SharedIncarnation) {
        let mut incarnation = this.borrow_mut();
        let incarnation = &mut *incarnation;
        let Some(stderr) = &incarnation.stderr else { return };
        match rustix::io::read(&stderr.pipe, &mut incarnation.buffer[..]) {
            Ok(0) => incarnation.close_complaints(),
            Ok(count) => {
                let now = incarnation.reactor.now();
                incarnation.stderr_log.hear(&incarnation.buffer[..count], now);
                let (Some(pause), Some(watcher)) =
                    (incarnation.stderr_budget.spend(count, now), stderr.watcher)
                else {
                    return;
                };
                let resumed = incarnation.reactor.after(pause, move |reactor| {
                    let _ = reactor.modify(watcher, Interest::READ);
                });
                if resumed.is_ok() {
                    let _ = incarnation.reactor.modify(watcher, Interest::empty());
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => incarnation.close_complaints(),
        }
    }

    pub(super) fn set_listening(&mut self, listening: bool) {
        self.listening = listening;
        if let Some(watcher) = self.stdout.as_ref().and_then(|stdout| stdout.watcher) {
            let interest = if listening { Interest::READ } else { Interest::empty() };
            if let Err(error) = self.reactor.modify(watcher, interest) {
                self.fail(&format!("its standard output cannot be watched: {error}"));
            }
        }
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
            incarnation.child_processes.signal(incarnation.pid, &incarnation.port, Signal::TERM);
            let killed = Rc::clone(&told);
            incarnation.timer = reactor.after(grace, move |_| killed.borrow().kill()).ok();
        });
        incarnation.set_timer(timer.ok());
    }

    /// A child that closed a stream has some time to end before it is made to.
    fn expect_exit(this: &SharedIncarnation, what: &'static str) {
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
    fn fail(&mut self, reason: &str) {
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
            return incarnation.say_goodbye();
        }
        drop(incarnation);
        ProcessIncarnation::wait_for_the_last(this);
    }

    /// Somebody else may hold the child's output open: that is not waited for, unless it is we who
    /// do not read.
    fn wait_for_the_last(this: &SharedIncarnation) {
        let mut incarnation = this.borrow_mut();
        let late = Rc::clone(this);
        let timer = incarnation.reactor.clone().after(EXIT_TIMEOUT, move |_| {
            if late.borrow().listening {
                late.borrow_mut().say_goodbye();
            } else {
                ProcessIncarnation::wait_for_the_last(&late);
            }
        });
        incarnation.set_timer(timer.ok());
    }

    /// Everything that the child said has been heard: the kernel is told how it ended.
    fn say_goodbye(&mut self) {
        let Some(exit) = self.exit.take() else { return };
        self.port.said_the_last(&mut self.lines);
        self.hear_last_complaints();
        self.given_up = true;
        self.port.exited(exit);
        self.close_all();
    }

    fn hear_last_complaints(&mut self) {
        let Some(stderr) = &self.stderr else { return };
        let now = self.reactor.now();
        while let Ok(count @ 1..) = rustix::io::read(&stderr.pipe, &mut self.buffer[..]) {
            self.stderr_log.hear(&self.buffer[..count], now);
            if self.stderr_budget.spend(count, now).is_some() {
                break;
            }
        }
        // The last line needs no end.
        self.stderr_log.finish(now);
    }

    fn close_all(&mut self) {
        self.close_input();
        self.close_output();
        self.close_complaints();
        self.set_timer(None);
        self.buffer = Box::default();
    }

    fn close_input(&mut self) {
        let stdin = self.stdin.take();
        self.close(stdin);
        self.out.clear();
    }

    fn close_output(&mut self) {
        let stdout = self.stdout.take();
        self.close(stdout);
    }

    fn close_complaints(&mut self) {
        let stderr = self.stderr.take();
        if stderr.is_some() {
            self.stderr_log.finish(self.reactor.now());
        }
        self.close(stderr);
    }

    fn close(&self, stream: Option<ChildStream>) {
        if let Some(watcher) = stream.and_then(|stream| stream.watcher) {
            self.reactor.unwatch(watcher);
        }
    }

    pub(super) fn stats(&self) -> Value {
        json!({
            "kind": "process",
            "pid": self.pid.as_raw_nonzero().get(),
            "bytesIn": self.bytes_in,
            "bytesOut": self.bytes_out,
            "waitingBytes": self.out.len(),
            "listening": self.listening,
        })
    }
}
