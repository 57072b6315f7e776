//! Inputs as records, each by the name of its [`Input`](crate::Input).

use super::Tag;
use crate::api::config::Config;
use crate::api::effect::Effect;
use crate::api::fact::Fact;
use crate::api::ids::{ActorRef, ConnectionId, Now};
use crate::api::input::{ActorExit, BootPlan};
use crate::api::rights::Rights;
use crate::builtins::{ConsoleRefused, SettingsRefused};
use crate::facts::Durable;
use crate::facts::wire::Writer;
use crate::flow::reload::Change;
use mainspring_message::{Draft, Envelope, Failure, Json, Started};

/// Writes one record.
pub(crate) struct Pen<'a> {
    pub(super) to: Writer<'a>,
    secrets: &'a mut Vec<Box<str>>,
}

impl<'a> Pen<'a> {
    pub(super) fn new(to: Writer<'a>, secrets: &'a mut Vec<Box<str>>) -> Pen<'a> {
        Pen { to, secrets }
    }

    fn tag(&mut self, tag: Tag) -> &mut Writer<'a> {
        self.to.0.push(tag as u8);
        &mut self.to
    }

    pub(super) fn begin(&mut self, config: &Config, nonce: u64) {
        self.tag(Tag::Begin).number(nonce).config(config);
    }

    pub(super) fn now(&mut self, now: Now) {
        self.tag(Tag::Now).number(now.mono_ns as u64).number(now.unix_ms);
    }

    pub(super) fn effects(&mut self, count: usize, digest: u64) {
        let to = self.tag(Tag::Effects).number(count as u64);
        to.0.extend_from_slice(&digest.to_le_bytes());
    }

    pub(crate) fn boot(&mut self, plan: &BootPlan) {
        let to = self.tag(Tag::Boot).number(plan.capabilities.len() as u64);
        for manifest in &plan.capabilities {
            to.manifest(manifest);
        }
        to.number(plan.adapters.len() as u64);
        for adapter in &plan.adapters {
            to.text(adapter);
        }
    }

    pub(crate) fn actor_spawned(&mut self, actor: ActorRef, result: &Result<(), String>) {
        self.tag(Tag::ActorSpawned).actor(actor).maybe_text(result.as_ref().err().map(String::as_str));
    }

    pub(crate) fn actor_attached(&mut self, actor: ActorRef, result: &Result<(), String>) {
        self.tag(Tag::ActorAttached).actor(actor).maybe_text(result.as_ref().err().map(String::as_str));
    }

    pub(crate) fn adapter_started(&mut self, adapter: u32, result: &Result<String, String>) {
        let (Ok(text) | Err(text)) = result;
        self.tag(Tag::AdapterStarted).number(u64::from(adapter)).flag(result.is_ok()).text(text);
    }

    pub(crate) fn adapter_ended(&mut self, adapter: u32) {
        self.tag(Tag::AdapterEnded).number(u64::from(adapter));
    }

    pub(crate) fn connection_opened(&mut self, connection: ConnectionId, peer: &str) {
        self.tag(Tag::ConnectionOpened).number(connection.0).text(peer);
    }

    pub(crate) fn connection_has(&mut self, connection: ConnectionId, rights: &Rights) {
        self.tag(Tag::ConnectionHas).number(connection.0).rights(rights);
    }

    pub(crate) fn peers_have(&mut self, peers: &[(String, Rights)]) {
        let to = self.tag(Tag::PeersHave).number(peers.len() as u64);
        for (name, rights) in peers {
            to.text(name).rights(rights);
        }
    }

    pub(crate) fn connection_closed(&mut self, connection: ConnectionId) {
        self.tag(Tag::ConnectionClosed).number(connection.0);
    }

    pub(crate) fn line(&mut self, connection: ConnectionId, line: &[u8]) {
        self.tag(Tag::Line).number(connection.0).blob(line);
    }

    pub(crate) fn line_too_long(&mut self, connection: ConnectionId) {
        self.tag(Tag::LineTooLong).number(connection.0);
    }

    pub(crate) fn written(&mut self, connection: ConnectionId, bytes: usize) {
        self.tag(Tag::Written).number(connection.0).number(bytes as u64);
    }

    pub(crate) fn actor_line(&mut self, actor: ActorRef, line: &[u8]) {
        self.tag(Tag::ActorLine).actor(actor).blob(line);
    }

    pub(crate) fn actor_line_too_long(&mut self, actor: ActorRef) {
        self.tag(Tag::ActorLineTooLong).actor(actor);
    }

    pub(crate) fn actor_message(&mut self, actor: ActorRef, draft: &Draft) {
        let Draft { kind, type_name, data, id, causation, correlation, timeout_ms, traceparent } = draft;
        let to = self.tag(Tag::ActorMessage).actor(actor);
        to.0.push(*kind as u8);
        to.text(type_name)
            .text(data.as_str())
            .maybe_text(id.as_deref())
            .maybe_text(causation.as_deref())
            .maybe_text(correlation.as_deref())
            .maybe(*timeout_ms)
            .maybe_text(traceparent.as_deref());
    }

    pub(crate) fn actor_event(&mut self, actor: ActorRef, cause: &Envelope, type_name: &str, data: &Json) {
        self.tag(Tag::ActorEvent).actor(actor).text(cause.line()).text(type_name).text(data.as_str());
    }

    pub(crate) fn actor_complained(&mut self, actor: ActorRef, line: &[u8]) {
        self.tag(Tag::ActorComplained).actor(actor).blob(line);
    }

    pub(crate) fn actor_exited(&mut self, actor: ActorRef, exit: &ActorExit) {
        let reason = match exit {
            ActorExit::Done => None,
            ActorExit::Failed(reason) => Some(&**reason),
        };
        self.tag(Tag::ActorExited).actor(actor).maybe_text(reason);
    }

    pub(crate) fn actor_blocked(&mut self, actor: ActorRef) {
        self.tag(Tag::ActorBlocked).actor(actor);
    }

    pub(crate) fn actor_ready(&mut self, actor: ActorRef) {
        self.tag(Tag::ActorReady).actor(actor);
    }

    pub(crate) fn actor_failed(
        &mut self,
        actor: ActorRef,
        id: &str,
        failure: Failure,
        text: &str,
        started: Started,
    ) {
        let place = Failure::ALL.iter().position(|known| *known == failure).unwrap_or(0);
        let to = self.tag(Tag::ActorFailed).actor(actor).text(id).number(place as u64);
        to.flag(started == Started::Yes).text(text);
    }

    pub(crate) fn actor_progress(&mut self, actor: ActorRef, event: &Envelope, is_told: bool) {
        self.tag(Tag::ActorProgress).actor(actor).text(event.line()).flag(is_told);
    }

    pub(crate) fn keep_value(&mut self, store: &str, key: &str, value: Option<&str>) {
        self.tag(Tag::KeepValue).text(store).text(key).maybe_text(value);
    }

    pub(crate) fn settings_read(&mut self, ticket: u64, result: &Result<Json, SettingsRefused>) {
        let (tag, text) = match result {
            Ok(changes) => (0, changes.as_str()),
            Err(SettingsRefused::Nothing) => (1, ""),
            Err(SettingsRefused::Busy) => (2, ""),
            Err(SettingsRefused::Faulty(words)) => (3, &**words),
        };
        self.tag(Tag::SettingsRead).number(ticket).number(tag).text(text);
    }

    /// An address that opens the console is as good as a token: another text of the same length
    /// stands for it.
    pub(crate) fn console_opened(&mut self, ticket: u64, result: &Result<Json, ConsoleRefused>) {
        let (tag, text) = match result {
            Ok(address) => (0, address.as_str()),
            Err(ConsoleRefused::Nowhere(reason)) => (1, &**reason),
            Err(ConsoleRefused::Stranger(reason)) => (2, &**reason),
        };
        let to = self.tag(Tag::ConsoleOpened).number(ticket).number(tag);
        if tag == 0 {
            to.text(&mask(text));
            self.secrets.push(text.into());
        } else {
            to.text(text);
        }
    }

    pub(crate) fn node_trace_fetched(&mut self, ticket: u64, result: &Result<Json, String>) {
        let text = match result {
            Ok(trace) => trace.as_str(),
            Err(reason) => reason,
        };
        self.tag(Tag::NodeTraceFetched).number(ticket).flag(result.is_ok()).text(text);
    }

    pub(crate) fn stats_collected(&mut self, ticket: u64, numbers: &Json) {
        self.tag(Tag::StatsCollected).number(ticket).text(numbers.as_str());
    }

    pub(crate) fn reload(&mut self, changes: &[Change]) {
        let to = self.tag(Tag::Reload).number(changes.len() as u64);
        for change in changes {
            match change {
                Change::Add(manifest) => to.number(0).manifest(manifest),
                Change::Replace(manifest) => to.number(1).manifest(manifest),
                Change::Restart(id) => to.number(2).text(id),
                Change::Remove(id) => to.number(3).text(id),
            };
        }
    }

    pub(crate) fn restore(&mut self, durable: &Durable) {
        let bounds = durable.bounds();
        let to = self.tag(Tag::Restore);
        to.number(bounds.answers_max as u64)
            .number(bounds.answer_bytes_max as u64)
            .number(bounds.events_max as u64)
            .number(bounds.event_bytes_max as u64);
        for fact in durable.facts() {
            to.flag(true).fact(&fact);
        }
        to.flag(false);
    }

    pub(crate) fn actor_record<T: AsRef<str>>(&mut self, actor: ActorRef, fact: &Fact<T>) {
        self.tag(Tag::ActorRecord).actor(actor).fact(fact);
    }

    pub(crate) fn flushed(&mut self, fact: u64) {
        self.tag(Tag::Flushed).number(fact);
    }

    pub(crate) fn storage_full(&mut self, is_full: bool) {
        self.tag(Tag::StorageFull).flag(is_full);
    }

    pub(crate) fn storage_congested(&mut self, is_congested: bool) {
        self.tag(Tag::StorageCongested).flag(is_congested);
    }

    pub(crate) fn storage_failed(&mut self, reason: &str) {
        self.tag(Tag::StorageFailed).text(reason);
    }

    /// The kernel makes nothing of the loss of other effects.
    pub(crate) fn effect_lost(&mut self, effect: &Effect) {
        match effect {
            Effect::Write { connection, message } => {
                self.tag(Tag::WriteLost).number(connection.0).text(message.line());
            }
            Effect::Deliver { actor, message } => {
                self.tag(Tag::DeliverLost).actor(*actor).text(message.line());
            }
            _ => {}
        }
    }

    pub(crate) fn outside_bytes(&mut self, bytes: usize) {
        self.tag(Tag::OutsideBytes).number(bytes as u64);
    }

    pub(crate) fn shutdown(&mut self, reason: &str) {
        self.tag(Tag::Shutdown).text(reason);
    }

    pub(crate) fn hasten(&mut self) {
        self.tag(Tag::Hasten);
    }

    pub(crate) fn turn(&mut self) {
        self.tag(Tag::Turn);
    }
}

impl Writer<'_> {
    fn actor(&mut self, actor: ActorRef) -> &mut Self {
        self.number(u64::from(actor.capability.0)).number(u64::from(actor.incarnation))
    }

    fn fact<T: AsRef<str>>(&mut self, fact: &Fact<T>) -> &mut Self {
        let mut bytes = Vec::new();
        fact.write(&mut bytes);
        self.0.extend_from_slice(&[fact.kind(), fact.version()]);
        self.blob(&bytes)
    }
}

/// JSON of the same length that says nothing.
pub(super) fn mask(text: &str) -> String {
    format!("\"{}\"", "*".repeat(text.len().saturating_sub(2)))
}
