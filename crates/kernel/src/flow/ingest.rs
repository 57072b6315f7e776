//! What clients send: checked at once, then accepted into the User lane or refused.

use crate::api::effect::CloseReason;
use crate::api::ids::{ConnectionId, Now};
use crate::dead_letters::Owner;
use crate::egress::ClientPlace;
use crate::flow::admission::Examined;
use crate::flow::lanes::{Item, QueueId};
use crate::flow::refusal::{Refusal, is_reserved};
use crate::kernel::Kernel;
use crate::out::Cause;
use crate::requests::{Admission, Origin, Ticket};
use mainspring_message::{Envelope, ErrorData, Failure, Kind, Rejection, Started};

impl Kernel {
    /// A client sent a line (without its line break).
    pub fn ingest(&mut self, connection: ConnectionId, line: &[u8], now: Now) {
        self.ingest_as(connection, line, now, || Envelope::parse(line));
    }

    /// A client sent a message, which somebody has read already.
    pub fn ingest_message(&mut self, connection: ConnectionId, message: &Envelope, now: Now) {
        self.ingest_as(connection, message.line().as_bytes(), now, || Ok(message.clone()));
    }

    #[inline(always)]
    fn ingest_as(
        &mut self,
        connection: ConnectionId,
        line: &[u8],
        now: Now,
        read: impl FnOnce() -> Result<Envelope, Rejection>,
    ) {
        self.out.now = now;
        self.note(now, |pen| pen.line(connection, line));
        let line_bytes_max = self.config.limits.line_bytes_max;
        let counters = &mut self.out.counters;
        let heard = self.connections.hear(connection, || {
            counters.lines_in += 1;
            if line.len() > line_bytes_max {
                return Err(too_long(line_bytes_max));
            }
            read()
        });
        let (place, message) = match heard {
            None => return,
            Some(Err(rejection)) => return self.reject_line(connection, &rejection),
            Some(Ok(heard)) => heard,
        };
        let verdict = match message.kind() {
            Kind::Command | Kind::Query => return self.ingest_request(connection, place, message),
            Kind::Event => self.ingest_event(connection, place, &message),
            Kind::Reply => Err(Refusal::new(Failure::Forbidden, "kind: a client has nothing to reply to")),
            // An error never produces an error: one that answers nobody ends here.
            Kind::Error => {
                let reason = "an error from a client answers nobody";
                let owner = Owner::Peer(place.peer);
                self.dead_letters.bury(owner, message.clone(), reason, 0, &mut self.out);
                Ok(())
            }
        };
        if let Err(refusal) = verdict {
            self.refuse(connection, &message, refusal);
        }
    }

    /// A client sent a line beyond the limit; the daemon skipped it.
    pub fn line_too_long(&mut self, connection: ConnectionId, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.line_too_long(connection));
        let rejection = too_long(self.config.limits.line_bytes_max);
        self.reject_line(connection, &rejection);
    }

    fn reject_line(&mut self, connection: ConnectionId, rejection: &Rejection) {
        self.out.counters.refused += 1;
        let Some(too_many) = self.connections.note_bad_line(connection) else { return };
        let mut text = rejection.to_string();
        if too_many {
            text.push_str("; too many invalid lines in a row, so the connection is closed");
        }
        let mut data = String::new();
        let error = ErrorData {
            failure: rejection.failure,
            message: &text,
            original_id: rejection.id.as_deref(),
            original_type: rejection.type_name.as_deref(),
            started: Started::No,
        };
        error.write(&mut data);
        // An error about a bad error would be an error about an error.
        if rejection.kind != Some(Kind::Error) {
            let type_name = rejection.failure.type_name();
            // An error names its cause; one that could not be read gets a name here.
            let causation = rejection.id.clone().unwrap_or_else(|| self.out.fresh_id().to_owned());
            let answer = self.out.message(Kind::Error, type_name, &data, Cause::named(&causation));
            let _ = self.write(connection, answer);
        }
        if too_many {
            self.evict(connection, CloseReason::BadLines);
        }
    }

    fn refuse(&mut self, connection: ConnectionId, message: &Envelope, refusal: Refusal) {
        self.out.counters.refused += 1;
        let answer = self.out.failure(message, refusal.failure, &refusal.text, refusal.started);
        let _ = self.write(connection, answer);
    }

    fn ingest_event(
        &mut self,
        connection: ConnectionId,
        place: ClientPlace,
        message: &Envelope,
    ) -> Result<(), Refusal> {
        let queue = place.queue;
        if is_reserved(message.type_name()) {
            let text = format!("type: {} is reserved for the kernel", message.type_name());
            return Err(Refusal::new(Failure::Forbidden, text));
        }
        if place.is_limited {
            self.check_rights(connection, message)?;
        }
        if self.lifecycle.is_ending() {
            return Err(Refusal::shutting_down());
        }
        if message.durable() == Some(true) {
            let text = "metadata.durable: only commands can be durable";
            return Err(Refusal::new(Failure::NotDurable, text));
        }
        self.lanes.check(queue)?;
        self.out.counters.events_accepted += 1;
        self.enqueue(queue, Item::Event(message.clone()), message.line().len());
        Ok(())
    }

    #[inline(always)]
    fn ingest_request(&mut self, connection: ConnectionId, place: ClientPlace, message: Envelope) {
        let ClientPlace { peer, queue, share, is_limited } = place;
        let origin = Origin::Connection(connection);
        let allowed = if is_limited { self.check_rights(connection, &message) } else { Ok(()) };
        match allowed.and_then(|()| self.examine(&message, &origin, peer, queue, None)) {
            // A client that has not read what it has gets even an answer that is there when it has
            // read.
            Ok(Examined::Known(Admission::Answered(_))) if self.connections.is_behind(connection) => {
                self.defer_repetition(connection, queue, message);
            }
            Ok(Examined::Known(Admission::Answered(answer))) => {
                let rested = self.out.rest_on(self.out.facts.of_any());
                let _ = self.answer(connection, answer);
                self.out.rest_on(rested);
            }
            Ok(Examined::Known(_)) => {}
            Ok(Examined::New(ticket)) => {
                self.accept(Ticket { share: Some(share), ..ticket }, message, origin, queue);
            }
            Err(refusal) => {
                self.connections.settle_debt(connection);
                self.refuse(connection, &message, refusal);
            }
        }
    }

    /// Has a repetition wait in its lane.
    #[cold]
    fn defer_repetition(&mut self, connection: ConnectionId, queue: QueueId, message: Envelope) {
        match self.lanes.check(queue) {
            Ok(()) => {
                let bytes = message.line().len();
                self.enqueue(queue, Item::Repetition(message), bytes);
            }
            Err(refusal) => {
                self.connections.settle_debt(connection);
                self.refuse(connection, &message, refusal);
            }
        }
    }

    /// A repetition has waited in its lane: it is answered, or it is new by now.
    #[cold]
    pub(crate) fn ingest_again(&mut self, connection: ConnectionId, message: Envelope) {
        if let Some(place) = self.connections.place(connection) {
            self.ingest_request(connection, place, message);
        }
    }
}

#[cold]
fn too_long(line_bytes_max: usize) -> Rejection {
    Rejection {
        failure: Failure::TooLarge,
        field: "",
        reason: format!("the line is longer than {line_bytes_max} bytes"),
        id: None,
        type_name: None,
        kind: None,
    }
}
