//! The three streams of a child process: messages in, messages out, and what it writes to standard
//! error.

use crate::daemon::actors::process::incarnation::{ProcessIncarnation, SharedIncarnation};
use crate::daemon::transport::outgoing::Drained;
use mainspring_message::Envelope;
use mainspring_reactor::{Interest, Readiness, Watcher};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// What is given to a child is written once per turn of the reactor, or whenever it is this much.
const WRITE_BYTES: usize = 64 << 10;

/// One end of a pipe, and who watches it.
pub(super) struct ChildStream {
    pub(super) pipe: OwnedFd,
    pub(super) watcher: Option<Watcher>,
}

impl ChildStream {
    pub(super) fn new(pipe: OwnedFd) -> Option<ChildStream> {
        Some(ChildStream { pipe, watcher: None })
    }
}

impl ProcessIncarnation {
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
                watch.start_with(Interest::READ, move |(), _| ProcessIncarnation::read_stderr(&stderr));
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
            Ok(false) if incarnation.exit.is_some() => incarnation.report_exit(),
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

    fn read_stderr(this: &SharedIncarnation) {
        let mut incarnation = this.borrow_mut();
        let incarnation = &mut *incarnation;
        let Some(stderr) = &incarnation.stderr else { return };
        match rustix::io::read(&stderr.pipe, &mut incarnation.buffer[..]) {
            Ok(0) => incarnation.close_stderr(),
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
            Err(_) => incarnation.close_stderr(),
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

    pub(super) fn read_rest_of_stderr(&mut self) {
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

    pub(super) fn close_input(&mut self) {
        let stdin = self.stdin.take();
        self.close(stdin);
        self.out.clear();
    }

    pub(super) fn close_output(&mut self) {
        let stdout = self.stdout.take();
        self.close(stdout);
    }

    pub(super) fn close_stderr(&mut self) {
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
}
