//! What survives the process: which facts are recorded, what rests on them, and what is taken up
//! again at a start.
//!
//! The kernel knows no disk. It counts the facts that it records ([`FactBook`], on the desk where
//! every part writes); whoever carries its effects out says how many of them are on disk
//! ([`Kernel::flushed`]). An effect that rests on a fact comes behind
//! [`Effect::After`](crate::Effect::After).

mod book;
mod events;
mod failing;
mod letters;
mod restoring;
mod timers;

pub(crate) use book::{FactBook, Storage};
pub(crate) use restoring::NOBODY;

use crate::actors::Actors;
use crate::api::fact::{Answer, Ending, Fact, PeerName};
use crate::api::ids::{ActorRef, CapabilityId, ConnectionId, Now};
use crate::facts::{Durable, fingerprint};
use crate::flow::completions::Words;
use crate::flow::refusal::Refusal;
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::out::{MS, Out};
use crate::requests::{Ended, PeerId, RequestKey, Requests};
use failing::PausedBy;
use mainspring_message::{Envelope, Failure, Kind};

/// Bytes of a message that a fact can hold. Beyond: a durable command is refused (413); of an
/// answer the next run knows that it was given, and a dead letter ends with this one.
pub(crate) const FACT_BYTES_MAX: usize = 8 << 20;

/// Bytes of durable commands and dead letters that are taken while too much waits for the disk:
/// each sender is paused with its first, but there may be many. Beyond: further commands are
/// refused (503), and letters are recorded later.
const CONGESTED_BYTES_MAX: usize = 64 << 20;

/// How a request survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Durably {
    /// It does not.
    #[default]
    No,
    /// Step by step: accepted, delivered and ended, under this number.
    Steps(u64),
    /// Its whole effect is in facts, so that its end is all that is recorded.
    Whole,
}

/// What the kernel keeps of all this besides the count of facts.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    last_request: u64,
    /// What an earlier run left, until the boot takes it up.
    restored: Option<Box<Durable>>,
    /// Whether so much waits for the disk that senders are paused, and who is.
    is_congested: bool,
    /// Bytes of durable commands and dead letters that were taken since it is so.
    congested_bytes: usize,
    paused: Vec<ConnectionId>,
    /// The capabilities from which nothing is read while the disk does not keep up or is full.
    paused_capabilities: Vec<(CapabilityId, PausedBy)>,
    /// Commands that this run left to the next one.
    pub(crate) left_for_next_run: u64,
}

#[inline]
fn record_ending(out: &mut Out, window_ms: u64, which: Ending<&str>, answer: Option<Answer<&str>>) -> u64 {
    let unix_ms = out.now.unix_ms;
    let until_ms = unix_ms.saturating_add(window_ms);
    out.record(&Fact::Ended { which, unix_ms, until_ms, answer })
}

/// The name of a peer that outlives the process; an empty one if nothing refers to the peer any
/// more.
pub(crate) fn durable_name<'a>(
    requests: &'a Requests,
    actors: &'a Actors,
    peer: PeerId,
) -> PeerName<&'a str> {
    match requests.identity(peer) {
        Some(Some(name)) => PeerName::Client(name),
        Some(None) => {
            let own = actors.ids().find(|capability| actors.sender(*capability).0 == peer);
            PeerName::Capability(own.map_or("", |own| actors.id(own)))
        }
        None => PeerName::Client(""),
    }
}

/// The Unix time of a monotonic deadline, rounded up: nothing is due early.
pub(crate) fn unix_of(deadline_ns: i64, now: Now) -> u64 {
    let left_ns = i128::from(deadline_ns) - i128::from(now.mono_ns);
    let left_ms = (left_ns + i128::from(MS) - 1).div_euclid(i128::from(MS));
    u64::try_from((i128::from(now.unix_ms) + left_ms).max(0)).unwrap_or(u64::MAX)
}

impl Kernel {
    /// There is a journal, and this is what its facts come to. Before the boot, which takes it up.
    ///
    /// From here on the kernel records facts. Without this call it never does.
    pub fn restore(&mut self, durable: Durable, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.restore(&durable));
        self.out.facts.storage = Storage::Ready;
        self.durability.last_request = durable.last_request;
        self.durability.restored = Some(Box::new(durable));
    }

    /// Facts up to this one, by [`Effect::Record`](crate::Effect::Record)'s count, are on disk.
    pub fn flushed(&mut self, fact: u64, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.flushed(fact));
        self.out.facts.note_flushed(fact);
    }

    /// Whether there is a journal that takes facts: whoever keeps its whole state as facts need not
    /// make them otherwise.
    pub fn is_durable(&self) -> bool {
        self.out.facts.is_on()
    }

    /// A native actor changed what it keeps, by a fact.
    pub fn actor_record<T: AsRef<str>>(&mut self, actor: ActorRef, fact: &Fact<T>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_record(actor, fact));
        if self.actors.is_up(actor) {
            let fact = self.out.record(fact);
            self.out.facts.note_said(Some(actor.capability), fact);
        }
    }

    /// How a request is to survive, or why it cannot though its sender demands it.
    #[inline]
    pub(crate) fn durably(&self, message: &Envelope, handler: Handler) -> Result<Durably, Refusal> {
        if self.out.facts.storage == Storage::None && message.durable() != Some(true) {
            return Ok(Durably::No);
        }
        self.durably_with_journal(message, handler)
    }

    /// How a command survives that does not say, or why it does not.
    pub(crate) fn way_to_keep(&self, handler: Handler) -> (Durably, &'static str) {
        match handler {
            Handler::Builtin(builtin) if builtin.traits().changes_what_is_kept => (Durably::Whole, ""),
            Handler::Builtin(_) => (Durably::No, "nothing of this command is kept"),
            Handler::Capability(capability) => {
                let manifest = self.actors.manifest(capability);
                match (manifest.durable, manifest.keeps_facts) {
                    (false, _) => (Durably::No, "the capability says `durable = false`"),
                    (true, true) => (Durably::Whole, ""),
                    (true, false) => (Durably::Steps(0), ""),
                }
            }
        }
    }

    fn durably_with_journal(&self, message: &Envelope, handler: Handler) -> Result<Durably, Refusal> {
        let demanded = message.durable() == Some(true);
        let not = |text: &str| Refusal::new(Failure::NotDurable, format!("metadata.durable: {text}"));
        let (way, why_not) = match message.kind() {
            Kind::Command => self.way_to_keep(handler),
            _ => (Durably::No, "only commands can be durable"),
        };
        if message.durable() == Some(false) || (way == Durably::No && !demanded) {
            return Ok(Durably::No);
        }
        if way == Durably::No {
            return Err(not(why_not));
        }
        match self.out.facts.storage {
            Storage::Ready if message.line().len() > FACT_BYTES_MAX => {
                let text = format!("a durable command is at most {FACT_BYTES_MAX} bytes long");
                Err(Refusal::new(Failure::TooLarge, text))
            }
            Storage::Ready if self.is_far_behind() => {
                let text = "too much waits for the disk of the journal, and the command is to be durable";
                Err(Refusal::new(Failure::Overloaded, text))
            }
            Storage::Ready => Ok(way),
            Storage::None | Storage::Untouched if demanded => Err(not("this daemon has no journal")),
            Storage::None | Storage::Untouched => Ok(Durably::No),
            Storage::Full => {
                let text = "the disk of the journal is full, and the command is to be durable";
                Err(Refusal::new(Failure::StorageFull, text))
            }
            Storage::Failed => {
                let text = "the journal has failed, and the command is to be durable; \
                            with `metadata.durable` false it is taken without";
                Err(Refusal::new(Failure::StorageFailed, text))
            }
        }
    }

    /// Records that a command is accepted, if it is to survive step by step.
    pub(crate) fn record_accepted(&mut self, key: RequestKey) {
        let is_new = self.requests.durably(key).is_some_and(|(durably, _)| durably == Durably::Steps(0));
        if !is_new || !self.out.facts.is_on() {
            return;
        }
        let Some(new) = self.requests.accepted(key) else { return };
        self.durability.last_request += 1;
        let request = self.durability.last_request;
        let (now, connection) = (self.out.now, new.connection);
        let fact = self.out.record(&Fact::Accepted {
            request,
            peer: durable_name(&self.requests, &self.actors, new.peer),
            timer_id: new.timer_id.as_deref(),
            deadline_ms: unix_of(new.deadline_ns, now),
            unix_ms: now.unix_ms,
            message: new.message.line(),
        });
        self.requests.set_durably(key, Durably::Steps(request), fact);
        if let Some(connection) = connection {
            self.connections.note_fact(connection, fact);
        }
    }

    /// Records that a request is about to be delivered, if it is durable; gives the fact that its
    /// delivery rests on.
    #[inline]
    pub(crate) fn record_delivered(&mut self, key: RequestKey) -> u64 {
        if self.out.facts.storage == Storage::None {
            return 0;
        }
        let Some((durable, attempt, by)) = self.requests.delivery(key) else { return 0 };
        match (durable, by) {
            (Durably::Steps(request), _) => {
                let unix_ms = self.out.now.unix_ms;
                let fact = self.out.record(&Fact::<&str>::Delivered { request, attempt, unix_ms });
                self.requests.set_durably(key, durable, fact);
                fact
            }
            // What a capability asks rests on what it said before.
            (_, Some(capability)) => self.out.facts.of(capability),
            (_, None) => 0,
        }
    }

    /// Records that a request ended, if it is durable; gives the fact that its outcome rests on.
    #[inline]
    pub(crate) fn record_ended(
        &mut self,
        key: RequestKey,
        ended: &Ended,
        answer: &Envelope,
        words: Words,
    ) -> u64 {
        if self.out.facts.storage == Storage::None {
            return 0;
        }
        match (ended.durable(), ended.handler()) {
            // It tells nothing that the capability said.
            (Durably::No, Handler::Capability(_)) if words == Words::OfKernel => 0,
            (Durably::No, Handler::Capability(capability)) => self.out.facts.of(capability),
            (Durably::No, Handler::Builtin(builtin)) if builtin.traits().tells_what_is_kept => {
                self.out.facts.of_any()
            }
            // Whoever hears from the kernel itself knows that what it sent before is on disk.
            (Durably::No, Handler::Builtin(_)) => {
                ended.connection().map_or(0, |connection| self.connections.fact_of(connection))
            }
            _ => self.record_end(key, ended, answer),
        }
    }

    #[inline]
    fn record_end(&mut self, key: RequestKey, ended: &Ended, answer: &Envelope) -> u64 {
        let capability = ended.capability();
        let is_kept = ended.is_remembered() && answer.line().len() <= FACT_BYTES_MAX;
        let answer = is_kept.then(|| Answer::of(answer));
        let fact = match ended.durable() {
            Durably::Steps(request) => {
                if ended.is_known() && answer.is_none() {
                    // In the same batch, and before the command is taken for ended.
                    self.record_whole_end(ended, None);
                }
                record_ending(&mut self.out, self.config.window_ms, Ending::Accepted(request), answer)
            }
            _ if ended.is_known() => self.record_whole_end(ended, answer),
            // Nothing was changed, and nothing is to be remembered.
            _ => {
                let facts = &self.out.facts;
                return capability.map_or(facts.of_any(), |capability| facts.of(capability));
            }
        };
        if fact > 0 {
            self.out.facts.unflushed_ends.push_back((fact, key));
        }
        self.out.facts.note_said(capability, fact);
        fact
    }

    #[inline]
    fn record_whole_end(&mut self, ended: &Ended, answer: Option<Answer<&str>>) -> u64 {
        let message = ended.message();
        let which = Ending::Whole {
            peer: durable_name(&self.requests, &self.actors, ended.peer()),
            id: message.id(),
            // That of what concerns one connection alone tells this from others.
            fingerprint: match ended.handler().is_for_one_connection() {
                true => fingerprint(message),
                false => ended.fingerprint(),
            },
        };
        record_ending(&mut self.out, self.config.window_ms, which, answer)
    }

    /// Leaves what an earlier run left as it is: the boot failed.
    pub(crate) fn leave_facts_alone(&mut self) {
        if self.out.facts.storage != Storage::None {
            self.out.facts.storage = Storage::Untouched;
        }
    }

    /// Has an unfinished command stay in the journal for the next run, if it may be delivered
    /// there; then nobody gets an outcome in this one, for nobody was told that it would not be
    /// done.
    pub(crate) fn leave_for_next_run(&mut self, key: RequestKey) -> bool {
        let Some(Handler::Capability(capability)) = self.requests.handler(key) else { return false };
        let Some((Durably::Steps(_), attempts, _)) = self.requests.delivery(key) else { return false };
        let may_be_delivered = match self.actors.manifest(capability).redeliver {
            crate::Redeliver::Always => true,
            crate::Redeliver::IfNotStarted => attempts == 0,
            crate::Redeliver::Never => false,
        };
        if !may_be_delivered || !self.out.facts.is_on() {
            return false;
        }
        self.keep_as_overdue(key);
        if let Some(mut ended) = self.requests.leave_to_next_run(key, &mut self.out) {
            self.durability.left_for_next_run += 1;
            if let Some(bytes) = ended.mailbox_bytes() {
                self.actors.forget_mail(capability, bytes);
            }
            for connection in ended.take_waiters().into_iter().chain(ended.connection()) {
                self.connections.settle_debt(connection);
            }
        }
        true
    }
}
