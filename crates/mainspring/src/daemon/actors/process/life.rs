//! One life of a child process, from its start until it is reaped.

use crate::daemon::actors::Port;
use crate::daemon::actors::process::child_processes::ChildProcesses;
use crate::daemon::actors::process::launch::Child;
use crate::daemon::actors::process::outcome::outcome;
use crate::daemon::actors::process::stderr_budget::StderrBudget;
use crate::daemon::actors::stderr_log::StderrLog;
use crate::daemon::transport::lines::LineCutter;
use crate::settings::ProcessProgram;
use crate::system::process_stats::ProcessStats;
use crate::text::units::show_duration;
use mainspring_kernel::ActorExit;
use mainspring_message::Envelope;
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
/// What is given to a child is written once per turn of the loop, or whenever it is this much.
const WRITE_BYTES: usize = 64 << 10;
/// How long a child that closed one of its streams may take to end: mostly it is ending already, and how says more.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// What the daemon knows of one child.
pub(super) struct Life {
    port: Port,
    reactor: Handle,
    program: Rc<ProcessProgram>,
    child_processes: Rc<ChildProcesses>,
    pid: Pid,
    line_bytes_max: usize,
    exit_watch: Option<Watcher>,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    /// The inodes of its pipes, by which whoever else has them is known.
    pipes: Vec<u64>,
    out: Vec<u8>,
    out_done: usize,
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
    lines: LineCutter,
    stderr_log: StderrLog,
    stderr_budget: StderrBudget,
    buffer: Box<[u8]>,
    bytes_in: u64,
    bytes_out: u64,
}

/// One end of a pipe, and who watches it.
struct Stream {
    pipe: OwnedFd,
    watcher: Option<Watcher>,
}

impl Stream {
    fn new(pipe: OwnedFd) -> Option<Stream> {
        Some(Stream { pipe, watcher: None })
    }
}

fn inodes(pipes: &[&OwnedFd]) -> Vec<u64> {
    pipes.iter().filter_map(|pipe| Some(rustix::fs::fstat(pipe).ok()?.st_ino)).collect()
}

type Shared = Rc<RefCell<Life>>;

impl Life {
    /// Takes a child that was started into care. It says that it is there, and is not listened to yet.
    pub(super) fn begin(
        child: Child,
        port: Port,
        reactor: &Handle,
        program: &Rc<ProcessProgram>,
        child_processes: &Rc<ChildProcesses>,
    ) -> Result<Shared, String> {
        let life = Rc::new(RefCell::new(Life {
            line_bytes_max: port.line_bytes_max(),
            stderr_log: StderrLog::of(&port, reactor),
            port,
            reactor: reactor.clone(),
            program: Rc::clone(program),
            child_processes: Rc::clone(child_processes),
            pid: child.pid,
            exit_watch: None,
            pipes: inodes(&[&child.stdin, &child.stdout, &child.stderr]),
            stdin: Stream::new(child.stdin),
            stdout: Stream::new(child.stdout),
            stderr: Stream::new(child.stderr),
            out: Vec::new(),
            out_done: 0,
            blocked: false,
            listening: true,
            stopping: false,
            exit: None,
            given_up: false,
            timer: None,
            lines: LineCutter::default(),
            stderr_budget: StderrBudget::new(reactor.now()),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            bytes_in: 0,
            bytes_out: 0,
        }));
        let at_exit = Rc::clone(&life);
        let watching = reactor
            .watch(child.pidfd)
            .label("child")
            .start_with(Interest::READ, move |_, _| Life::ended(&at_exit));
        let mut it = life.borrow_mut();
        match watching {
            Ok(watcher) => it.exit_watch = Some(watcher),
            Err(error) => {
                it.terminate();
                return Err(error.to_string());
            }
        }
        it.port.spawned(Ok(()));
        drop(it);
        Ok(life)
    }

    /// Starts listening to both outputs, and to whether the child still takes input.
    pub(super) fn attach(this: &Shared) -> Result<(), String> {
        let mut life = this.borrow_mut();
        let life = &mut *life;
        let (stdin, stdout, stderr) = (Rc::clone(this), Rc::clone(this), Rc::clone(this));
        if let Some(stream) = &mut life.stdin {
            let watch = life.reactor.watch_raw(stream.pipe.as_raw_fd(), ()).label("child stdin");
            let watcher = watch
                .start_with(Interest::ERROR, move |(), event| Life::input_changed(&stdin, event.readiness()));
            stream.watcher = Some(watcher.map_err(|error| error.to_string())?);
        }
        if let Some(stream) = &mut life.stdout {
            let watch = life.reactor.watch_raw(stream.pipe.as_raw_fd(), ()).label("child stdout");
            let interest = if life.listening { Interest::READ } else { Interest::empty() };
            let watcher = watch.start_with(interest, move |(), _| Life::read_output(&stdout));
            stream.watcher = Some(watcher.map_err(|error| error.to_string())?);
        }
        if let Some(stream) = &mut life.stderr {
            let watch = life.reactor.watch_raw(stream.pipe.as_raw_fd(), ()).label("child stderr");
            let watcher = watch.start_with(Interest::READ, move |(), _| Life::read_complaints(&stderr));
            stream.watcher = Some(watcher.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Buffers a message for the child.
    pub(super) fn deliver(&mut self, message: &Envelope) {
        if self.stdin.is_none() {
            return;
        }
        self.out.extend_from_slice(message.line().as_bytes());
        self.out.push(b'\n');
    }

    /// Writes what was delivered, as far as the pipe takes it.
    pub(super) fn flush(this: &Shared) {
        let broken = this.borrow_mut().write();
        if broken {
            Life::expect_exit(this, "it closed its standard input");
        } else {
            Life::watch_for_room(this);
        }
    }

    /// Returns whether the child does not take anything any more.
    fn write(&mut self) -> bool {
        let Some(stdin) = &self.stdin else { return false };
        while self.out_done < self.out.len() {
            let end = self.out.len().min(self.out_done + WRITE_BYTES);
            match rustix::io::write(&stdin.pipe, &self.out[self.out_done..end]) {
                Ok(count) => {
                    self.out_done += count;
                    self.bytes_out += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.close_input();
                    return !self.stopping;
                }
            }
        }
        if self.out_done == self.out.len() {
            self.out.clear();
            self.out_done = 0;
            self.out.shrink_to(WRITE_BYTES);
            if self.stopping {
                self.close_input();
            }
        } else if self.out_done > self.out.len() / 2 {
            self.out.drain(..self.out_done);
            self.out_done = 0;
        }
        false
    }

    /// Tells the kernel whether the child takes more, and has the loop say when it does.
    fn watch_for_room(this: &Shared) {
        let mut life = this.borrow_mut();
        let life = &mut *life;
        let full = !life.out.is_empty();
        if full == life.blocked {
            return;
        }
        let Some(stdin) = &life.stdin else { return };
        life.blocked = full;
        if full {
            life.port.blocked();
        } else {
            life.port.ready();
        }
        let interest = if full { Interest::WRITE | Interest::ERROR } else { Interest::ERROR };
        let Some(watcher) = stdin.watcher else { return };
        if let Err(error) = life.reactor.modify(watcher, interest) {
            life.fail(&format!("its standard input cannot be watched: {error}"));
        }
    }

    /// The child takes more, or nothing any more.
    fn input_changed(this: &Shared, readiness: Readiness) {
        if readiness.contains(Readiness::ERROR) {
            this.borrow_mut().close_input();
            Life::expect_exit(this, "it closed its standard input");
        } else {
            Life::flush(this);
        }
    }

    fn read_output(this: &Shared) {
        let mut life = this.borrow_mut();
        match life.read_lines() {
            Ok(true) => {}
            Ok(false) if life.exit.is_some() => life.say_goodbye(),
            Ok(false) => {
                life.close_output();
                drop(life);
                Life::expect_exit(this, "it closed its standard output");
            }
            Err(error) => life.fail(&format!("its standard output cannot be read: {error}")),
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
        let (port, lines, bytes) = (&self.port, &mut self.lines, &self.buffer[..count]);
        port.cut(|say| lines.cut(bytes, self.line_bytes_max, say));
        Ok(true)
    }

    fn read_complaints(this: &Shared) {
        let mut life = this.borrow_mut();
        let life = &mut *life;
        let Some(stderr) = &life.stderr else { return };
        match rustix::io::read(&stderr.pipe, &mut life.buffer[..]) {
            Ok(0) => life.close_complaints(),
            Ok(count) => {
                let now = life.reactor.now();
                life.stderr_log.hear(&life.buffer[..count], now);
                let (Some(pause), Some(watcher)) = (life.stderr_budget.spend(count, now), stderr.watcher)
                else {
                    return;
                };
                let resumed = life.reactor.after(pause, move |reactor| {
                    let _ = reactor.modify(watcher, Interest::READ);
                });
                if resumed.is_ok() {
                    let _ = life.reactor.modify(watcher, Interest::empty());
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => life.close_complaints(),
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
    pub(super) fn stop(this: &Shared) {
        this.borrow_mut().stopping = true;
        Life::flush(this);
        let mut life = this.borrow_mut();
        let (grace, told) = (life.program.grace, Rc::clone(this));
        let reactor = life.reactor.clone();
        let timer = reactor.after(grace, move |reactor| {
            let mut life = told.borrow_mut();
            let (capability, waited) = (&**life.port.name(), show_duration(grace));
            tracing::warn!(
                capability,
                "its input has ended, and it has not for {waited}: it gets SIGTERM, and is killed in another {waited}"
            );
            life.child_processes.signal(life.pid, &life.port, Signal::TERM);
            let killed = Rc::clone(&told);
            life.timer = reactor.after(grace, move |_| killed.borrow().kill()).ok();
        });
        life.set_timer(timer.ok());
    }

    /// A child that closed a stream has some time to end before it is made to.
    fn expect_exit(this: &Shared, what: &'static str) {
        let mut life = this.borrow_mut();
        if life.stopping || life.given_up || life.exit.is_some() || life.timer.is_some() {
            return;
        }
        let late = Rc::clone(this);
        let timer = life.reactor.clone().after(EXIT_PATIENCE, move |_| {
            late.borrow_mut().fail(&format!("{what} and went on"));
        });
        life.set_timer(timer.ok());
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

    /// Ends the child and everything in its group. Whatever it still says is ignored; it is reaped when it is gone.
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

    /// The child has ended. What it said before is read at the usual pace, and given nothing more; then the kernel is told.
    fn ended(this: &Shared) {
        let mut life = this.borrow_mut();
        let Some(status) = life.child_processes.reap(life.pid) else { return };
        life.child_processes.end_holders(&life.pipes);
        if let Some(watcher) = life.exit_watch.take() {
            life.reactor.unwatch(watcher);
        }
        if life.given_up {
            return life.close_all();
        }
        life.exit = Some(outcome(&status));
        if !life.blocked {
            life.blocked = true;
            life.port.blocked();
        }
        life.close_input();
        if life.stdout.as_ref().is_none_or(|stdout| stdout.watcher.is_none()) {
            return life.say_goodbye();
        }
        drop(life);
        Life::wait_for_the_last(this);
    }

    /// Somebody else may hold the child's output open: that is not waited for, unless it is we who do not read.
    fn wait_for_the_last(this: &Shared) {
        let mut life = this.borrow_mut();
        let late = Rc::clone(this);
        let timer = life.reactor.clone().after(EXIT_PATIENCE, move |_| {
            if late.borrow().listening {
                late.borrow_mut().say_goodbye();
            } else {
                Life::wait_for_the_last(&late);
            }
        });
        life.set_timer(timer.ok());
    }

    /// Everything that the child said has been heard: the kernel is told how it ended.
    fn say_goodbye(&mut self) {
        let Some(exit) = self.exit.take() else { return };
        let (port, lines) = (&self.port, &mut self.lines);
        port.cut(|say| lines.finish(say));
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
        (self.out, self.out_done) = (Vec::new(), 0);
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

    fn close(&self, stream: Option<Stream>) {
        if let Some(watcher) = stream.and_then(|stream| stream.watcher) {
            self.reactor.unwatch(watcher);
        }
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
            "waitingBytes": self.out.len() - self.out_done,
            "listening": self.listening,
        })
    }
}
