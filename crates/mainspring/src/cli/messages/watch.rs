//! `mainspring watch`: events as they happen.

use crate::cli::support::output;
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::text;
use crate::client::{ClientError, Lines, Stream, names_no_message};
use mainspring_message::{Draft, Envelope, Json, Kind};
use mainspring_reactor::{Event, Reactor, Signal};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::ExitCode;
use std::rc::Rc;

const EXAMPLES: &str = "\
Examples:
  mainspring watch
  mainspring watch 'Memory.*' Order.Shipped
  mainspring watch --json 'Order.*' | jq -c .data
  mainspring watch --correlation order-7
  mainspring watch --count 1 Import.Done && echo done

Patterns are types, everything below a name (`Order.*`), or `*`. Whoever reads too slowly loses the oldest events and is told how many, on \
standard error; with --all the daemon ends the connection instead (exit code 1). --timeout is for the beginning: the connection and the subscription.

Exit code: 0 after an interrupt, after --count events, or when nobody reads the output any more; 1 if the daemon ended the connection or refused; \
2 the command line makes no sense; 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// Which events [default: all].
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Print each event as it came, one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Only events of this workflow.
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// End after so many events.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Every event or none: end rather than lose one.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &Arguments) -> ExitCode {
    watch(arguments).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

fn watch(arguments: &Arguments) -> Result<(), Failure> {
    let mut reactor = Reactor::new().map_err(loop_failed)?;
    for signal in [Signal::INT, Signal::TERM] {
        reactor.on_signal(signal, |event| event.reactor().stop()).map_err(loop_failed)?;
    }
    let mut client = arguments.target.connect()?;
    let subscription = client.send(&subscription(arguments))?;
    let (stream, lines) = client.into_parts();
    stream.set_nonblocking(true).map_err(ClientError::from)?;
    let ending = Rc::new(RefCell::new(Ok(())));
    let subscribed = Rc::new(Cell::new(false));
    give_up_later(&reactor, arguments, &subscribed, &ending)?;
    let view = View::new(arguments);
    let mut viewer = Viewer { lines, subscription, subscribed, view, left: arguments.count };
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
    arguments: &Arguments,
    subscribed: &Rc<Cell<bool>>,
    ending: &Rc<RefCell<End>>,
) -> Result<(), Failure> {
    let (subscribed, ending) = (subscribed.clone(), ending.clone());
    let patience = arguments.target.patience();
    let late = move |handle: &mainspring_reactor::Handle| {
        if !subscribed.get() {
            *ending.borrow_mut() = Err(patience.gave_up().into());
            handle.stop();
        }
    };
    reactor.after(patience.longest(), late).map_err(loop_failed)?;
    Ok(())
}

fn loop_failed(error: mainspring_reactor::Error) -> Failure {
    Failure::Client(ClientError::Io(io::Error::other(error)))
}

fn subscription(arguments: &Arguments) -> Draft {
    let all = [String::from("*")];
    let types = if arguments.patterns.is_empty() { &all[..] } else { &arguments.patterns };
    let slow = if arguments.all { "disconnect" } else { "drop_oldest" };
    Draft::new(Kind::Command, "Sys.Subscribe", Json::from(json!({ "types": types, "slow": slow })))
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

struct Viewer {
    lines: Lines,
    subscription: Envelope,
    /// Whether the daemon has taken the subscription.
    subscribed: Rc<Cell<bool>>,
    view: View,
    /// Events that are still wanted.
    left: Option<u64>,
}

impl Viewer {
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
            if end.is_some() {
                return end;
            }
        }
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
                Kind::Reply if is_answer => self.subscribed.set(true),
                Kind::Event if message.type_name() == "Sys.EventsDropped" => tell_dropped(&message),
                Kind::Event if self.view.wants(&message) => {
                    self.view.show(&message, shown);
                    if let Some(left) = &mut self.left {
                        *left -= 1;
                        if *left == 0 {
                            return Some(Ok(()));
                        }
                    }
                }
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
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "mainspring: {events} dropped: events came faster than they were read");
}

/// How events are shown.
struct View {
    json: bool,
    colour: bool,
    is_terminal: bool,
    correlation: Option<String>,
}

const DIM: &str = "\x1b[2m";
const CYAN: &str = "\x1b[36m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

impl View {
    fn new(arguments: &Arguments) -> View {
        View {
            json: arguments.json,
            colour: text::may_colour(),
            is_terminal: io::stdout().is_terminal(),
            correlation: arguments.correlation.clone(),
        }
    }

    fn wants(&self, event: &Envelope) -> bool {
        self.correlation.as_deref().is_none_or(|wanted| event.correlation() == Some(wanted))
    }

    fn show(&self, event: &Envelope, out: &mut Vec<u8>) {
        if self.json {
            out.extend_from_slice(event.line().as_bytes());
            out.push(b'\n');
            return;
        }
        let [dim, name, plain] = match (self.colour, event.type_name().starts_with("Sys.")) {
            (false, _) => [""; 3],
            (true, true) => [DIM, YELLOW, PLAIN],
            (true, false) => [DIM, CYAN, PLAIN],
        };
        let time = text::clock(event.timestamp_ms());
        let data = if self.is_terminal { text::visible(event.data()) } else { event.data().into() };
        let correlation =
            event.correlation().map_or(String::new(), |id| format!("  {dim}[{}]{plain}", text::visible(id)));
        let line = format!("{dim}{time}{plain}  {name}{}{plain}  {data}{correlation}\n", event.type_name());
        out.extend_from_slice(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: &View, line: &str) -> String {
        let mut out = Vec::new();
        view.show(&Envelope::parse(line.as_bytes()).unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn events_are_coloured_on_a_terminal_only_and_cannot_command_it() {
        let line = "{\"kind\":\"event\",\"type\":\"Order.Shipped\",\"data\":\"a\u{9b}b\",\"metadata\":{\"id\":\"e\",\"timestamp\":1000,\"correlation\":\"w\"}}";
        let plain = View { json: false, colour: false, is_terminal: false, correlation: None };
        let time = text::clock(1000);
        assert_eq!(shown(&plain, line), format!("{time}  Order.Shipped  \"a\u{9b}b\"  [w]\n"));
        let terminal = View { json: false, colour: true, is_terminal: true, correlation: None };
        assert_eq!(
            shown(&terminal, line),
            format!(
                "\x1b[2m{time}\x1b[0m  \x1b[36mOrder.Shipped\x1b[0m  \"a\\u{{9b}}b\"  \x1b[2m[w]\x1b[0m\n"
            )
        );
        let json = View { json: true, ..plain };
        assert_eq!(shown(&json, line), format!("{line}\n"));
    }
}
