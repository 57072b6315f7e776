//! `mainspring top`: the daemon at a glance, over and over.

mod screen;
mod view;

use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{output, text};
use crate::client::{Client, ClientError};
use crate::text::units;
use mainspring_message::{Draft, Envelope, Json, Kind};
use mainspring_reactor::{Reactor, Signal};
use screen::Screen;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use view::{Sample, page};

const EXAMPLES: &str = "\
Examples:
  mainspring top
  mainspring top --interval 250ms
  mainspring top --once            # one look, as text

Where the output is no terminal, or a dumb one (TERM=dumb), it looks once as well.

LATENCY, P50 and P99 are of requests that capabilities were given, from being taken to their outcome, over the last 10 to 20 seconds. They are as fine \
as a turn of the loop: what native code answers in the same turn took no time.

Keys: q ends it; Ctrl-Z stops it, and `fg` has it go on.

Exit code: 0 it was ended or looked once, 1 the daemon has ended, refuses or does not answer, 2 the command line makes no sense, 3 no daemon.";

/// The shortest time between two looks: looking costs the daemon something too.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// The time between two looks.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "1s")]
    interval: Duration,
    /// Look twice, an interval apart, print that, and end.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &Arguments) -> ExitCode {
    let can_be_live = text::is_screen() && std::io::stdin().is_terminal();
    let outcome = if arguments.once || !can_be_live { once(arguments) } else { live(arguments) };
    outcome.unwrap_or_else(|failure| failure.report())
}

fn interval(arguments: &Arguments) -> Duration {
    arguments.interval.max(INTERVAL_MIN)
}

fn once(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut watcher = Watcher::new(arguments)?;
    watcher.look()?;
    std::thread::sleep(interval(arguments));
    watcher.look()?;
    Ok(output::print(&watcher.page(false)))
}

fn live(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let loop_failed =
        |error: mainspring_reactor::Error| Failure::Client(ClientError::Io(std::io::Error::other(error)));
    let mut reactor = Reactor::new().map_err(loop_failed)?;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        reactor.on_signal(signal, |event| event.reactor().stop()).map_err(loop_failed)?;
    }
    let mut watcher = Watcher::new(arguments)?;
    watcher.look()?;
    // Whatever happens from here on, dropping the screen puts the terminal back.
    let mut screen = Screen::open()?;
    screen.show(&watcher.page(true))?;
    let state: Live = Rc::new(RefCell::new((watcher, screen, Ok(()))));
    let keys = state.clone();
    reactor
        .watch_raw(0, ())
        .on_read(move |(), event| {
            if keys.borrow_mut().1.is_quit_pressed() {
                event.reactor().stop();
            }
        })
        .start()
        .map_err(loop_failed)?;
    let ticking = state.clone();
    reactor
        .every(interval(arguments), move |event| {
            let (watcher, screen, outcome) = &mut *ticking.borrow_mut();
            let looked = watcher.look().and_then(|()| Ok(screen.show(&watcher.page(true))?));
            if looked.is_err() {
                *outcome = looked;
                event.reactor().stop();
            }
        })
        .map_err(loop_failed)?;
    let resized = state.clone();
    reactor
        .on_signal(Signal::WINCH, move |_| {
            let (watcher, screen, _) = &mut *resized.borrow_mut();
            let _ = screen.show(&watcher.page(true));
        })
        .map_err(loop_failed)?;
    watch_job_control(&reactor, &state).map_err(loop_failed)?;
    let ended = reactor.run().map_err(loop_failed);
    let outcome = std::mem::replace(&mut state.borrow_mut().2, Ok(()));
    state.borrow_mut().1.close();
    ended.and(outcome)?;
    Ok(ExitCode::SUCCESS)
}

/// What is shown, where, and why it ended if it had to.
type Live = Rc<RefCell<(Watcher, Screen, Result<(), Failure>)>>;

/// The stop key and `fg`. The terminal is the shell's while this process is stopped, whoever stopped it.
fn watch_job_control(reactor: &Reactor, state: &Live) -> Result<(), mainspring_reactor::Error> {
    let stopped = state.clone();
    reactor.on_signal(Signal::from_raw(libc::SIGTSTP), move |_| {
        stopped.borrow_mut().1.close();
        // The stop key's own signal is ours now; this one stops everybody.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    })?;
    let resumed = state.clone();
    reactor.on_signal(Signal::from_raw(libc::SIGCONT), move |event| {
        let (watcher, screen, outcome) = &mut *resumed.borrow_mut();
        if let Err(error) = screen.reopen().and_then(|()| screen.show(&watcher.page(true))) {
            *outcome = Err(error.into());
            event.reactor().stop();
        }
    })?;
    Ok(())
}

/// Asks the daemon how it is.
struct Watcher {
    client: Client,
    target: Target,
    earlier: Option<Sample>,
    latest: Option<Sample>,
}

impl Watcher {
    fn new(arguments: &Arguments) -> Result<Watcher, Failure> {
        let target = arguments.target.clone();
        Ok(Watcher { client: target.connect()?, target, earlier: None, latest: None })
    }

    fn look(&mut self) -> Result<(), Failure> {
        let stats = self.ask("Sys.Stats")?;
        let actors = self.ask("Sys.Actors")?;
        self.earlier = self.latest.take();
        self.latest = Some(Sample { at: Instant::now(), stats, actors });
        Ok(())
    }

    fn ask(&mut self, type_name: &'static str) -> Result<Value, Failure> {
        let mut draft = Draft::new(Kind::Query, type_name, Json::from(json!({})));
        draft.timeout_ms = self.target.timeout_ms();
        let answer: Envelope = self.client.request(&draft)?;
        if answer.kind() == Kind::Error {
            return Err(Failure::Refused(text::error_line(&answer)));
        }
        Ok(serde_json::from_str(answer.data()).unwrap_or_default())
    }

    fn page(&self, colour: bool) -> String {
        self.latest
            .as_ref()
            .map_or(String::new(), |latest| page(self.earlier.as_ref(), latest, colour && text::may_colour()))
    }
}
