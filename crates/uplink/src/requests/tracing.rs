//! Traces across nodes: a node asks the one that had its request what that one remembers of it.
//!
//! It is told what the requester itself would be told there: what came of its own requests, and of
//! that the types that are shared.

use crate::machine::Uplink;
use crate::requests::sending::HEAD_BYTES_MAX;
use crate::wire::head::Head;
use crate::wire::subject::Direct;
use foldhash::fast::FixedState;
use mainspring_kernel::{ConnectionId, Kernel, Now};
use mainspring_message::{Envelope, Json, Kind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::rc::Rc;

/// Requests whose node is remembered after their end, the latest.
const REMEMBERED_MAX: usize = 4096;
/// Questions at once, of this node and of others.
const QUESTIONS_MAX: usize = 64;
/// How long an answer is waited for.
const WAIT_NS: i64 = 3_000_000_000;

/// A question to another node.
#[derive(Clone, Debug)]
struct Question {
    /// What the kernel calls it.
    ticket: u64,
    node: Rc<str>,
    asked_ns: i64,
}

/// A question of another node, on its way through this node's kernel.
#[derive(Clone, Debug)]
struct Errand {
    /// The id of the request that asks the kernel.
    id: String,
    connection: ConnectionId,
    node: Rc<str>,
    number: u64,
}

/// Who had which request, and who was asked about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    /// Hashes of peer and id of requests that have ended, and the node that had each.
    ended: VecDeque<(u64, Rc<str>)>,
    questions: BTreeMap<u64, Question>,
    last: u64,
    errands: VecDeque<Errand>,
}

fn hash_of(peer: &str, id: &str) -> u64 {
    FixedState::default().hash_one((peer, id))
}

impl Traces {
    /// A node has answered a request.
    pub(crate) fn note_ended(&mut self, peer: &str, id: &str, node: Rc<str>) {
        if self.ended.len() >= REMEMBERED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((hash_of(peer, id), node));
    }
}

impl Uplink {
    /// The kernel wants to know what another node remembers of a request that it was passed.
    pub fn fetch_trace(&mut self, ticket: u64, peer: &str, id: &str, kernel: &mut Kernel, now: Now) {
        let hash = hash_of(peer, id);
        let ended = self.traces.ended.iter().rev().find(|(of, _)| *of == hash);
        let node = match ended.map(|(_, node)| Rc::clone(node)) {
            Some(node) => node,
            None => match self.node_of_sent(peer, id) {
                Some(node) => node,
                None => {
                    let text = "it is not known which node had the request, or that it was passed on";
                    return kernel.node_trace_fetched(ticket, Err(text.into()), now);
                }
            },
        };
        let is_there = self.nodes.get(&node).is_some_and(|node| !node.is_silent);
        if !self.link.is_connected || !is_there || self.traces.questions.len() >= QUESTIONS_MAX {
            let text = format!("node {node} had the request, and cannot be asked now");
            return kernel.node_trace_fetched(ticket, Err(text), now);
        }
        self.traces.last += 1;
        let number = self.traces.last;
        let subject = self.subjects.direct(&node, Direct::Trace);
        let head = Head::Trace { number, peer: peer.to_owned() };
        self.publish(subject, &head, id.as_bytes());
        self.traces.questions.insert(number, Question { ticket, node, asked_ns: now.mono_ns });
    }

    /// Another node asks what is remembered here of a request of one of its peers.
    pub(crate) fn trace_asked(
        &mut self,
        from: &str,
        number: u64,
        peer: &str,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        let Some(node) = self.nodes.name(from) else { return };
        let Ok(id) = std::str::from_utf8(payload) else {
            self.counters.invalid += 1;
            return;
        };
        let Some(connection) = self.serving.connection_of_peer(&node, peer) else {
            return self.tell_trace(&node, number, b"");
        };
        if self.traces.errands.len() >= QUESTIONS_MAX
            && let Some(oldest) = self.traces.errands.pop_front()
        {
            self.tell_trace(&oldest.node, oldest.number, b"");
        }
        let (asked, line) = self.kernel_request("query", "Sys.Trace", &json!({ "id": id }), now);
        self.traces.errands.push_back(Errand { id: asked, connection, node, number });
        kernel.ingest(connection, line.as_bytes(), now);
    }

    /// Whether this is the kernel's answer to a question of another node; then that is told.
    pub(crate) fn take_errand(&mut self, connection: ConnectionId, message: &Envelope) -> bool {
        let cause = message.causation().unwrap_or("");
        let is_it = |errand: &Errand| errand.connection == connection && errand.id == cause;
        let Some(at) = self.traces.errands.iter().position(is_it) else { return false };
        if let Some(errand) = self.traces.errands.remove(at) {
            let fits = message.data().len() + HEAD_BYTES_MAX <= self.link.max_payload;
            let told = message.kind() == Kind::Reply && fits;
            self.tell_trace(&errand.node, errand.number, if told { message.data().as_bytes() } else { b"" });
        }
        true
    }

    fn tell_trace(&mut self, to: &str, number: u64, data: &[u8]) {
        let subject = self.subjects.reply(to);
        self.publish(subject, &Head::Traced { number }, data);
    }

    /// Another node tells what it remembers.
    pub(crate) fn traced(&mut self, from: &str, number: u64, payload: &[u8], kernel: &mut Kernel, now: Now) {
        let is_asked = self.traces.questions.get(&number).is_some_and(|question| *question.node == *from);
        // What a node tells that was not asked takes nobody's answer away.
        let Some(question) = is_asked.then(|| self.traces.questions.remove(&number)).flatten() else {
            return;
        };
        let told = serde_json::from_slice::<Value>(payload).ok().filter(Value::is_object);
        let result = match told.filter(|_| payload.len() <= self.settings.line_bytes_max / 2) {
            Some(trace) => Ok(Json::from(json!({ "node": from, "trace": trace }))),
            None => Err(format!("node {from} had the request, and tells nothing of it (any more)")),
        };
        kernel.node_trace_fetched(question.ticket, result, now);
    }

    /// Ends what was asked and not answered.
    pub(crate) fn end_questions(&mut self, kernel: &mut Kernel, now: Now) {
        let is_over = |question: &Question| now.mono_ns - question.asked_ns > WAIT_NS;
        let over: Vec<u64> = self
            .traces
            .questions
            .iter()
            .filter(|(_, question)| is_over(question))
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            if let Some(question) = self.traces.questions.remove(&number) {
                let text = format!("node {} had the request, and does not answer", question.node);
                kernel.node_trace_fetched(question.ticket, Err(text), now);
            }
        }
    }
}
