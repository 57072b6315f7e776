//! Events on their way to everyone who wants them: capabilities at once, clients in slices.
//!
//! An event may have thousands of subscribers. It goes to so many of them in one turn, and between
//! two such slices requests are served. All of them get it before anyone gets the next event, so
//! that nobody sees two events in another order than the others; until then events wait in their
//! queues, with all that their senders sent after them.

use crate::api::ids::{CapabilityId, ConnectionId};
use crate::dead_letters::Owner;
use crate::flow::refusal::is_reserved;
use crate::flow::system::Hearers;
use crate::flow::work;
use crate::history::Audience;
use crate::kernel::Kernel;
use mainspring_message::Envelope;

/// An event that is on its way to clients.
#[derive(Debug, Default)]
pub(crate) struct FanOut {
    /// It, while there are clients that have not got it.
    event: Option<Envelope>,
    /// Everyone who wants it, in order; kept for its room.
    clients: Vec<ConnectionId>,
    /// How many of them have got it.
    reached: usize,
}

impl FanOut {
    /// Whether there are clients that have not got the event yet.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.event.is_some()
    }

    /// The type of the event that is under way.
    pub(crate) fn type_name(&self) -> Option<&str> {
        self.event.as_ref().map(Envelope::type_name)
    }

    /// A client does not want the event any more.
    pub(crate) fn leave_out(&mut self, connection: ConnectionId) {
        if let Ok(at) = self.clients[self.reached..].binary_search(&connection) {
            self.clients.remove(self.reached + at);
        }
    }
}

impl Kernel {
    /// Sends an event to everyone who wants it; returns how many those are.
    pub(crate) fn publish(&mut self, event: &Envelope) -> Audience {
        self.publish_to(event, Hearers::All)
    }

    /// Sends an event to everyone who wants it and may hear it.
    pub(crate) fn publish_to(&mut self, event: &Envelope, hearers: Hearers) -> Audience {
        let wanted = self.routes.subscribers(event.type_name()).len();
        let mut capabilities = 0;
        for at in 0..wanted {
            let subscriber = &self.routes.subscribers(event.type_name())[at];
            let (capability, verdict) = (subscriber.capability, subscriber.check(event));
            let posted = verdict.and_then(|()| self.post_event(capability, event));
            match posted {
                Ok(()) => capabilities += 1,
                Err(reason) => {
                    let owner = Owner::Capability(capability);
                    self.dead_letters.bury(owner, event.clone(), &reason, 0, &mut self.out);
                }
            }
        }
        self.connections.subscribers(event.type_name(), &mut self.fan_out.clients);
        if let Hearers::Operators(peer) = hearers {
            // A line of a log is of a capability; all else is about messages, which may be of any
            // type.
            let tells_messages = event.type_name() != "Sys.Log";
            let connections = &self.connections;
            self.fan_out.clients.retain(|connection| {
                let is_own = || connections.place(*connection).map(|place| place.peer) == peer;
                let may_hear = || {
                    let rights = connections.rights(*connection);
                    rights.is_some_and(|rights| {
                        rights.is_operator() && (!rights.leaves_types_out() || !tells_messages)
                    })
                };
                may_hear() || (peer.is_some() && is_own())
            });
        }
        self.fan_out.reached = 0;
        let clients = self.fan_out.clients.len() as u32;
        if clients > 0 {
            self.fan_out_some(event);
        }
        if wanted == 0 && clients == 0 && !is_reserved(event.type_name()) {
            self.out.counters.events_unheard += 1;
        }
        Audience::Subscribers { capabilities, clients }
    }

    /// Puts an event into a mailbox; else why it is a dead letter.
    fn post_event(&mut self, capability: CapabilityId, event: &Envelope) -> Result<(), String> {
        self.actors.post_event(capability, event, self.lifecycle.is_flushing())?;
        self.deliver_mail(capability);
        Ok(())
    }

    /// Goes on with the event that is under way.
    pub(crate) fn go_on_with_fan_out(&mut self) {
        if let Some(event) = self.fan_out.event.take() {
            let rested = self.out.rest_on(self.out.facts.of_any());
            self.fan_out_some(&event);
            self.out.rest_on(rested);
        }
    }

    /// Writes an event to the next of those who want it; keeps it if there are more.
    fn fan_out_some(&mut self, event: &Envelope) {
        let clients = std::mem::take(&mut self.fan_out.clients);
        let from = self.fan_out.reached;
        let slice = if self.lanes.is_ready() { work::FAN_OUT_SHARED_MAX } else { work::FAN_OUT_MAX };
        let end = clients.len().min(from + slice);
        for connection in &clients[from..end] {
            self.write_event(*connection, event);
        }
        self.out.work += (end - from) as u64 * work::COMPLETION;
        if end < clients.len() {
            self.fan_out.event = Some(event.clone());
            self.lanes.hold_events();
        } else {
            self.lanes.release_events();
        }
        self.fan_out.reached = end;
        self.fan_out.clients = clients;
    }
}
