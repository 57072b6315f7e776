//! Following the daemon: a command that subscribes a connection, and then whatever events come,
//! shown as they come.

use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{output, text};
use crate::client::{ClientError, Lines, Stream, names_no_message};
use mainspring_message::{Draft, Envelope, Kind};
use mainspring_reactor::{Event, Reactor, Signal};
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;

/// Who shows what comes.
pub(in crate::cli) trait Show {
    /// The daemon has taken the subscription. What is to be seen first is put into `out`.
    ///
    /// # Errors
    /// It cannot go on.
    fn begin(&mut self, _out: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }

    /// An event has come: what is to be seen of it is put into `out`. True if it was the last that
    /// is wanted.
    fn event(&mut self, event: &Envelope, out: &mut Vec<u8>) -> bool;

    /// What was shown has been written: the line that tells the daemon so, if it is to be told.
    fn acknowledgement(&mut self) -> Option<String> {
        None
    }
}

/// Subscribes, and shows events until somebody has had enough.
///
/// # Errors
/// The daemon refused, or ended the connection.
pub(in crate::cli) fn follow(
    target: &Target,
    subscription: &Draft,
    show: impl Show + 'static,
) -> Result<(), Failure> {
    let mut reactor = Reactor::new().map_err(loop_failed)?;
    for signal in [Signal::INT, Signal::TERM] {
        reactor.on_signal(signal, |event| event.reactor().stop()).map_err(loop_failed)?;
    }
    let mut client = target.connect()?;
    let subscription = client.send(subscription)?;
    let (stream, lines) = client.into_parts();
    stream.set_nonblocking(true).map_err(ClientError::from)?;
    let ending = Rc::new(RefCell::new(Ok(())));
    let subscribed = Rc::new(Cell::new(false));
    give_up_later(&reactor, target, &subscribed, &ending)?;
    let mut viewer = Viewer { lines, subscription, subscribed, show, unsent: Vec::new() };
    let outcome = ending.clone();
    reactor
        .watch(stream)
        .on_read(move |stream, event| {
            if let Some(end) = viewer.read(stream) {
                *outcome.borrow_mut() = end;
                event.reactor().stop();
            }
        })
        .start()
        .map_err(loop_failed)?;
    end_with_reader(&reactor)?;
    reactor.run().map_err(loop_failed)?;
    ending.replace(Ok(()))
}

/// Ends it if the daemon has not taken the subscription in time.
fn give_up_later(
    reactor: &Reactor,
    target: &Target,
    subscribed: &Rc<Cell<bool>>,
    ending: &Rc<RefCell<End>>,
) -> Result<(), Failure> {
    let (subscribed, ending) = (subscribed.clone(), ending.clone());
    let reply_timeout = target.reply_timeout();
    let late = move |handle: &mainspring_reactor::Handle| {
        if !subscribed.get() {
            *ending.borrow_mut() = Err(reply_timeout.gave_up().into());
            handle.stop();
        }
    };
    reactor.after(reply_timeout.longest(), late).map_err(loop_failed)?;
    Ok(())
}

fn loop_failed(error: mainspring_reactor::Error) -> Failure {
    Failure::Client(ClientError::Io(io::Error::other(error)))
}

/// Ends when the reader of a pipe goes away, also while there is nothing to write to it.
fn end_with_reader(reactor: &Reactor) -> Result<(), Failure> {
    let stdout = io::stdout();
    if output::is_pipe() {
        let stop = |_: &mut (), event: &Event<'_>| event.reactor().stop();
        reactor.watch_raw(stdout.as_raw_fd(), ()).on_error(stop).start().map_err(loop_failed)?;
    }
    Ok(())
}

/// The end of watching, and why.
type End = Result<(), Failure>;

struct Viewer<S> {
    lines: Lines,
    subscription: Envelope,
    /// Whether the daemon has taken the subscription.
    subscribed: Rc<Cell<bool>>,
    show: S,
    /// The rest of an acknowledgement that the daemon has not taken yet.
    unsent: Vec<u8>,
}

impl<S: Show> Viewer<S> {
    /// Reads what is there and shows it; says when that was all.
    fn read(&mut self, stream: &mut Stream) -> Option<End> {
        loop {
            match self.lines.fill(stream) {
                Ok(0) => return Some(Err(self.hung_up(stream).into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Some(Err(self.hung_up(stream).into()));
                }
                Err(error) => return Some(Err(ClientError::from(error).into())),
            }
            let mut shown = Vec::new();
            let end = self.show_lines(&mut shown);
            // All that came with one read is written with one write.
            if let Err(error) = write_out(&shown) {
                return Some(Err(error.into()));
            }
            if let Err(error) = self.acknowledge(stream) {
                return Some(Err(ClientError::from(error).into()));
            }
            if end.is_some() {
                return end;
            }
        }
    }

    /// Tells the daemon what was written, if it is to be told. What it does not take at once waits,
    /// and a later one stands for those that were never begun.
    fn acknowledge(&mut self, stream: &mut Stream) -> io::Result<()> {
        if self.unsent.is_empty()
            && let Some(line) = self.show.acknowledgement()
        {
            self.unsent.extend_from_slice(line.as_bytes());
        }
        while !self.unsent.is_empty() {
            match stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What it means that the daemon ended the connection.
    fn hung_up(&self, stream: &Stream) -> ClientError {
        if self.subscribed.get() { ClientError::Ended } else { ClientError::hung_up(stream) }
    }

    fn show_lines(&mut self, shown: &mut Vec<u8>) -> Option<End> {
        while let Some(line) = self.lines.next_line() {
            let Ok(message) = Envelope::parse(line) else {
                let text = String::from_utf8_lossy(line).into_owned();
                return Some(Err(ClientError::NotAMessage(text).into()));
            };
            if let Some(error) = ClientError::turned_away(&message) {
                return Some(Err(error.into()));
            }
            let is_answer = message.causation() == Some(self.subscription.id());
            match message.kind() {
                Kind::Error if is_answer || names_no_message(&message) => {
                    return Some(Err(Failure::Refused(text::error_line(&message))));
                }
                Kind::Reply if is_answer => {
                    self.subscribed.set(true);
                    if let Err(failure) = self.show.begin(shown) {
                        return Some(Err(failure));
                    }
                }
                Kind::Event if message.type_name() == "Sys.EventsDropped" => tell_dropped(&message),
                Kind::Event if message.type_name() == "Sys.CursorEnded" => {
                    let data: serde_json::Value = serde_json::from_str(message.data()).unwrap_or_default();
                    let reason = data["reason"].as_str().unwrap_or("the daemon says so");
                    return Some(Err(Failure::Refused(format!(
                        "the cursor has ended: {}",
                        text::visible(reason)
                    ))));
                }
                Kind::Event if self.show.event(&message, shown) => return Some(Ok(())),
                _ => {}
            }
        }
        None
    }
}

/// Written past the buffer of standard output, which would hold back what has no line end.
fn write_out(mut bytes: &[u8]) -> io::Result<()> {
    let stdout = io::stdout().lock();
    // Whoever shares this terminal or pipe may have made it non-blocking.
    while !bytes.is_empty() {
        match rustix::io::write(&stdout, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait_for_room(&stdout)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_for_room(stdout: &impl std::os::fd::AsFd) -> io::Result<()> {
    let descriptor: BorrowedFd<'_> = stdout.as_fd();
    let mut interest = [rustix::event::PollFd::from_borrowed_fd(descriptor, rustix::event::PollFlags::OUT)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut interest, None))?;
    Ok(())
}

fn tell_dropped(message: &Envelope) {
    let data: serde_json::Value = serde_json::from_str(message.data()).unwrap_or_default();
    let events = text::count(data["count"].as_u64().unwrap_or_default(), "event was", "events were");
    let reason = match data["cursor"].is_string() {
        true => "the daemon no longer keeps them",
        false => "events came faster than they were read",
    };
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "mainspring: {events} dropped: {reason}");
}
