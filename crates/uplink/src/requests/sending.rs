//! Requests of this node that others work on: where each is sent, who has taken it, and its one
//! end.

use crate::machine::Uplink;
use crate::sharing::nodes::{Boot, SILENCE_NS};
use crate::sharing::partition::{key_at, place};
use crate::wire::head::{Head, Tag, write_numbers};
use crate::wire::subject::{Direct, RequestSubject};
use mainspring_kernel::{ActorRef, Kernel, Now, PassedOn};
use mainspring_message::{Envelope, Failure, Kind, Started};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// How long nothing is heard of a request before whoever has it is asked.
const ASK_NS: i64 = 3_000_000_000;
/// How long a durable command waits before it is sent again.
const AGAIN_NS: i64 = 1_000_000_000;
/// Bytes around a line on the wire: the head, and what NATS adds to it.
pub(crate) const HEAD_BYTES_MAX: usize = 1024;
/// Where the journal keeps which node a durable command went to.
pub(crate) const TARGETS: &str = "uplink.targets";

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) actor: ActorRef,
    pub(crate) message: Envelope,
    pub(crate) import: Rc<str>,
    pub(crate) peer: String,
    /// The node that it was sent to, or that has taken it; nobody else can answer it.
    pub(crate) to: Option<Rc<str>>,
    /// The run of that node that has taken it.
    pub(crate) taker: Option<Boot>,
    pub(crate) sent_ns: i64,
    /// When something was last heard of it, or asked.
    pub(crate) news_ns: i64,
    pub(crate) deadline_ns: i64,
    pub(crate) is_durable: bool,
    /// Whether it may have been sent before, in this run or an earlier one.
    pub(crate) is_repeated: bool,
    /// Whether nobody wants it any more.
    pub(crate) is_cancelled: bool,
    /// The request that it was joined to, or itself: nobody has taken it if nobody took that one.
    pub(crate) joined_to: u64,
}

/// All of them, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentTable {
    pub(crate) requests: BTreeMap<u64, Sent>,
    last: u64,
    /// Durable commands whose node is not on disk yet, each with that fact.
    unflushed: VecDeque<(u64, u64)>,
    /// Which node each durable command went to, by peer and id: from an earlier run as well.
    targets: BTreeMap<(String, String), Rc<str>>,
    pub(crate) late: u64,
    /// Durable commands that wait for their node just after the start.
    parked: Vec<(ActorRef, Rc<str>, Envelope)>,
}

impl SentTable {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }
}

/// Why a request is not sent.
type Refused = (Failure, String);

#[derive(Deserialize)]
struct Address {
    to_node: Option<String>,
}

/// The node that a message names in its metadata.
fn to_node(message: &Envelope) -> Result<Option<String>, Refused> {
    if !message.metadata().contains("\"to_node\"") {
        return Ok(None);
    }
    let wrong = |_| (Failure::Schema, "metadata.to_node: must be the name of a node".to_owned());
    serde_json::from_str::<Address>(message.metadata()).map(|address| address.to_node).map_err(wrong)
}

fn target_key(peer: &str, id: &str) -> String {
    format!("{peer}\n{id}")
}

impl Uplink {
    /// The kernel delivers to an imported capability: a request, or that one was cancelled.
    pub fn deliver(
        &mut self,
        import: &Rc<str>,
        actor: ActorRef,
        message: &Envelope,
        kernel: &mut Kernel,
        now: Now,
    ) {
        if message.kind() == Kind::Event {
            return self.cancel(actor, message.causation().unwrap_or(""));
        }
        let Some(known) = kernel.passed_on(actor, message.id(), now) else {
            // Its deadline has passed meanwhile: the place that it has is free again.
            let text = "no outcome before the deadline";
            return kernel.actor_failed(actor, message.id(), Failure::Timeout, text, Started::Yes, now);
        };
        let to = match self.destination(import, message, &known) {
            Ok(to) => to,
            // What an earlier run had accepted waits until the nodes have found each other.
            Err((Failure::Unreachable, _)) if known.is_durable && now.mono_ns < self.meeting_until_ns => {
                return self.sent.parked.push((actor, Rc::clone(import), message.clone()));
            }
            Err((failure, text)) => {
                return kernel.actor_failed(actor, message.id(), failure, &text, Started::No, now);
            }
        };
        self.sent.last += 1;
        let number = self.sent.last;
        let deadline_ns = now
            .mono_ns
            .saturating_add(i64::try_from(known.left_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000));
        let mut sent = Sent {
            actor,
            message: message.clone(),
            import: Rc::clone(import),
            peer: known.peer,
            to,
            taker: None,
            sent_ns: now.mono_ns,
            news_ns: now.mono_ns,
            deadline_ns,
            is_durable: known.is_durable,
            is_repeated: known.attempts > 1,
            is_cancelled: false,
            joined_to: number,
        };
        if sent.is_durable && !self.note_target(&sent, number, kernel, now) {
            self.sent.requests.insert(number, sent);
            return;
        }
        sent.joined_to = self.publish_request(number, &sent, now);
        self.sent.requests.insert(number, sent);
    }

    /// Keeps in the journal which node a durable command goes to. Whether it may be sent: it is on
    /// disk, or was in an earlier run.
    fn note_target(&mut self, sent: &Sent, number: u64, kernel: &mut Kernel, now: Now) -> bool {
        let Some(to) = &sent.to else { return true };
        let (peer, id) = (sent.peer.as_str(), sent.message.id());
        let key = (peer.to_owned(), id.to_owned());
        if self.sent.targets.get(&key) == Some(to) {
            return true;
        }
        self.sent.targets.insert(key, Rc::clone(to));
        let value = serde_json::Value::from(&**to).to_string();
        let fact = kernel.keep_value(TARGETS, &target_key(peer, id), Some(&value), now);
        if fact > 0 {
            self.sent.unflushed.push_back((fact, number));
        }
        fact == 0
    }

    /// Which node each durable command of an earlier run went to.
    pub fn restore_targets<'a>(&mut self, kept: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (key, value) in kept {
            let Some((peer, id)) = key.split_once('\n') else { continue };
            if let Ok(node) = serde_json::from_str::<String>(value) {
                self.sent.targets.insert((peer.to_owned(), id.to_owned()), node.into());
            }
        }
    }

    /// Facts up to this one are on disk: durable commands that waited for that are sent.
    pub fn flushed(&mut self, fact: u64, now: Now) {
        while let Some((_, number)) = self.sent.unflushed.pop_front_if(|(waits, _)| *waits <= fact) {
            if let Some(sent) = self.sent.requests.get(&number).cloned() {
                self.publish_request(number, &sent, now);
            }
        }
    }

    /// Where a request goes: to one node, or to whichever takes it.
    fn destination(
        &self,
        import: &str,
        message: &Envelope,
        known: &PassedOn,
    ) -> Result<Option<Rc<str>>, Refused> {
        if known.is_durable
            && let Some(node) = self.sent.targets.get(&(known.peer.clone(), message.id().to_owned()))
        {
            return Ok(Some(Rc::clone(node)));
        }
        let unreachable = |text: String| Err((Failure::Unreachable, text));
        if !self.link.is_connected {
            return unreachable("there is no connection to NATS".into());
        }
        if self.link.is_congested {
            return Err((
                Failure::Overloaded,
                "NATS does not keep up with what is sent to other nodes".into(),
            ));
        }
        let bytes = message.line().len() + HEAD_BYTES_MAX;
        if bytes > self.link.max_payload {
            let text = format!(
                "the message has {} bytes, and NATS carries {} at most (max_payload of the server, less {HEAD_BYTES_MAX})",
                message.line().len(),
                self.link.max_payload.saturating_sub(HEAD_BYTES_MAX),
            );
            return Err((Failure::TooLarge, text));
        }
        let Some(import) = self.imports.get(import) else {
            return unreachable("nobody shares it".into());
        };
        let nodes = if known.is_durable { &import.durable_nodes } else { &import.nodes };
        if let Some(name) = to_node(message)? {
            return match nodes.iter().find(|node| ***node == *name) {
                Some(node) => Ok(Some(Rc::clone(node))),
                None => unreachable(format!("node {name:?} does not share {} now", message.type_name())),
            };
        }
        if nodes.is_empty() {
            return unreachable(format!("no node that shares {} is there", message.type_name()));
        }
        let key = match &import.partition_by {
            Some(pointer) => key_at(pointer, message.data()).ok_or_else(|| {
                (Failure::Schema, format!("{pointer}: nothing stands there, and it decides on the node"))
            })?,
            None if known.is_durable || import.has_suspect => message.id().to_owned(),
            None => return Ok(None),
        };
        let node = place(&key, nodes.iter().map(|node| &**node)).and_then(|node| self.nodes.name(node));
        Ok(node)
    }

    /// Sends a request. Gives the number of the one that it is joined to, or its own.
    fn publish_request(&mut self, number: u64, sent: &Sent, now: Now) -> u64 {
        let Some(import) = self.imports.get(&sent.import) else { return number };
        let (kind, type_name) = (sent.message.kind(), sent.message.type_name());
        let what = RequestSubject { hash: &import.hash, kind, type_name };
        let subject = self.subjects.request(sent.to.as_deref(), what);
        // Where NATS divides requests among several nodes, it gives each to one of them.
        let is_divided = sent.to.is_none() && import.nodes.len() > 1;
        let bytes_max = if is_divided { 0 } else { self.link.max_payload };
        let left_ns = sent.deadline_ns.saturating_sub(now.mono_ns).max(0);
        let tag = Tag { boot: self.settings.boot, number };
        let left_ms = u64::try_from(left_ns / 1_000_000).unwrap_or(0);
        let line = sent.message.line().as_bytes();
        let message = Head::request(tag, left_ms, sent.is_durable, &sent.peer, line);
        self.counters.requests_sent += 1;
        if let Some(node) = sent.to.as_ref().and_then(|name| self.nodes.get_mut(name)) {
            node.sent += 1;
        }
        let subjects = &self.subjects;
        self.out.request(subject, || subjects.no_responders(number), message, number, bytes_max)
    }

    fn cancel(&mut self, actor: ActorRef, id: &str) {
        let found =
            self.sent.requests.iter().find(|(_, sent)| sent.actor == actor && sent.message.id() == id);
        let Some(number) = found.map(|(number, _)| *number) else { return };
        if let Some(sent) = self.sent.requests.get_mut(&number) {
            sent.is_cancelled = true;
        }
        self.tell_cancelled(number);
    }

    /// Tells the node that has a request that nobody wants it any more. As long as it is not known
    /// which node that is, this waits.
    pub(crate) fn tell_cancelled(&mut self, number: u64) {
        let sent = self.sent.requests.get(&number).filter(|sent| sent.is_cancelled);
        let Some(node) = sent.and_then(|sent| sent.to.clone()) else { return };
        let head = Head::Cancel { tag: Tag { boot: self.settings.boot, number } };
        let subject = self.subjects.direct(&node, Direct::Cancel);
        self.publish(subject, &head, b"");
    }

    pub(crate) fn forget_sent(&mut self, number: u64, kernel: &mut Kernel, now: Now) -> Option<Sent> {
        let sent = self.sent.requests.remove(&number)?;
        if sent.is_durable {
            let key = (sent.peer.clone(), sent.message.id().to_owned());
            if self.sent.targets.remove(&key).is_some() {
                kernel.keep_value(TARGETS, &target_key(&key.0, &key.1), None, now);
            }
        }
        Some(sent)
    }

    pub(crate) fn end_sent(
        &mut self,
        number: u64,
        failure: Failure,
        text: &str,
        started: Started,
        kernel: &mut Kernel,
        now: Now,
    ) {
        if let Some(sent) = self.forget_sent(number, kernel, now) {
            kernel.actor_failed(sent.actor, sent.message.id(), failure, text, started, now);
        }
    }

    /// A node is silent, or was started anew: what its run `boot` had taken is lost, unless it
    /// survives there.
    pub(crate) fn lose(&mut self, name: &str, boot: Boot, why: &str, kernel: &mut Kernel, now: Now) {
        let is_lost = |sent: &Sent| {
            !sent.is_durable
                && sent.to.as_deref() == Some(name)
                && sent.taker.is_none_or(|taker| taker == boot)
        };
        let lost: Vec<u64> =
            self.sent.requests.iter().filter(|(_, sent)| is_lost(sent)).map(|(number, _)| *number).collect();
        for number in lost {
            let text = format!("node {name:?} {why}; what it did is not known");
            self.end_sent(number, Failure::NodeLost, &text, Started::Yes, kernel, now);
        }
    }

    /// An incarnation of an imported capability has ended: nobody waits for what it had.
    pub fn forget_actor(&mut self, actor: ActorRef) {
        self.sent.requests.retain(|_, sent| sent.actor != actor);
        self.sent.parked.retain(|(waits, ..)| *waits != actor);
    }

    pub(crate) fn send_again(&mut self, number: u64, now: Now) {
        let Some(sent) = self.sent.requests.get_mut(&number) else { return };
        (sent.news_ns, sent.is_repeated) = (now.mono_ns, true);
        let sent = sent.clone();
        if self.sent.unflushed.iter().any(|(_, waits)| *waits == number) {
            return;
        }
        self.publish_request(number, &sent, now);
    }

    /// Looks after what was sent: what nobody took, what nothing was heard of, what is long
    /// overdue.
    pub(crate) fn look_after_sent(&mut self, kernel: &mut Kernel, now: Now) {
        for (actor, import, message) in std::mem::take(&mut self.sent.parked) {
            self.deliver(&import, actor, &message, kernel, now);
        }
        let now_ns = now.mono_ns;
        let (mut untaken, mut overdue, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let mut asked: BTreeMap<Rc<str>, Vec<u64>> = BTreeMap::new();
        for (number, sent) in &mut self.sent.requests {
            if now_ns > sent.deadline_ns.saturating_add(self.settings.late_ns) {
                overdue.push(*number);
            } else if sent.is_durable {
                if now_ns - sent.news_ns > AGAIN_NS {
                    again.push(*number);
                }
            } else if sent.taker.is_none() {
                if now_ns - sent.sent_ns > SILENCE_NS {
                    untaken.push(*number);
                }
            } else if now_ns - sent.news_ns > ASK_NS
                && let Some(node) = &sent.to
            {
                sent.news_ns = now_ns;
                asked.entry(Rc::clone(node)).or_default().push(*number);
            }
        }
        for number in untaken {
            let text = "no node said that it has the request; what was done is not known";
            self.end_sent(number, Failure::NodeLost, text, Started::Yes, kernel, now);
        }
        for number in overdue {
            self.end_sent(
                number,
                Failure::Timeout,
                "no outcome before the deadline",
                Started::Yes,
                kernel,
                now,
            );
        }
        if !self.link.is_connected {
            return;
        }
        for number in again {
            self.send_again(number, now);
        }
        for (node, numbers) in asked {
            let subject = self.subjects.direct(&node, Direct::Ask);
            let head = Head::Ask { of: self.settings.boot };
            for chunk in numbers.chunks(1000) {
                self.publish(subject.clone(), &head, &write_numbers(chunk.iter().copied()));
            }
        }
    }

    /// This node did not run for so long: nobody is to blame for what it did not hear.
    pub(crate) fn shift_sent(&mut self, by_ns: i64) {
        for sent in self.sent.requests.values_mut() {
            (sent.sent_ns, sent.news_ns) = (sent.sent_ns + by_ns, sent.news_ns + by_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::message;

    #[test]
    fn a_message_may_name_its_node() {
        let of = |rest: &str| to_node(&Envelope::parse(&message("query", "A.B", "1", rest)).unwrap());
        assert_eq!(of("").unwrap(), None);
        assert_eq!(of(r#","to_node":"b""#).unwrap().as_deref(), Some("b"));
        assert_eq!(of(r#","to_node":null"#).unwrap(), None);
        assert_eq!(of(r#","to_node":7"#).unwrap_err().0, Failure::Schema);
    }
}
