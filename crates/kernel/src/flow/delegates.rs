//! What the kernel sends for somebody: scheduled messages, and dead letters put back.

use crate::dead_letters::Owner;
use crate::durability::Durably;
use crate::flow::admission::Applicant;
use crate::flow::lanes::{Item, QueueId};
use crate::flow::refusal::Refusal;
use crate::flow::system::Hearers;
use crate::kernel::{Kernel, with_verbatim};
use crate::out::MS;
use crate::requests::{Delegate, Origin, PeerId, Recipient};
use crate::time::schedules::{GoneSchedule, ScheduleId};
use mainspring_message::{Envelope, Kind};

/// How long a tick waits for a disk that does not keep up, before that is looked at again. Those
/// that are due in the meantime fold into it.
const DISK_WAIT_NS: i64 = 200 * MS;

impl Kernel {
    /// A scheduled message is due: it is sent as if it had come in, with a fresh id.
    pub(crate) fn fire_schedule(&mut self, id: ScheduleId) {
        let Some(due) = self.schedules.due(id) else { return };
        if due.needs_place
            && let Some(place_ns) = self.requests.place_of_tick(due.peer, &self.out)
        {
            return self.schedules.hold_tick(id, place_ns, &mut self.out);
        }
        // Each is a fact at least.
        if due.repeats && self.takes_no_events() && self.is_kept(id, due.is_durable) {
            let again_ns = self.out.now.mono_ns.saturating_add(DISK_WAIT_NS);
            return self.schedules.hold_tick(id, again_ns, &mut self.out);
        }
        // There is no point in more for a client that has not read what it has.
        let unread =
            matches!(due.to, Recipient::Connection(connection) if self.connections.is_behind(connection));
        let crowded = unread || self.lanes.is_crowded(due.queue);
        let fired = self.schedules.fire(id, crowded, &mut self.out);
        if let Some((message, delegate)) = fired.send {
            // What may have been scheduled may be sent, unless whoever did so has lost that since.
            match self.check_scheduled(due.peer, fired.rights.as_ref(), message.type_name()) {
                Ok(()) => self.send_for(message, due.peer, due.queue, delegate),
                Err(refusal) => self.refuse_for(&message, due.peer, &delegate, &refusal),
            }
        }
        if let Some(state) = &fired.durable {
            self.record_fired(due.peer, state);
        }
        if let Some(gone) = fired.gone {
            self.schedule_gone(gone);
        }
    }

    /// Whether facts come of what a schedule sends: of the schedule, or of the command.
    fn is_kept(&self, id: ScheduleId, is_durable: bool) -> bool {
        let command = self.schedules.command(id).and_then(|name| self.routes.handler(Kind::Command, name));
        is_durable || command.is_some_and(|handler| self.way_to_keep(handler).0 != Durably::No)
    }

    /// A schedule is no more.
    pub(crate) fn schedule_gone(&mut self, gone: GoneSchedule) {
        if let Some(queue) = gone.queue {
            self.lanes.close(queue);
        }
        self.requests.release_peer(gone.peer);
    }

    /// Sends a message on behalf of somebody, from a queue of the kernel's: a schedule, or a dead
    /// letter put back.
    ///
    /// What is refused ends in an error all the same, because whoever asked for it was told that it
    /// would be sent.
    pub(crate) fn send_for(&mut self, message: Envelope, peer: PeerId, queue: QueueId, delegate: Delegate) {
        let sent = if message.kind() == Kind::Event {
            self.lanes.check(queue).map(|()| {
                self.out.counters.events_accepted += 1;
                self.enqueue(queue, Item::Event(message.clone()), message.line().len());
            })
        } else {
            let origin = Origin::Delegate(Box::new(delegate.clone()));
            let applicant = Applicant { message: &message, origin, peer, queue, cause: None };
            self.admit(applicant).map(|_| ())
        };
        if let Err(refusal) = sent {
            self.refuse_for(&message, peer, &delegate, &refusal);
        }
    }

    fn refuse_for(&mut self, message: &Envelope, peer: PeerId, delegate: &Delegate, refusal: &Refusal) {
        self.out.counters.refused += 1;
        let answer = self.out.failure(message, refusal.failure, &refusal.text, refusal.started);
        self.deliver_delegated(peer, delegate, message, 0, answer);
    }

    /// The outcome of a scheduled or requeued request: to whoever asked for it if it is still
    /// there, else an event. An error is a dead letter as well.
    pub(crate) fn deliver_delegated(
        &mut self,
        peer: PeerId,
        delegate: &Delegate,
        message: &Envelope,
        attempts: u32,
        answer: Envelope,
    ) {
        let timer_id = delegate.timer_id.as_deref();
        if answer.kind() == Kind::Error {
            let reason = format!("ended in an error: {}", answer.data());
            let owner = Owner::Peer(peer);
            self.dead_letters.bury(owner, message.clone(), &reason, attempts, &mut self.out);
        }
        let answer = match timer_id {
            Some(timer_id) if !answer.metadata().contains("\"timerId\"") => {
                answer.with_metadata_member("timerId", timer_id)
            }
            _ => answer,
        };
        let answer = match delegate.to {
            Recipient::Connection(connection) => match self.write(connection, answer) {
                Ok(()) => return,
                Err(answer) => answer,
            },
            Recipient::Actor(actor) if self.actors.is_up(actor) => {
                return self.deliver_answer(actor, answer);
            }
            Recipient::Actor(_) => answer,
        };
        let data = serde_json::json!({
            "timerId": timer_id,
            "originalId": answer.causation(),
            "kind": answer.kind().as_str(),
            "type": answer.type_name(),
        });
        let hearers = Hearers::Operators(Some(peer));
        self.out.announce_for(hearers, "Sys.TimerOutcome", with_verbatim(&data, "data", answer.data()));
    }
}
