//! `mainspring top`: the daemon at a glance, over and over.
//!
//! `asker` asks the daemon on a thread of its own; `model` is what was told and what is selected,
//! `keys` changes it, `draw` and `page` show it on a `screen`, `columns` and `detail` are parts of
//! that. Model and drawing know no terminal, so that tests compare whole screens.

mod asker;
mod columns;
mod detail;
mod draw;
mod keys;
mod model;
mod page;
mod screen;
#[cfg(test)]
mod tests;

use crate::cli::support::target::{Failure, Target};
use crate::cli::support::{output, text};
use crate::client::ClientError;
use crate::text::units;
use asker::{Asker, Wanted, look};
use keys::keys;
use mainspring_reactor::{Handle, Reactor, Signal};
use model::{Model, Then};
use page::page;
use screen::Screen;
use std::cell::RefCell;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  mainspring top
  mainspring top --interval 250ms
  mainspring top --once            # one look, as text

Where the output is no terminal, or a dumb one (TERM=dumb), it looks once as well.

LATENCY, P50 and P99 are of requests that capabilities were given, from being taken to their outcome, over the last 10 to 20 seconds. They are as fine \
as a turn of the loop: what native code answers in the same turn took no time.

Keys: 1 to 6, Tab and the arrows change the page; up, down, Page Up and Page Down select; Enter shows a row in full, Esc goes back; s sorts by the next column, \
r reverses; / shows rows with some words only; space holds the stream; q ends it; Ctrl-Z stops it, and `fg` has it go on.

Exit code: 0 it was ended or looked once, 1 the daemon has ended, refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

/// The shortest time between two looks: looking costs the daemon something too.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct TopArguments {
    /// The time between two looks.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "1s")]
    interval: Duration,
    /// Look twice, an interval apart, print that, and end.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &TopArguments) -> ExitCode {
    let can_be_live = text::is_screen() && std::io::stdin().is_terminal();
    let outcome = if arguments.once || !can_be_live { once(arguments) } else { live(arguments) };
    outcome.unwrap_or_else(|failure| failure.report())
}

fn interval(arguments: &TopArguments) -> Duration {
    arguments.interval.max(INTERVAL_MIN)
}

fn once(arguments: &TopArguments) -> Result<ExitCode, Failure> {
    let mut client = arguments.target.connect()?;
    let earlier = look(&mut client, &arguments.target)?;
    std::thread::sleep(interval(arguments));
    let now = look(&mut client, &arguments.target)?;
    Ok(output::print(&page(Some(&earlier), &now, text::may_colour())))
}

fn loop_failed(error: mainspring_reactor::Error) -> Failure {
    Failure::Client(ClientError::Io(std::io::Error::other(error)))
}

fn live(arguments: &TopArguments) -> Result<ExitCode, Failure> {
    let mut reactor = Reactor::new().map_err(loop_failed)?;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        reactor.on_signal(signal, |event| event.reactor().stop()).map_err(loop_failed)?;
    }
    let client = arguments.target.connect()?;
    // Whatever happens from here on, dropping the screen puts the terminal back.
    let state: TopState = Rc::new(RefCell::new(Live {
        model: Model::new(),
        screen: Screen::open()?,
        asker: None,
        outcome: Ok(()),
    }));
    // Before there are other threads: they inherit that these signals are the loop's.
    watch_terminal(&reactor, &state).map_err(loop_failed)?;
    let answered = state.clone();
    let wakeup = reactor.wakeup(move |handle| Live::answered(&answered, handle)).map_err(loop_failed)?;
    let asker = Asker::start(arguments.target.clone(), client, interval(arguments), wakeup);
    state.borrow_mut().asker = Some(asker);
    let typed = state.clone();
    reactor
        .watch_raw(0, ())
        .on_read(move |(), event| Live::typed(&typed, event.reactor()))
        .start()
        .map_err(loop_failed)?;
    let ended = reactor.run().map_err(loop_failed);
    let outcome = std::mem::replace(&mut state.borrow_mut().outcome, Ok(()));
    state.borrow_mut().screen.close();
    ended.and(outcome)?;
    Ok(ExitCode::SUCCESS)
}

/// What is shown, where, and why it ended if it had to.
struct Live {
    model: Model,
    screen: Screen,
    asker: Option<Asker>,
    outcome: Result<(), Failure>,
}

type TopState = Rc<RefCell<Live>>;

impl Live {
    /// Takes what the daemon said.
    fn answered(state: &TopState, handle: &Handle) {
        let mut live = state.borrow_mut();
        let live = &mut *live;
        let Some(asker) = &live.asker else { return };
        live.model.sees_everything = asker.sees_everything();
        live.model.take_stream(asker.stream());
        let taken = asker.told().into_iter().try_for_each(|told| live.model.take(told));
        live.finish(taken, handle);
    }

    /// Does what was typed.
    fn typed(state: &TopState, handle: &Handle) {
        let mut live = state.borrow_mut();
        let Some(bytes) = live.screen.read() else { return handle.stop() };
        for key in keys(&bytes) {
            match live.model.press(key) {
                Then::Stay => {}
                Then::Ask(wanted) => live.want(wanted),
                Then::Quit => return handle.stop(),
            }
        }
        live.finish(Ok(()), handle);
    }

    fn want(&self, wanted: Wanted) {
        if let Some(asker) = &self.asker {
            asker.want(wanted);
        }
    }

    /// Draws, or ends with what went wrong.
    fn finish(&mut self, so_far: Result<(), Failure>, handle: &Handle) {
        let (model, screen) = (&mut self.model, &mut self.screen);
        let drawn = so_far.and_then(|()| Ok(screen.draw(|frame| draw::draw(frame, model))?));
        if drawn.is_err() {
            self.outcome = drawn;
            handle.stop();
        }
    }
}

/// The size of the terminal, the stop key and `fg`. The terminal is the shell's while this process
/// is stopped, whoever stopped it.
fn watch_terminal(reactor: &Reactor, state: &TopState) -> Result<(), mainspring_reactor::Error> {
    let resized = state.clone();
    reactor.on_signal(Signal::WINCH, move |event| {
        let mut live = resized.borrow_mut();
        let taken = live.screen.resize().map_err(Failure::from);
        live.finish(taken, event.reactor());
    })?;
    let stopped = state.clone();
    reactor.on_signal(Signal::from_raw(libc::SIGTSTP), move |_| {
        stopped.borrow_mut().screen.close();
        // The stop key's own signal is ours now; this one stops everybody.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    })?;
    let resumed = state.clone();
    reactor.on_signal(Signal::from_raw(libc::SIGCONT), move |event| {
        let mut live = resumed.borrow_mut();
        let taken = live.screen.reopen().map_err(Failure::from);
        live.finish(taken, event.reactor());
    })?;
    Ok(())
}
