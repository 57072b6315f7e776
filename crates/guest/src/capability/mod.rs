//! A guest as a capability: messages come in on standard input and leave on standard output, one a
//! line.
//!
//! What is said is gathered and written when there is nothing left to read, so a batch of requests
//! costs one wake-up, one read and one write.
//!
//! # A capability
//!
//! With the feature `typed`, `Capability` has handlers with types of their own, and makes its
//! manifest from them. Without, messages are handed over as they are:
//!
//! ```no_run
//! use mainspring_guest::capability::serve;
//!
//! fn main() -> std::io::Result<()> {
//!     serve(|message, outbox| outbox.reply(message, message.data_json()))
//! }
//! ```
//!
//! One that does several things at a time has tasks instead, each with an [`Outbox`] of its own:
//!
//! ```no_run
//! use mainspring_guest::{block_on, capability, sleep, spawn};
//! use std::time::Duration;
//!
//! fn main() -> std::io::Result<()> {
//!     block_on(async {
//!         let (mut inbox, outbox) = capability::open()?;
//!         while let Some(message) = inbox.next().await? {
//!             let outbox = outbox.clone();
//!             spawn(async move {
//!                 sleep(Duration::from_secs(1)).await;
//!                 outbox.reply(&message, message.data_json());
//!                 outbox.flush().await
//!             });
//!         }
//!         Ok(())
//!     })
//! }
//! ```

#[cfg(feature = "typed")]
mod typed;

#[cfg(feature = "typed")]
pub use typed::{
    Anything, Ask, AskError, Capability, Context, Empty, Failure, Hints, Reply, Started, Stopped, schemars,
};

use crate::io::stdio::{LINE_BYTES_MAX, READ_BYTES, Stdin, Stdout, stdin, stdout};
use crate::runtime::executor;
use crate::{block_on, random_seed, system_time};
use mainspring_message::lines::{Line, LineBuffer};
pub use mainspring_message::{Draft, Envelope, Json, Kind};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::SystemTime;

/// What is gathered before it is written in any case.
const OUTBOX_BYTES_MAX: usize = 64 * 1024;

/// Hands each message to `handle`, in order, until the input ends.
///
/// # Errors
///
/// As [`Inbox::next`].
pub fn serve(mut handle: impl FnMut(&Envelope, &Outbox)) -> io::Result<()> {
    block_on(async {
        let (mut inbox, outbox) = open()?;
        while let Some(message) = inbox.next().await? {
            handle(&message, &outbox);
        }
        Ok(())
    })
}

/// Both directions of the conversation. To be called once.
///
/// # Errors
///
/// If the host has no `sys/info@v1`: ids begin with a random number.
pub fn open() -> io::Result<(Inbox, Outbox)> {
    let seed = random_seed()?;
    let prefix: String = seed.iter().take(ID_SEED_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let outbox = Outbox(Rc::new(RefCell::new(Outgoing {
        stdout: stdout(),
        text: String::new(),
        written: 0,
        prefix: prefix + "-",
        said: 0,
        time: None,
    })));
    let inbox = Inbox {
        stdin: stdin(),
        buffer: LineBuffer::new(READ_BYTES, LINE_BYTES_MAX),
        ended: false,
        outbox: outbox.clone(),
    };
    Ok((inbox, outbox))
}

/// How many random bytes tell the ids of one life of a capability from those of another.
const ID_SEED_BYTES: usize = 8;

/// The messages that come in.
#[derive(Debug)]
pub struct Inbox {
    stdin: Stdin,
    buffer: LineBuffer,
    ended: bool,
    outbox: Outbox,
}

impl Inbox {
    /// The next message; `None` when the input has ended. Before it waits, everything that was said
    /// is written.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a line that is no message (those after it can be read), and whatever
    /// reading or writing fails with.
    pub async fn next(&mut self) -> io::Result<Option<Envelope>> {
        loop {
            if self.outbox.waiting_bytes() >= OUTBOX_BYTES_MAX {
                self.outbox.flush().await?;
            }
            if let Some(line) = self.buffer.next_line() {
                return parse(line).map(Some);
            }
            self.outbox.flush().await?;
            if self.ended {
                return self.buffer.finish().map(parse).transpose();
            }
            let count = self.stdin.read_watched(self.buffer.room()).await?;
            self.buffer.filled(count);
            self.ended = count == 0;
        }
    }
}

fn parse(line: Line<'_>) -> io::Result<Envelope> {
    let wrong = |reason: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("not a message: {reason}"))
    };
    match line {
        Line::Whole(line) => Envelope::parse(line).map_err(|rejection| wrong(&rejection)),
        Line::TooLong => Err(wrong(&format_args!("a line is longer than {LINE_BYTES_MAX} bytes"))),
    }
}

/// What the capability says. Cloning gives another way to the same output.
#[derive(Clone, Debug)]
pub struct Outbox(Rc<RefCell<Outgoing>>);

#[derive(Debug)]
struct Outgoing {
    stdout: Stdout,
    text: String,
    /// How much of the text is written.
    written: usize,
    /// What ids begin with, and how many there were.
    prefix: String,
    said: u64,
    /// The time, and the turn of the executor that it was asked for in.
    time: Option<(u64, u64)>,
}

impl Outbox {
    /// Says a message. It is written at the next [`flush`](Outbox::flush), which the inbox does
    /// before it waits.
    pub fn send(&self, draft: &Draft) {
        let mut outgoing = self.0.borrow_mut();
        let (id, timestamp_ms) = outgoing.stamp();
        draft.parts(&id, timestamp_ms).append_to(&mut outgoing.text);
        outgoing.text.push('\n');
    }

    /// An id that nobody has yet, and the time.
    #[cfg(feature = "typed")]
    fn stamp(&self) -> (String, u64) {
        self.0.borrow_mut().stamp()
    }

    /// Says a line that is made already.
    #[cfg(feature = "typed")]
    fn say(&self, line: &str) {
        let text = &mut self.0.borrow_mut().text;
        text.push_str(line);
        text.push('\n');
    }

    /// Answers a command or query.
    pub fn reply(&self, request: &Envelope, data: Json) {
        self.send(&Draft::reply(request, data));
    }

    /// Ends a command or query with an error; `code` is 400 to 599.
    pub fn error(&self, request: &Envelope, code: u16, message: &str) {
        self.send(&Draft::error(request, code, message));
    }

    /// Tells an event that `cause` caused.
    pub fn event(&self, cause: &Envelope, type_name: &str, data: Json) {
        self.send(&Draft::caused_by(cause, Kind::Event, type_name, data));
    }

    /// Writes everything that was said so far, waiting while the reader is behind.
    ///
    /// # Errors
    ///
    /// What writing fails with.
    pub async fn flush(&self) -> io::Result<()> {
        poll_fn(|context| self.0.borrow_mut().poll_flush(context)).await
    }

    /// Bytes that were said and not written.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        let outgoing = self.0.borrow();
        outgoing.text.len() - outgoing.written
    }
}

impl Outgoing {
    fn stamp(&mut self) -> (String, u64) {
        let now_ms = self.now_ms();
        self.said += 1;
        (format!("{}{}", self.prefix, self.said), now_ms)
    }

    /// The time of day, asked for once between two waits.
    fn now_ms(&mut self) -> u64 {
        let turn = executor::polls();
        if let Some((ms, asked)) = self.time
            && asked == turn
        {
            return ms;
        }
        let since = system_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.time = Some((ms, turn));
        ms
    }

    /// Several tasks may flush at a time: they write one text, in its order.
    fn poll_flush(&mut self, context: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.text.len() {
            let rest = &self.text.as_bytes()[self.written..];
            match ready!(self.stdout.handle().poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.written = 0;
        self.text.clear();
        self.text.shrink_to(2 * OUTBOX_BYTES_MAX);
        Poll::Ready(Ok(()))
    }
}
