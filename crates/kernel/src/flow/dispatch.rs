//! From the lanes to the mailboxes, and from the mailboxes into the actors' hands.

use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, ConnectionId, Now};
use crate::flow::ingest::is_reserved;
use crate::flow::routes::Handler;
use crate::flow::work;
use crate::kernel::{Kernel, Life};
use crate::records::dead_letters::Owner;
use crate::records::history::Audience;
use crate::requests::{Phase, RequestKey};
use crate::supervision::actors::{ActorState, Mail};
use mainspring_message::{Envelope, Failure};

/// Up to so many requests in an actor's hands, looking at each is faster than a hash table.
const HANDS_SCANNED_MAX: usize = 8;

/// An event that is told to more clients than one turn should tell it to.
#[derive(Debug, Default)]
pub(crate) struct FanOut {
    event: Option<Envelope>,
    /// Everyone who wants it; kept for its room.
    clients: Vec<ConnectionId>,
    /// How many of them were told.
    told: usize,
}

impl FanOut {
    /// Whether there are some who have not been told yet.
    pub(crate) fn is_under_way(&self) -> bool {
        self.event.is_some()
    }
}

impl Kernel {
    /// Routes one request from the User lane, which came from this queue unless that is gone.
    pub(crate) fn dispatch(&mut self, key: RequestKey, queue: Option<u32>, now: Now) {
        // It may have timed out in the lane.
        if self.requests.get(key).is_none() {
            return;
        }
        match self.requests.entry(key.slot()).handler {
            Handler::Capability(capability) => self.post(capability, key, now),
            Handler::Builtin(builtin) => self.serve_builtin(builtin, key, queue, now),
        }
    }

    /// Puts a request into a mailbox, or ends it when that is closed or full.
    pub(crate) fn post(&mut self, capability: u32, key: RequestKey, now: Now) {
        let Some(live) = self.requests.get_mut(key) else { return };
        let bytes = live.message.line().len();
        let actor = &mut self.actors[capability as usize];
        if matches!(actor.state, ActorState::Unhealthy(_) | ActorState::Stopped) {
            let (failure, text) = actor.trouble();
            return self.fail(key, failure, &text, now);
        }
        if !actor.mailbox_takes(bytes) {
            let text = format!("the mailbox of {} is full", actor.manifest.id);
            return self.fail(key, Failure::Overloaded, &text, now);
        }
        live.phase = Phase::Mailbox;
        actor.mail_len += 1;
        actor.mail_bytes += bytes;
        actor.mailbox.push_back(Mail::Request(key));
        self.pump(capability, now);
        self.tidy_mailbox(capability);
    }

    /// Removes the traces of requests that timed out in a mailbox, once they outnumber the rest.
    fn tidy_mailbox(&mut self, capability: u32) {
        let actor = &mut self.actors[capability as usize];
        if actor.mailbox.len() <= 64 + 2 * actor.mail_len {
            return;
        }
        let requests = &self.requests;
        actor.mailbox.retain(|mail| match mail {
            Mail::Request(key) => requests.get(*key).is_some_and(|live| live.phase == Phase::Mailbox),
            Mail::Event(_) => true,
        });
    }

    /// Tells an event to everyone who wants it; returns how many those are.
    pub(crate) fn publish(&mut self, event: &Envelope, now: Now) -> Audience {
        let mut heard = false;
        let wanted = self.routes.subscribers(event.type_name()).len();
        let mut reached = 0;
        for at in 0..wanted {
            let subscriber = &self.routes.subscribers(event.type_name())[at];
            let capability = subscriber.capability;
            let verdict = match &subscriber.inbound {
                Some(validator) => validator.check(event.data(), event.metadata()),
                None => Ok(()),
            };
            heard = true;
            match verdict {
                Ok(()) => reached += u32::from(self.post_event(capability, event, now)),
                Err(violation) => {
                    let reason = format!("breaks the schema of its subscriber: {violation}");
                    self.bury(Owner::Capability(capability), event.clone(), &reason, 0, now);
                }
            }
        }
        let mut clients = std::mem::take(&mut self.fan_out.clients);
        self.subscribers.of(event.type_name(), &mut clients);
        heard |= !clients.is_empty();
        let to = Audience::Subscribers { capabilities: reached, clients: clients.len() as u32 };
        self.fan_out = FanOut { event: None, clients, told: 0 };
        self.tell_some(event, now);
        if !heard && !is_reserved(event.type_name()) {
            self.counters.events_unheard += 1;
        }
        to
    }

    /// Tells an event to the next of those who want it; remembers it if there are more.
    fn tell_some(&mut self, event: &Envelope, now: Now) {
        let mut fan_out = std::mem::take(&mut self.fan_out);
        let end = fan_out.clients.len().min(fan_out.told + work::FAN_OUT_MAX);
        for connection in &fan_out.clients[fan_out.told..end] {
            self.write_event(*connection, event, now);
        }
        self.work += (end - fan_out.told) as u64 * work::COMPLETION;
        fan_out.told = end;
        fan_out.event = (end < fan_out.clients.len()).then(|| event.clone());
        self.fan_out = fan_out;
    }

    /// Goes on telling an event; true if everyone has been told.
    pub(crate) fn go_on_telling(&mut self, now: Now) -> bool {
        if let Some(event) = self.fan_out.event.take() {
            self.tell_some(&event, now);
        }
        !self.fan_out.is_under_way()
    }

    /// Puts an event into a mailbox; false if it became a dead letter instead.
    fn post_event(&mut self, capability: u32, event: &Envelope, now: Now) -> bool {
        let bytes = event.line().len();
        let actor = &mut self.actors[capability as usize];
        let closed = matches!(actor.state, ActorState::Unhealthy(_) | ActorState::Stopped)
            || self.life == Life::Flushing;
        if closed || !actor.mailbox_takes(bytes) {
            let trouble = if closed { actor.state_name() } else { "out of room in its mailbox" };
            let reason = format!("its subscriber {} is {trouble}", actor.manifest.id);
            self.bury(Owner::Capability(capability), event.clone(), &reason, 0, now);
            return false;
        }
        actor.mail_len += 1;
        actor.mail_bytes += bytes;
        actor.mailbox.push_back(Mail::Event(event.clone()));
        self.pump(capability, now);
        true
    }

    /// Delivers from the mailbox, in order, for as long as the actor takes what is next.
    pub(crate) fn pump(&mut self, capability: u32, now: Now) {
        loop {
            let actor = &mut self.actors[capability as usize];
            // Once the actors' inputs are ended, nothing is delivered any more.
            if actor.state != ActorState::Up
                || actor.blocked
                || actor.succession.holds_mail()
                || self.life == Life::Flushing
            {
                return;
            }
            match actor.mailbox.front() {
                None => return,
                Some(Mail::Request(key)) => {
                    let key = *key;
                    let waits = self.requests.get(key).is_some_and(|live| live.phase == Phase::Mailbox);
                    if waits && (!actor.has_room() || self.same_id_in_hands(capability, key)) {
                        return;
                    }
                    self.actors[capability as usize].mailbox.pop_front();
                    if waits {
                        self.deliver(capability, key, now);
                    }
                }
                Some(Mail::Event(_)) => {
                    let Some(Mail::Event(event)) = actor.mailbox.pop_front() else { return };
                    self.deliver_event(capability, event, now);
                }
            }
        }
    }

    /// Whether the actor has a request with the same id from another peer: its outcome could not be told apart.
    fn same_id_in_hands(&mut self, capability: u32, key: RequestKey) -> bool {
        let actor = &self.actors[capability as usize];
        if actor.in_flight.is_empty() && actor.overdue.is_empty() {
            return false;
        }
        let Some(live) = self.requests.get(key) else { return false };
        let id = live.message.id_text();
        actor.overdue.iter().any(|overdue| *overdue.id == *id)
            || self.find_in_hands(capability, &id).is_some()
    }

    /// The request with this id that is in the hands of the actor.
    pub(crate) fn find_in_hands(&mut self, capability: u32, id: &str) -> Option<RequestKey> {
        let hands = &self.actors[capability as usize].in_flight;
        if hands.len() > HANDS_SCANNED_MAX {
            let hash = self.hash_id(id);
            let slot = self.requests.find_in_flight(hash, capability, id)?;
            return Some(self.requests.key(slot));
        }
        let fits = |key: &&RequestKey| self.requests.get(**key).is_some_and(|live| live.message.id() == id);
        hands.iter().find(fits).copied()
    }

    fn deliver(&mut self, capability: u32, key: RequestKey, now: Now) {
        self.requests.note_delivery(key);
        let actor = &mut self.actors[capability as usize];
        let Some(live) = self.requests.get_mut(key) else { return };
        live.phase = Phase::InFlight(actor.in_flight.len() as u32);
        live.attempts += 1;
        live.delivered_ns = now.mono_ns;
        if live.attempts > 1 {
            self.counters.retries += 1;
        }
        actor.in_flight.push(key);
        actor.mail_len -= 1;
        actor.mail_bytes -= live.message.line().len();
        self.counters.deliveries += 1;
        self.work += live.message.line().len() as u64 / work::BYTES_PER_WORK;
        let message = live.message.clone();
        self.effects.push(Effect::Deliver { actor: actor.reference(capability), message });
    }

    fn deliver_event(&mut self, capability: u32, event: Envelope, _now: Now) {
        let recent_max = self.config.limits.recent_events_max;
        let actor = &mut self.actors[capability as usize];
        actor.mail_len -= 1;
        actor.mail_bytes -= event.line().len();
        actor.remember(&event, true, recent_max);
        self.counters.deliveries += 1;
        self.counters.events_delivered += 1;
        self.effects.push(Effect::Deliver { actor: actor.reference(capability), message: event });
    }

    /// Takes a request out of the actor's hands; call it before the phase changes.
    pub(crate) fn leave_hands(&mut self, capability: u32, key: RequestKey) {
        let Some(Phase::InFlight(at)) = self.requests.get(key).map(|live| live.phase) else { return };
        let in_flight = &mut self.actors[capability as usize].in_flight;
        in_flight.swap_remove(at as usize);
        if let Some(moved) = in_flight.get(at as usize).and_then(|moved| self.requests.get_mut(*moved)) {
            moved.phase = Phase::InFlight(at);
        }
    }

    /// An actor takes no more for now (its pipe is full): nothing is delivered until [`Kernel::actor_ready`].
    pub fn actor_blocked(&mut self, actor: ActorRef, _now: Now) {
        if let Some(it) = self.living(actor) {
            it.blocked = true;
        }
    }

    /// A blocked actor takes messages again.
    pub fn actor_ready(&mut self, actor: ActorRef, now: Now) {
        let Some(it) = self.living(actor) else { return };
        it.blocked = false;
        let answers = std::mem::take(&mut it.answers);
        it.answers_bytes = 0;
        for answer in answers {
            self.hand_answer(actor, answer, now);
        }
        self.pump(actor.capability, now);
    }
}
