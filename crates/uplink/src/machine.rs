//! The uplink of one node: what comes from the network and from the kernel, in order.

use crate::command::{Command, Incoming, Notice};
use crate::events::following::Following;
use crate::events::telling::Events;
use crate::outbox::Outbox;
use crate::requests::sending::SentTable;
use crate::requests::serving::Serving;
use crate::requests::tracing::Traces;
use crate::settings::UplinkSettings;
use crate::sharing::imports::{ImportChange, Imports};
use crate::sharing::nodes::{Boot, Heard, Hello, Nodes, SHARES_MAX};
use crate::sharing::share::{Share, SharedManifest, request_kind, share_of};
use crate::wire::bundle::{MANY, parts};
use crate::wire::head::{Head, split, with_payload};
use crate::wire::subject::{Direct, RequestSubject, Subject, Subjects};
use mainspring_kernel::schema::discover;
use mainspring_kernel::{ConnectionId, Kernel, Level, Manifest, Now};
use mainspring_message::Envelope;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How often the uplink looks after what it has.
pub(crate) const TICK_NS: i64 = 250_000_000;
/// How long nodes may take to find each other after a start.
const MEETING_NS: i64 = 10_000_000_000;
/// How often a node says that it is there.
const HELLO_NS: i64 = 1_000_000_000;
/// How often the way to a node is measured.
const PING_NS: i64 = 5_000_000_000;
/// A tick that is late by more than this was late because this very node did not run.
const OWN_PAUSE_NS: i64 = 1_000_000_000;
/// Up to so many nodes, each change is looked at by itself.
const REVIEWED_AT_ONCE: usize = 32;

/// The connection to NATS.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) is_connected: bool,
    /// Bytes that one message may have there, with its head.
    pub(crate) max_payload: usize,
    /// Whether so much waits for it that nothing more is sent.
    pub(crate) is_congested: bool,
}

/// What has happened so far, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UplinkCounters {
    pub(crate) requests_sent: u64,
    pub(crate) requests_served: u64,
    /// Messages from others that were none.
    pub(crate) invalid: u64,
}

/// The uplink of one node; see the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct Uplink {
    pub(crate) settings: UplinkSettings,
    pub(crate) subjects: Subjects,
    pub(crate) link: Link,
    pub(crate) nodes: Nodes,
    pub(crate) shares: Vec<(Share, SharedManifest)>,
    pub(crate) imports: Imports,
    pub(crate) sent: SentTable,
    pub(crate) serving: Serving,
    pub(crate) events: Events,
    pub(crate) following: Following,
    pub(crate) traces: Traces,
    pub(crate) out: Outbox,
    pub(crate) counters: UplinkCounters,
    notices: Vec<Notice>,
    /// What is shared, by a hash.
    pub(crate) digest: String,
    seq: u64,
    pub(crate) is_started: bool,
    parts: bool,
    next_hello_ns: i64,
    ticked_ns: i64,
    pinged_ns: i64,
    /// Until then, durable commands wait for nodes that were not heard yet.
    pub(crate) meeting_until_ns: i64,
    /// Whether another node was heard under this node's name.
    has_namesake: bool,
    /// Whether something has changed that imports depend on.
    pub(crate) is_changed: bool,
    serial: u64,
}

impl Uplink {
    /// An uplink that is not started yet.
    #[must_use]
    pub fn new(settings: UplinkSettings) -> Uplink {
        Uplink {
            subjects: Subjects::new(&settings.bus, &settings.node),
            settings,
            link: Link::default(),
            nodes: Nodes::default(),
            shares: Vec::new(),
            imports: Imports::default(),
            sent: SentTable::default(),
            serving: Serving::default(),
            events: Events::default(),
            following: Following::default(),
            traces: Traces::default(),
            out: Outbox::default(),
            counters: UplinkCounters::default(),
            notices: Vec::new(),
            digest: String::new(),
            seq: 0,
            is_started: false,
            parts: false,
            next_hello_ns: i64::MIN,
            ticked_ns: i64::MIN,
            pinged_ns: i64::MIN,
            meeting_until_ns: i64::MAX,
            has_namesake: false,
            is_changed: false,
            serial: 0,
        }
    }

    /// The kernel is ready: from now on this node is on the bus.
    pub fn start(&mut self, kernel: &mut Kernel, now: Now) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        for subject in self.subjects.always() {
            self.out.push(Command::Subscribe { subject, is_group: false });
        }
        self.listen_to_events();
        self.listen_to_requests(&[]);
        self.open_events(kernel, now);
        self.ticked_ns = now.mono_ns;
        self.meeting_until_ns = now.mono_ns.saturating_add(MEETING_NS);
        self.say_hello(now);
    }

    /// The capabilities of this node, without those that are imported. Before the start, and
    /// whenever they change.
    pub fn set_capabilities(&mut self, manifests: &[&Manifest], kernel: &mut Kernel, now: Now) {
        let before = std::mem::take(&mut self.shares);
        let has_journal = self.settings.has_journal;
        let shares = manifests.iter().filter_map(|manifest| share_of(manifest, has_journal));
        self.shares = shares.take(SHARES_MAX).collect();
        let list: Vec<&Share> = self.shares.iter().map(|(share, _)| share).collect();
        self.digest = crate::sharing::share::content_hash(&json!(list));
        self.imports.served_here.clear();
        for manifest in manifests {
            for pair in discover(&manifest.inbound).unwrap_or_default() {
                if pair.kind.is_request() {
                    self.imports.served_here.insert((pair.kind.as_str().to_owned(), pair.type_name));
                }
            }
        }
        self.share_events(manifests, kernel, now);
        self.review_imports(kernel, now);
        if self.is_started {
            self.listen_to_requests(&before);
            self.renew_rights(kernel, now);
            self.say_hello(now);
        }
    }

    /// Listens to requests for what is shared, and no more for what was.
    fn listen_to_requests(&mut self, before: &[(Share, SharedManifest)]) {
        let subjects = |shares: &[(Share, SharedManifest)]| -> Vec<String> {
            let all = shares.iter().flat_map(|(share, _)| {
                share.types.iter().filter_map(|(kind, type_name)| {
                    let what = RequestSubject { hash: &share.hash, kind: request_kind(kind)?, type_name };
                    Some(self.subjects.shared(what))
                })
            });
            all.collect()
        };
        let (old, new) = (subjects(before), subjects(if self.parts { &[] } else { &self.shares }));
        for subject in old.iter().filter(|subject| !new.contains(subject)) {
            self.out.push(Command::Unsubscribe { subject: subject.clone() });
        }
        for subject in new.into_iter().filter(|subject| !old.contains(subject)) {
            self.out.push(Command::Subscribe { subject, is_group: true });
        }
    }

    /// This node is about to go: others send it nothing new, and it answers what it has.
    pub fn part(&mut self, now: Now) {
        if !self.is_started || std::mem::replace(&mut self.parts, true) {
            return;
        }
        let shares = self.shares.clone();
        self.listen_to_requests(&shares);
        self.say_hello(now);
    }

    /// There is a connection to NATS, which carries so many bytes in one message.
    pub fn connected(&mut self, max_payload: usize, now: Now) {
        (self.link.is_connected, self.link.max_payload) = (true, max_payload);
        self.say_hello(now);
    }

    /// The connection to NATS is lost.
    pub fn disconnected(&mut self) {
        self.link.is_connected = false;
    }

    /// Whether so much waits for NATS that requests are refused.
    pub fn set_congested(&mut self, is_congested: bool) {
        self.link.is_congested = is_congested;
    }

    /// What is to be done on the network since this was last asked, in order.
    pub fn drain_commands(&mut self, into: &mut Vec<Command>) {
        self.out.drain(into);
    }

    /// What is to be logged since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Which imported capabilities the kernel is to know of; [`Uplink::adopted`] says what came of
    /// each.
    pub fn take_changes(&mut self) -> Vec<ImportChange> {
        self.imports.take_changes()
    }

    /// When [`Uplink::tick`] is to be called next.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<i64> {
        if !self.is_started {
            return None;
        }
        let tick = self.ticked_ns.saturating_add(TICK_NS);
        Some(self.serving.next_deadline_ns().map_or(tick, |taken| taken.min(tick)))
    }

    /// Does what is due.
    pub fn tick(&mut self, kernel: &mut Kernel, now: Now) {
        if !self.is_started {
            return;
        }
        self.tell_taken(now);
        let since_ns = now.mono_ns.saturating_sub(self.ticked_ns);
        if since_ns < TICK_NS {
            return;
        }
        if since_ns > OWN_PAUSE_NS {
            self.nodes.shift(since_ns - TICK_NS);
            self.shift_sent(since_ns - TICK_NS);
        }
        self.ticked_ns = now.mono_ns;
        if now.mono_ns >= self.next_hello_ns {
            self.say_hello(now);
            self.close_idle(kernel, now);
        }
        let silent = self.nodes.find_silent(now.mono_ns);
        for name in &silent {
            self.notice(Level::Warn, format!("node {name} is silent"));
            if let Some(boot) = self.nodes.get(name).map(|node| node.boot) {
                self.lose(name, boot, "is silent", kernel, now);
            }
        }
        if !silent.is_empty() || self.is_changed {
            self.review_imports(kernel, now);
        }
        self.look_after_sent(kernel, now);
        self.end_questions(kernel, now);
        if self.link.is_connected {
            self.look_after_followers(kernel, now);
        }
        self.ask_around(now);
    }

    /// A message came from the network.
    pub fn received(&mut self, incoming: Incoming<'_>, kernel: &mut Kernel, now: Now) {
        let Incoming { subject, message } = incoming;
        let Some((from, what)) = self.subjects.parse(subject) else {
            self.counters.invalid += 1;
            return;
        };
        let (head, payload) = split(message);
        if from == self.settings.node {
            return match what {
                Subject::NoResponders(number) => self.no_responders(number, kernel, now),
                Subject::Hello => self.hear_namesake(payload),
                _ => {}
            };
        }
        if head != Some(MANY) {
            return self.receive(from, what, head, payload, kernel, now);
        }
        for part in parts(payload) {
            let Ok(part) = part else {
                self.counters.invalid += 1;
                return;
            };
            let (head, payload) = split(part);
            self.receive(from, what, head, payload, kernel, now);
        }
    }

    /// One message of another node.
    fn receive(
        &mut self,
        from: &str,
        what: Subject<'_>,
        head: Option<&str>,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        let head = head.and_then(Head::parse);
        match what {
            Subject::Hello => self.hear(from, payload, kernel, now),
            Subject::Request(request) => self.request(from, request, head, payload, kernel, now),
            Subject::To(to, direct) if to == self.settings.node => {
                self.receive_direct(from, direct, head, payload, kernel, now);
            }
            Subject::Reply(to) if to == self.settings.node => {
                self.receive_reply(from, head, payload, kernel, now);
            }
            Subject::Event(type_name) => self.event(from, type_name, head, payload, kernel, now),
            Subject::To(..) | Subject::Reply(_) | Subject::NoResponders(_) => self.counters.invalid += 1,
        }
    }

    fn receive_direct(
        &mut self,
        from: &str,
        direct: Direct<'_>,
        head: Option<Head>,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        match (direct, head) {
            (Direct::Request(request), head) => self.request(from, request, head, payload, kernel, now),
            (Direct::Ask, Some(Head::Ask { of })) => self.asked(from, of, payload),
            (Direct::Cancel, Some(Head::Cancel { tag })) => self.cancelled(from, tag, kernel, now),
            (Direct::Catalogue, _) => self.tell_catalogue(from),
            (Direct::Manifest, Some(Head::Manifest { hash })) => self.tell_manifest(from, &hash),
            (Direct::Trace, Some(Head::Trace { number, peer })) => {
                self.trace_asked(from, number, &peer, payload, kernel, now);
            }
            (Direct::Follow, _) => self.followed(from, kernel, now),
            (Direct::Event(type_name), head) => {
                self.durable_event(from, type_name, head, payload, kernel, now)
            }
            (Direct::Acknowledge, head) => self.acknowledged(from, head, kernel, now),
            (Direct::Ping, Some(Head::Ping { at_ns })) => {
                self.publish(self.subjects.reply(from), &Head::Pong { at_ns }, b"");
            }
            _ => self.counters.invalid += 1,
        }
    }

    fn receive_reply(
        &mut self,
        from: &str,
        head: Option<Head>,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        match head {
            Some(Head::Outcome { by, tag }) => self.outcome(from, by, tag, payload, kernel, now),
            Some(Head::Progress { by, tag }) => self.progress(from, by, tag, payload, kernel, now),
            Some(Head::Failed { by, tag, failure, started }) => {
                self.failed(from, by, tag, failure, started, payload, kernel, now);
            }
            Some(Head::Taken { by, of }) => self.taken(from, by, of, payload, now),
            Some(Head::Gone { by, of }) => self.gone(from, by, of, payload, kernel, now),
            Some(Head::Catalogue { digest, from: at, is_last }) => {
                self.take_catalogue(from, digest, at, is_last, payload, kernel, now);
            }
            Some(Head::Manifest { hash }) => self.take_manifest(&hash, payload, kernel, now),
            Some(Head::Traced { number }) => self.traced(from, number, payload, kernel, now),
            Some(Head::Pong { at_ns }) => {
                if let Some(node) = self.nodes.get_mut(from) {
                    let round_trip_ns = now.mono_ns.saturating_sub(at_ns).max(0);
                    node.round_trip_us = u64::try_from(round_trip_ns / 1000).ok();
                }
            }
            _ => self.counters.invalid += 1,
        }
    }

    fn hear(&mut self, from: &str, payload: &[u8], kernel: &mut Kernel, now: Now) {
        let hello = serde_json::from_slice::<Hello>(payload).ok();
        let Some((boot, hello)) = hello.and_then(|hello| Some((Boot::parse(&hello.boot)?, hello))) else {
            self.counters.invalid += 1;
            return;
        };
        if hello.digest.len() > 64 {
            self.counters.invalid += 1;
            return;
        }
        let was_silent = self.nodes.get(from).is_some_and(|node| node.is_silent);
        let is_new = self.nodes.get(from).is_none();
        match self.nodes.hear(from, boot, &hello, now.mono_ns) {
            Heard::Ignored | Heard::Same => {}
            Heard::Changed => {
                if is_new || was_silent {
                    let what = if is_new { "is there" } else { "is there again" };
                    self.notice(Level::Info, format!("node {from} {what}"));
                }
                self.note_change(kernel, now);
            }
            Heard::Restarted(before) => {
                self.notice(Level::Info, format!("node {from} was started anew"));
                self.lose(from, before, "was started anew", kernel, now);
                self.drop_requests_of(from, before, now);
                self.note_change(kernel, now);
            }
        }
        self.ask_for_catalogue(from, now);
    }

    /// Something has changed that imports depend on. Where there are many nodes, all that changed
    /// is looked at together.
    pub(crate) fn note_change(&mut self, kernel: &mut Kernel, now: Now) {
        if self.nodes.len() > REVIEWED_AT_ONCE {
            self.is_changed = true;
        } else {
            self.review_imports(kernel, now);
        }
    }

    fn hear_namesake(&mut self, payload: &[u8]) {
        let boot = serde_json::from_slice::<Hello>(payload).ok().and_then(|hello| Boot::parse(&hello.boot));
        if boot.is_some_and(|boot| boot != self.settings.boot)
            && !std::mem::replace(&mut self.has_namesake, true)
        {
            let text = format!(
                "another node on bus {:?} is called {:?}, too: give one of them another name (uplink.node)",
                self.settings.bus, self.settings.node
            );
            self.notice(Level::Error, text);
        }
    }

    fn say_hello(&mut self, now: Now) {
        if !self.is_started {
            return;
        }
        self.seq += 1;
        self.next_hello_ns = now.mono_ns.saturating_add(HELLO_NS);
        let hello = Hello {
            boot: self.settings.boot.to_string(),
            seq: self.seq,
            digest: self.digest.clone(),
            takes: true,
            parts: self.parts,
            load: self.serving.len(),
            journal: self.settings.has_journal,
        };
        let payload = serde_json::to_vec(&hello).unwrap_or_default();
        let subject = self.subjects.hello();
        self.publish_text(subject, "hello", &payload);
    }

    /// Asks nodes for what is not known of them, and how far away they are.
    fn ask_around(&mut self, now: Now) {
        if !self.link.is_connected {
            return;
        }
        let names: Vec<Rc<str>> =
            self.nodes.iter().filter(|(_, node)| !node.is_silent).map(|(name, _)| Rc::clone(name)).collect();
        for name in names {
            self.ask_for_catalogue(&name, now);
        }
        if now.mono_ns.saturating_sub(self.pinged_ns) >= PING_NS {
            self.pinged_ns = now.mono_ns;
            let used: BTreeSet<Rc<str>> =
                self.imports.by_id.values().flat_map(|import| import.nodes.iter().cloned()).collect();
            for name in used {
                let subject = self.subjects.direct(&name, Direct::Ping);
                self.publish(subject, &Head::Ping { at_ns: now.mono_ns }, b"");
            }
        }
        self.want_manifests(now);
    }

    /// A message of the uplink's own to the kernel.
    pub(crate) fn kernel_line(&mut self, kind: &str, type_name: &str, data: &Value, now: Now) -> String {
        self.kernel_request(kind, type_name, data, now).1
    }

    /// The same, with its id.
    pub(crate) fn kernel_request(
        &mut self,
        kind: &str,
        type_name: &str,
        data: &Value,
        now: Now,
    ) -> (String, String) {
        self.serial += 1;
        let id = format!("uplink-{}-{}", self.settings.boot, self.serial);
        let line = json!({
            "kind": kind, "type": type_name, "data": data,
            "metadata": { "id": id, "timestamp": now.unix_ms },
        });
        (id, line.to_string())
    }

    /// Publishes something with a head of one word, and nobody is told of it.
    pub(crate) fn publish_text(&mut self, subject: String, head: &str, payload: &[u8]) {
        let message = with_payload(head.to_owned(), payload);
        self.out.push(Command::Publish { subject, reply: None, message, written: Vec::new() });
    }

    pub(crate) fn publish(&mut self, subject: String, head: &Head, payload: &[u8]) {
        let message = head.message(payload);
        self.out.push(Command::Publish { subject, reply: None, message, written: Vec::new() });
    }

    /// Publishes an event; the kernel is told when so many bytes of a connection have left.
    pub(crate) fn publish_event(
        &mut self,
        subject: String,
        head: &Head,
        event: &Envelope,
        written: (ConnectionId, usize),
    ) {
        let (message, written) = (head.message(event.line().as_bytes()), vec![written]);
        self.out.push(Command::Publish { subject, reply: None, message, written });
    }

    /// Answers a node; the kernel is told when so many bytes of a connection have left.
    pub(crate) fn answer_node(
        &mut self,
        node: &str,
        head: &Head,
        payload: &[u8],
        written: Option<(ConnectionId, usize)>,
    ) {
        let subject = self.subjects.reply(node);
        self.out.answer(subject, head.message(payload), written, self.link.max_payload);
    }

    pub(crate) fn notice(&mut self, level: Level, text: String) {
        self.notices.push(Notice { level, text });
    }
}
