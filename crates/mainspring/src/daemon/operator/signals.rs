//! Signals: SIGTERM and SIGINT ask the daemon to end; asked again, it ends firmly. SIGHUP has it
//! read its settings again.

use crate::daemon::pump::Pump;
use mainspring_reactor::{Handle, Signal};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// What a second Ctrl-C does.
const AGAIN: &str = "Ctrl-C again ends it at once; unfinished requests then end with an error";

pub(crate) fn watch(reactor: &Handle, pump: &Rc<Pump>) -> Result<(), mainspring_reactor::Error> {
    let asked = Rc::new(Cell::new(false));
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let (pump, asked) = (Rc::clone(pump), Rc::clone(&asked));
        reactor.on_signal(signal, move |event| match asked.replace(true) {
            false => {
                pump.shutdown(name);
                // Somebody sits at a terminal, and may not want to wait. The next turn says so,
                // because this one says what is waited for.
                if signal == Signal::INT {
                    let _ = event.reactor().after(Duration::ZERO, |_| tracing::info!("{AGAIN}"));
                }
            }
            true => pump.hasten(name),
        })?;
    }
    let at_hangup = Rc::clone(pump);
    reactor.on_signal(Signal::HUP, move |_| Pump::reload(&at_hangup))?;
    Ok(())
}
