//! How a request is let in, whoever makes it: a client, an actor, or the kernel for one of them.

use crate::api::effect::Effect;
use crate::api::ids::Source;
use crate::durability::Durably;
use crate::flow::lanes::{Item, QueueId, Sender};
use crate::flow::refusal::Refusal;
use crate::kernel::Kernel;
use crate::requests::{Admission, Origin, PeerId, RequestKey, Ticket};
use mainspring_message::Envelope;

/// A request that asks to be let in.
pub(super) struct Applicant<'a> {
    pub(super) message: &'a Envelope,
    pub(super) origin: Origin,
    pub(super) peer: PeerId,
    /// The queue of its sender in the User lane.
    pub(super) queue: QueueId,
    /// The request that its sender was working on.
    pub(super) cause: Option<RequestKey>,
}

/// What is found out about a request.
pub(super) enum Examined {
    New(Ticket),
    Known(Admission),
}

impl Kernel {
    /// Lets a request in, unless it is refused or known.
    pub(super) fn admit(&mut self, applicant: Applicant<'_>) -> Result<Admission, Refusal> {
        let Applicant { message, origin, peer, queue, cause } = applicant;
        match self.examine(message, &origin, peer, queue, cause)? {
            Examined::Known(admission) => Ok(admission),
            Examined::New(ticket) => {
                self.accept(ticket, message.clone(), origin, queue);
                Ok(Admission::Accepted)
            }
        }
    }

    /// Looks at a request before it is let in: route, schema, repetition, limits.
    pub(super) fn examine(
        &mut self,
        message: &Envelope,
        origin: &Origin,
        peer: PeerId,
        queue: QueueId,
        cause: Option<RequestKey>,
    ) -> Result<Examined, Refusal> {
        let handler = self.routes.find(message)?;
        let hash = self.out.hash_id(message.id());
        let mut fingerprint = self.out.fingerprint(message);
        if let (true, Origin::Connection(connection)) = (handler.is_for_one_connection(), origin) {
            // The same words on another connection ask for something else.
            fingerprint ^= self.out.hash_id(&connection.to_string());
        }
        let identity = (hash, fingerprint);
        if let Some(earlier) = self.requests.repetition(message, origin, peer, identity, &mut self.out)? {
            return Ok(Examined::Known(earlier));
        }
        if self.lifecycle.is_ending() && matches!(origin, Origin::Connection(_)) {
            return Err(Refusal::shutting_down());
        }
        let durable = self.durably(message, handler)?;
        self.lanes.check(queue)?;
        self.requests.check_room(peer)?;
        let (deadline_ns, depth) = self.requests.deadline(message, cause, &self.out)?;
        // What the kernel sends for somebody has an id of the kernel's own, which nobody sends
        // again.
        let share = match origin {
            Origin::Actor(_) => self.requests.share_of_actor(peer),
            Origin::Connection(_) | Origin::Delegate(_) => None,
        };
        let ticket = Ticket { handler, peer, hash, fingerprint, cause, deadline_ns, depth, share, durable };
        Ok(Examined::New(ticket))
    }

    /// Lets a request in: its place in the table, its deadline, its place in the lane.
    pub(super) fn accept(&mut self, ticket: Ticket, message: Envelope, origin: Origin, queue: QueueId) {
        let bytes = message.line().len();
        let durable = ticket.durable;
        if durable != Durably::No {
            let sender = match &origin {
                Origin::Connection(connection) => Sender::Connection(*connection),
                Origin::Actor(actor) => Sender::Actor(actor.capability),
                Origin::Delegate(_) => Sender::Kernel,
            };
            self.pause_if_congested(sender, bytes);
        }
        let key = self.requests.accept(ticket, message, origin, &mut self.out);
        if durable != Durably::No {
            self.record_accepted(key);
        }
        self.enqueue(queue, Item::Request(key), bytes);
    }

    /// Puts a message into the User lane, and pauses its sender at the bound.
    #[inline]
    pub(crate) fn enqueue(&mut self, queue: QueueId, item: Item, bytes: usize) {
        if let Some(sender) = self.lanes.push(queue, item, bytes) {
            self.set_reading(sender, true);
        }
    }

    /// Pauses or resumes the reading from a sender.
    #[cold]
    pub(crate) fn set_reading(&mut self, sender: Sender, paused: bool) {
        match sender {
            Sender::Connection(connection) => {
                self.connections.set_lane_paused(connection, paused, &mut self.out);
            }
            Sender::Actor(capability) => {
                // An actor on its way up is told when it is there: the daemon knows nothing of
                // earlier incarnations.
                let Some(actor) = self.actors.working(capability) else { return };
                if self.waits_for_disk(capability) {
                    return;
                }
                let source = Source::Actor(actor);
                self.out.push(match paused {
                    true => Effect::PauseReading { source },
                    false => Effect::ResumeReading { source },
                });
            }
            Sender::Kernel => {}
        }
    }
}
