//! What the daemon says.

use super::{Core, Gap, GapReason, Pending, Purpose, Settled, WatchState, Watched};
use crate::error::{ConnectError, Error, Outcome};
use crate::request::Reply;
use mainspring_message::{Envelope, Kind};
use serde_json::Value;
use std::time::Instant;

/// The cause of an error that is about the connection as a whole.
const CONNECTION: &str = "connection";
/// How much of a line is quoted in an error.
const QUOTE_BYTES_MAX: usize = 80;

impl Core {
    /// Takes a line of the daemon.
    ///
    /// # Errors
    /// The daemon turned the connection away, or is none.
    pub(crate) fn take_line(&mut self, line: &[u8]) -> Result<(), ConnectError> {
        self.heard = Instant::now();
        let message = Envelope::parse(line).map_err(|_| {
            let beginning = String::from_utf8_lossy(&line[..line.len().min(QUOTE_BYTES_MAX)]).into_owned();
            let words = "what listens there wrote something that is not a message";
            ConnectError::NotADaemon(format!("{words}: {beginning:?}"))
        })?;
        match message.kind() {
            Kind::Event => self.take_event(message),
            Kind::Reply | Kind::Error => return self.take_outcome(message),
            // A daemon asks its clients nothing.
            Kind::Command | Kind::Query => {}
        }
        Ok(())
    }

    fn take_outcome(&mut self, message: Envelope) -> Result<(), ConnectError> {
        let cause = message.causation().unwrap_or_default();
        let number = self.numbers.get(cause).copied();
        let Some(pending) = number.and_then(|number| self.remove(number)) else {
            return self.take_stray(&message);
        };
        let settled = match message.kind() {
            Kind::Reply => Ok(Reply(message)),
            _ => Err(Error::Outcome(Box::new(Outcome::of(&message, &pending.id, &pending.type_name)))),
        };
        self.settle(pending, settled);
        Ok(())
    }

    /// An outcome of nothing that is waited for.
    fn take_stray(&mut self, message: &Envelope) -> Result<(), ConnectError> {
        if message.kind() != Kind::Error {
            return Ok(());
        }
        if message.causation() == Some(CONNECTION) {
            let told = Outcome::of(message, "", "");
            return Err(match told.code {
                403 => ConnectError::Token(format!("the daemon does not take this token: {}", told.message)),
                code => ConnectError::TurnedAway { code, message: told.message },
            });
        }
        if Outcome::names_no_message(message)
            && let Some(number) = self.nameless(message.type_name())
            && let Some(pending) = self.remove(number)
        {
            let outcome = Outcome::of(message, &pending.id, &pending.type_name);
            self.settle(pending, Err(Error::Outcome(Box::new(outcome))));
        }
        Ok(())
    }

    /// The request that an error is about which the daemon could not name: the only one, or the one
    /// with the longest line.
    fn nameless(&self, error_type: &str) -> Option<u64> {
        let mut written = self.pending.iter().filter(|(_, pending)| pending.is_written);
        let first = written.next()?;
        let mut rest = written.peekable();
        if rest.peek().is_none() {
            return Some(*first.0);
        }
        let is_too_large = error_type == mainspring_message::Failure::TooLarge.type_name();
        let longest = rest.chain([first]).max_by_key(|(_, pending)| pending.line.len());
        longest.filter(|_| is_too_large).map(|(number, _)| *number)
    }

    /// Gives an outcome to whoever waits for it.
    fn settle(&mut self, pending: Pending, settled: Settled) {
        match pending.purpose {
            Purpose::Caller(slot) | Purpose::Event(slot) => slot.settle(settled),
            Purpose::EventPing(number) => {
                if let Some(Pending { purpose: Purpose::Event(slot), .. }) = self.remove(number) {
                    slot.settle(settled);
                }
            }
            Purpose::Subscribe(watch, slot) => {
                match settled {
                    Ok(_) => watch.begin(),
                    Err(_) => self.unsubscribe(&watch),
                }
                slot.settle(settled);
            }
            Purpose::Restrict(wanted, slot) => {
                if settled.is_ok() {
                    self.remember_restriction(wanted);
                }
                slot.settle(settled);
            }
            Purpose::Admission => self.restrict_or_resume(),
            Purpose::RestrictAgain => match settled {
                Ok(_) => self.resume(),
                // Rather nothing at all than with rights that were given up.
                Err(error) => {
                    let words = format!("the rights of a new connection cannot be restricted: {error}");
                    self.close(Some(Error::closed(words)));
                }
            },
            Purpose::SubscribeAgain(watches) => self.subscribed_again(&watches, settled),
            // A daemon that does not know how to cancel: the request goes on there, and nobody
            // waits for it here.
            Purpose::Cancel => self.can_cancel &= settled.err().and_then(|error| error.code()) != Some(404),
            Purpose::Probe => self.is_probing = false,
            Purpose::Unwatched => {}
        }
    }

    fn remember_restriction(&mut self, wanted: Value) {
        let Value::Object(wanted) = wanted else { return };
        let known = self.restriction.get_or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Value::Object(known) = known {
            known.extend(wanted);
        }
    }

    fn subscribed_again(&mut self, watches: &[WatchState], settled: Settled) {
        for watch in watches {
            match &settled {
                Ok(_) => watch.put(Watched::Gap(Gap { reason: GapReason::Reconnected, count: None })),
                Err(error) => {
                    self.watches.retain(|other| !other.is(watch));
                    watch.end(Some(error.clone()));
                }
            }
        }
    }

    fn take_event(&mut self, event: Envelope) {
        let type_name = event.type_name();
        if type_name == "Sys.EventsDropped" {
            let data: Value = serde_json::from_str(event.data()).unwrap_or_default();
            let gap = Gap { reason: GapReason::Daemon, count: data["count"].as_u64() };
            self.watches.iter().for_each(|watch| watch.put(Watched::Gap(gap)));
            return;
        }
        if type_name.ends_with(".Progress")
            && let Some(number) = event.causation().and_then(|cause| self.numbers.get(cause))
            && let Some(Pending { purpose: Purpose::Caller(slot), .. }) = self.pending.get(number)
        {
            slot.put_progress(&event);
        }
        for watch in self.watches.iter().filter(|watch| watch.wants(type_name)) {
            watch.put(Watched::Event(event.clone()));
        }
    }
}
