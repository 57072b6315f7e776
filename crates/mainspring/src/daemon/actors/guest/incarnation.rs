//! One incarnation of a guest: its streams, its end, and how it is brought about.

use crate::daemon::actors::Port;
use crate::daemon::actors::guest::exit_reason;
use crate::daemon::actors::guest::guest_compiler::{Buffer, CompiledGuest, GuestCompiler, configuration};
use crate::daemon::actors::stderr_log::StderrLog;
use crate::daemon::transport::outgoing::{Drained, Outgoing};
use crate::settings::GuestProgram;
use mainspring_host::{
    Denial, Exit, GuestHandle, PIPE_BYTES_DEFAULT, PipeReader, PipeWriter, Stdin, Stdout, pipe,
};
use mainspring_kernel::ActorExit;
use mainspring_message::Envelope;
use mainspring_message::lines::LineSplitter;
use mainspring_reactor::{Handle, Sleep};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Bytes that a guest may have said and nobody has read; then it waits. Likewise for what it has
/// not read.
const STREAM_BYTES: usize = PIPE_BYTES_DEFAULT;
/// What is left of a message that did not fit is kept in a buffer that is given back beyond this
/// size.
const REST_BYTES_KEPT: usize = 64 << 10;
/// How much of where a guest trapped is logged: it chose the names of its functions itself.
const TRACE_LINES_MAX: usize = 64;
const TRACE_COLUMNS_MAX: usize = 400;

/// One guest and both ends of its conversation. It is a task of the reactor until the guest has
/// ended.
pub(super) struct GuestIncarnation {
    port: Port,
    reactor: Handle,
    buffer: Buffer,
    guest: GuestHandle,
    grace: Duration,
    waker: Cell<Option<Waker>>,
    state: RefCell<Conversation>,
}

struct Conversation {
    input: GuestInput,
    output: GuestOutput,
    stderr: PipeReader,
    stderr_log: StderrLog,
    end: EndOfGuest,
    /// Why it was killed, if the daemon did so.
    reason: Option<String>,
    exit: Option<Exit>,
}

/// What goes in.
struct GuestInput {
    /// Gone when the input has ended.
    pipe: Option<PipeWriter>,
    /// Delivered and not taken by the pipe.
    rest: Outgoing,
    /// The kernel was told that nothing more can be taken.
    blocked: bool,
    /// To be ended when the rest is written.
    ending: bool,
}

/// What comes out.
struct GuestOutput {
    pipe: PipeReader,
    lines: LineSplitter,
    attached: bool,
    listening: bool,
    ended: bool,
    /// The turn of the kernel before which it was last read: the kernel has to see what was said
    /// before it hears more.
    read_before_turn: u64,
}

/// How far its end has been asked for.
enum EndOfGuest {
    NotAsked,
    InputEnded(Pin<Box<Sleep>>),
    Interrupted(Pin<Box<Sleep>>),
    Killed,
}

impl GuestIncarnation {
    /// Starts the guest. It runs from the reactor's next turn on.
    pub(super) fn begin(
        guest_compiler: &GuestCompiler,
        compiled: &CompiledGuest,
        program: &GuestProgram,
        port: Port,
    ) -> Result<Rc<GuestIncarnation>, String> {
        let mut config = configuration(port.name(), program)?;
        let ((stdin, guest_stdin), (guest_stdout, stdout), (guest_stderr, stderr)) =
            (pipe(STREAM_BYTES), pipe(STREAM_BYTES), pipe(STREAM_BYTES));
        config.stdin = Stdin::Pipe(guest_stdin);
        config.stdout = Stdout::Pipe(guest_stdout);
        config.stderr = Stdout::Pipe(guest_stderr);
        let told = port.clone();
        config.on_denial(move |denial| {
            let words = denied(denial);
            tracing::warn!(capability = &**told.name(), "{words}");
            told.complained(words.as_bytes());
        });
        let guest = guest_compiler.start(compiled, config)?;
        let input =
            GuestInput { pipe: Some(stdin), rest: Outgoing::default(), blocked: false, ending: false };
        let output = GuestOutput {
            pipe: stdout,
            lines: LineSplitter::default(),
            attached: false,
            listening: true,
            ended: false,
            read_before_turn: u64::MAX,
        };
        let state = Conversation {
            input,
            output,
            stderr,
            stderr_log: StderrLog::of(&port, guest_compiler.reactor()),
            end: EndOfGuest::NotAsked,
            reason: None,
            exit: None,
        };
        Ok(Rc::new(GuestIncarnation {
            reactor: guest_compiler.reactor().clone(),
            buffer: guest_compiler.buffer(port.read_bytes_max()),
            port,
            guest,
            grace: program.grace,
            waker: Cell::new(None),
            state: RefCell::new(state),
        }))
    }

    pub(super) fn guest(&self) -> &GuestHandle {
        &self.guest
    }

    pub(super) fn attach(&self) {
        self.state.borrow_mut().output.attached = true;
        self.wake();
    }

    pub(super) fn set_listening(&self, listening: bool) {
        self.state.borrow_mut().output.listening = listening;
        if listening {
            self.wake();
        }
    }

    /// Writes a message to the guest's input. Its task is woken by the first one of a turn, and
    /// finds all of them.
    pub(super) fn deliver(&self, message: &Envelope) {
        let mut state = self.state.borrow_mut();
        let input = &mut state.input;
        let taken = input.put(message.line().as_bytes()) && input.put(b"\n");
        if !taken {
            drop(state);
            return self.end_for("it closed its standard input".to_owned());
        }
        if !input.rest.is_empty() && !std::mem::replace(&mut input.blocked, true) {
            self.port.blocked();
            drop(state);
            self.wake();
        }
    }

    /// Ends the input. After half of its grace the guest is interrupted, after all of it killed.
    pub(super) fn stop(&self) {
        let mut state = self.state.borrow_mut();
        state.input.ending = true;
        state.end = EndOfGuest::InputEnded(Box::pin(self.reactor.sleep(self.grace / 2)));
        drop(state);
        self.wake();
    }

    /// Ends the guest now.
    pub(super) fn kill(&self) {
        self.guest.kill();
    }

    fn end_for(&self, reason: String) {
        self.state.borrow_mut().reason.get_or_insert(reason);
        self.guest.kill();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Serves both directions until the guest has ended and all that it said has been heard.
    pub(super) async fn converse(&self) {
        let exit = std::future::poll_fn(|context| self.poll(context)).await;
        self.port.exited(exit);
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<ActorExit> {
        self.waker.set(Some(context.waker().clone()));
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        self.feed(state, context);
        self.listen(state, context);
        self.read_stderr(state, context);
        self.urge(state, context);
        if state.exit.is_none()
            && let Poll::Ready(exit) = pin!(self.guest.exit()).poll(context)
        {
            state.exit = Some(exit);
            // Whatever it said last is in the pipes now.
            self.listen(state, context);
            self.read_stderr(state, context);
        }
        if state.output.ended && state.exit.is_none() && state.reason.is_none() {
            state.reason = Some("it closed its standard output".to_owned());
            self.guest.kill();
        }
        match &state.exit {
            // Whoever is not listened to yet has not been heard to the end, unless nobody will
            // listen any more.
            Some(exit)
                if state.output.ended
                    || (!state.output.attached && !matches!(state.end, EndOfGuest::NotAsked)) =>
            {
                // Line by line: each is told as this guest's, whatever its functions are called.
                for line in exit_reason::place(exit).into_iter().flat_map(str::lines).take(TRACE_LINES_MAX) {
                    let shown: String = line.chars().take(TRACE_COLUMNS_MAX).collect();
                    tracing::warn!(capability = &**self.port.name(), "{shown}");
                }
                Poll::Ready(exit_reason::of(exit, state.reason.take()))
            }
            _ => Poll::Pending,
        }
    }

    /// Writes what is left to write, and then says that there is room.
    fn feed(&self, state: &mut Conversation, context: &mut Context<'_>) {
        let input = &mut state.input;
        let Some(pipe) = &input.pipe else { return };
        let drained = input.rest.drain(|bytes| match pipe.poll_write(context, bytes) {
            Poll::Pending => Err(Errno::AGAIN),
            Poll::Ready(0) => Err(Errno::PIPE),
            Poll::Ready(count) => Ok(count),
        });
        match drained {
            Ok(Drained::NoRoom) => return,
            Ok(Drained::Everything) => input.rest.trim(REST_BYTES_KEPT),
            // Nobody will ever read it; if the guest lives on, the next message tells.
            Err(_) => input.rest.clear(),
        }
        if input.ending {
            input.pipe = None;
        }
        if std::mem::take(&mut input.blocked) {
            self.port.ready();
        }
    }

    /// Reads what was said, once per turn of the kernel.
    fn listen(&self, state: &mut Conversation, context: &mut Context<'_>) {
        let output = &mut state.output;
        if !output.attached || !output.listening || output.ended {
            return;
        }
        let turn = self.port.kernel_turns();
        if output.read_before_turn == turn {
            return self.listen_in_the_next_turn();
        }
        let line_bytes_max = self.port.line_bytes_max();
        let mut buffer = self.buffer.borrow_mut();
        let Poll::Ready(count) = output.pipe.poll_read(context, &mut buffer) else { return };
        output.read_before_turn = turn;
        output.ended = count == 0;
        // A line beyond the limit is a fault: the kernel has the guest terminated.
        match count {
            0 => self.port.said_the_last(&mut output.lines),
            count => self.port.said(&buffer[..count], &mut output.lines, line_bytes_max),
        }
        if !output.ended && output.pipe.poll_ready(context).is_ready() {
            self.listen_in_the_next_turn();
        }
    }

    fn listen_in_the_next_turn(&self) {
        let Some(waker) = self.waker.take() else { return };
        self.waker.set(Some(waker.clone()));
        // Without a next turn there is nobody to hear it either.
        let _ = self.reactor.defer(move |_| waker.wake());
    }

    /// Logs what the guest writes to standard error.
    fn read_stderr(&self, state: &mut Conversation, context: &mut Context<'_>) {
        let (now, mut buffer) = (self.reactor.now(), self.buffer.borrow_mut());
        while let Poll::Ready(count @ 1..) = state.stderr.poll_read(context, &mut buffer) {
            state.stderr_log.hear(&buffer[..count], now);
        }
        if state.exit.is_some() {
            state.stderr_log.finish(now);
        }
    }

    /// Carries a stop out, step by step.
    fn urge(&self, state: &mut Conversation, context: &mut Context<'_>) {
        loop {
            let (sleep, then_killed) = match &mut state.end {
                EndOfGuest::NotAsked | EndOfGuest::Killed => return,
                EndOfGuest::InputEnded(sleep) => (sleep, false),
                EndOfGuest::Interrupted(sleep) => (sleep, true),
            };
            if sleep.as_mut().poll(context).is_pending() {
                return;
            }
            if then_killed {
                state.end = EndOfGuest::Killed;
                state.reason.get_or_insert(format!("it did not end within {:?} of its input", self.grace));
                self.guest.kill();
            } else {
                state.end = EndOfGuest::Interrupted(Box::pin(self.reactor.sleep(self.grace / 2)));
                self.guest.interrupt();
            }
        }
    }
}

/// What a guest was denied, and the key of its manifest that would grant it.
fn denied(denial: &Denial) -> String {
    let remedy = match (denial, denial.rule()) {
        (Denial::Connect(_), Some(rule)) => {
            format!("; add {rule:?} to program.allow_connect in its manifest")
        }
        (Denial::Listen(_), Some(rule)) => format!("; add {rule:?} to program.allow_listen in its manifest"),
        (Denial::WasiSockets, _) => "; set program.wasi_sockets = true in its manifest".to_owned(),
        _ => String::new(),
    };
    format!("denied: {denial}{remedy}")
}

impl GuestInput {
    /// Writes as much as fits and keeps the rest. False if nobody will ever read it.
    fn put(&mut self, mut bytes: &[u8]) -> bool {
        let Some(pipe) = &self.pipe else { return true };
        if self.rest.is_empty() {
            match pipe.try_write(bytes) {
                Some(0) => return false,
                Some(count) => bytes = &bytes[count..],
                None => {}
            }
        }
        self.rest.push_lines(bytes);
        true
    }
}
