//! What comes back for requests of this node: who has taken each, how far it is, its outcome, or
//! that it is lost.

use crate::machine::Uplink;
use crate::outbox::SPAN_MAX;
use crate::requests::sending::Sent;
use crate::requests::serving::is_progress;
use crate::sharing::nodes::Boot;
use crate::wire::head::{Tag, read_numbers};
use crate::wire::names::{fits, is_reserved};
use mainspring_kernel::{Kernel, Now};
use mainspring_message::{Envelope, Failure, Kind, Started};
use serde::Deserialize;
use std::rc::Rc;

impl Uplink {
    /// The server says that nobody took a request, nor those that were joined to it: they were not
    /// started, and can be sent again.
    pub(crate) fn no_responders(&mut self, number: u64, kernel: &mut Kernel, now: Now) {
        let joined = self.sent.requests.range(number..number.saturating_add(SPAN_MAX));
        // One that was sent before may have been done, and one that survives waits for its node.
        let untaken = |sent: &Sent| sent.joined_to == number && !sent.is_durable && sent.taker.is_none();
        let untaken: Vec<u64> = joined.filter(|(_, sent)| untaken(sent)).map(|(number, _)| *number).collect();
        for number in untaken {
            let Some(sent) = self.sent.requests.get(&number) else { continue };
            let text = match &sent.to {
                Some(node) => format!("node {node:?} is not there"),
                None => format!("no node that shares {} is there", sent.message.type_name()),
            };
            self.end_sent(number, Failure::Unreachable, &text, Started::No, kernel, now);
        }
    }

    /// Whether an answer to this request may come from that node, and from that run of it.
    fn may_answer(&self, sent: &Sent, from: &str, by: Boot) -> bool {
        match (&sent.to, sent.taker) {
            (Some(to), Some(taker)) if !sent.is_durable => **to == *from && taker == by,
            (Some(to), _) => **to == *from,
            (None, _) => {
                let import = self.imports.get(&sent.import);
                let of = self.nodes.get(from).map(|node| node.shares.as_slice()).unwrap_or_default();
                import.is_some_and(|import| of.iter().any(|share| share.hash == import.hash))
            }
        }
    }

    pub(crate) fn taken(&mut self, from: &str, by: Boot, of: Boot, payload: &[u8], now: Now) {
        if of != self.settings.boot {
            return;
        }
        let Some(name) = self.nodes.name(from) else { return };
        for number in read_numbers(payload) {
            let Some(sent) = self.sent.requests.get(&number) else { continue };
            if !self.may_answer(sent, from, by) {
                continue;
            }
            if let Some(sent) = self.sent.requests.get_mut(&number) {
                let (is_news, was_open) = (sent.taker.is_none(), sent.to.is_none());
                (sent.to, sent.taker, sent.news_ns) = (Some(Rc::clone(&name)), Some(by), now.mono_ns);
                if was_open {
                    self.note_taker(from);
                }
                if is_news {
                    self.tell_cancelled(number);
                }
            }
        }
    }

    /// A node does not know requests that it had taken: their outcomes are lost, or it never got
    /// them.
    pub(crate) fn gone(
        &mut self,
        from: &str,
        by: Boot,
        of: Boot,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        if of != self.settings.boot {
            return;
        }
        for number in read_numbers(payload) {
            let Some(sent) = self.sent.requests.get(&number) else { continue };
            if !self.may_answer(sent, from, by) {
                continue;
            }
            if sent.is_durable {
                self.send_again(number, now);
            } else {
                let text = format!("node {from:?} does not have it any more, and its outcome is lost");
                self.end_sent(number, Failure::NodeLost, &text, Started::Yes, kernel, now);
            }
        }
    }

    /// The outcome of a request came from the node that had it.
    pub(crate) fn outcome(
        &mut self,
        from: &str,
        by: Boot,
        tag: Tag,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        if !self.is_answered(from, by, tag) {
            return;
        }
        let Some(sent) = self.forget_sent(tag.number, kernel, now) else { return };
        self.note_answered(from, &sent);
        match check_outcome(&sent.message, payload, self.settings.line_bytes_max) {
            Ok(outcome) => kernel.actor_envelope(sent.actor, &outcome, now),
            Err(reason) => {
                let text = format!("node {from:?} answered with something invalid: {reason}");
                let id = sent.message.id();
                kernel.actor_failed(sent.actor, id, Failure::ActorFault, &text, Started::Yes, now);
            }
        }
    }

    /// The node that has a request tells how far it is.
    pub(crate) fn progress(
        &mut self,
        from: &str,
        by: Boot,
        tag: Tag,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        let Some(sent) = self.sent.requests.get(&tag.number).filter(|_| tag.boot == self.settings.boot)
        else {
            return;
        };
        if !self.may_answer(sent, from, by) {
            return;
        }
        let event = Envelope::parse(payload).ok().filter(|event| {
            payload.len() <= self.settings.line_bytes_max
                && is_progress(event)
                && !is_reserved(event.type_name())
                && event.causation() == Some(sent.message.id())
        });
        match event {
            Some(event) => {
                let is_told = fits(&self.settings.events, event.type_name());
                let event = event.with_metadata_member("node", from);
                kernel.actor_progress(sent.actor, &event, is_told, now);
            }
            None => self.counters.invalid += 1,
        }
    }

    /// A request ended in an error of the other node's own.
    #[expect(clippy::too_many_arguments, reason = "they are what stands on the wire")]
    pub(crate) fn failed(
        &mut self,
        from: &str,
        by: Boot,
        tag: Tag,
        failure: Failure,
        started: Started,
        text: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        if !self.is_answered(from, by, tag) {
            return;
        }
        let Some(sent) = self.forget_sent(tag.number, kernel, now) else { return };
        self.note_answered(from, &sent);
        // One that was sent more than once may have been done before it was refused.
        let started = if sent.is_repeated { Started::Yes } else { started };
        let text: String =
            String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).take(1000).collect();
        let text = format!("node {from}: {text}");
        kernel.actor_failed(sent.actor, sent.message.id(), failure, &text, started, now);
    }

    /// Remembers which node had a request, for those who trace it.
    fn note_answered(&mut self, from: &str, sent: &Sent) {
        if sent.to.is_none() {
            self.note_taker(from);
        }
        if let Some(node) = self.nodes.name(from) {
            self.traces.note_ended(&sent.peer, sent.message.id(), node);
        }
    }

    /// A request went to this node that was sent to whichever takes it.
    fn note_taker(&mut self, node: &str) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.sent += 1;
        }
    }

    /// The node that has a request that has not ended, if that is known.
    pub(crate) fn node_of_sent(&self, peer: &str, id: &str) -> Option<Rc<str>> {
        let mut all = self.sent.requests.values();
        all.find(|sent| sent.peer == peer && sent.message.id() == id)?.to.clone()
    }

    /// Whether an answer is for a request of this run that has not ended, and that node may answer
    /// it.
    fn is_answered(&mut self, from: &str, by: Boot, tag: Tag) -> bool {
        if tag.boot != self.settings.boot {
            return false;
        }
        let Some(sent) = self.sent.requests.get(&tag.number) else {
            self.sent.late += 1;
            return false;
        };
        self.may_answer(sent, from, by)
    }
}

/// The outcome of a request, if the kernel can be given it as that: whatever another node says, it
/// is no fault of ours.
fn check_outcome(request: &Envelope, line: &[u8], line_bytes_max: usize) -> Result<Envelope, String> {
    #[derive(Deserialize)]
    struct ErrorShape<'a> {
        code: u16,
        #[serde(borrow, rename = "message")]
        _message: std::borrow::Cow<'a, str>,
    }

    if line.len() > line_bytes_max {
        return Err(format!("a line of {} bytes, and {line_bytes_max} are allowed", line.len()));
    }
    let answer = Envelope::parse(line).map_err(|rejection| rejection.to_string())?;
    if !answer.kind().is_outcome() || answer.type_name() != request.type_name() {
        return Err(format!(
            "{} {} to a request of type {}",
            answer.kind(),
            answer.type_name(),
            request.type_name()
        ));
    }
    if answer.causation() != Some(request.id()) {
        return Err("another request is its causation".into());
    }
    if answer.correlation().is_some_and(|correlation| Some(correlation) != request.correlation()) {
        return Err("another workflow is its correlation".into());
    }
    if answer.kind() == Kind::Error {
        let shape: ErrorShape<'_> =
            answer.data_as().map_err(|_| "an error without code and message".to_owned())?;
        if !(400..600).contains(&shape.code) {
            return Err(format!("an error with the code {}", shape.code));
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::message;

    #[test]
    fn n6_3_no_answer_of_another_node_is_a_fault_here() {
        let request = Envelope::parse(&message("command", "A.B", "1", r#","correlation":"w""#)).unwrap();
        let check = |line: &[u8]| check_outcome(&request, line, 1000).map(drop);
        assert_eq!(check(&message("reply", "A.B", "1", r#","causation":"x""#)), Ok(()));
        assert_eq!(check(&message("reply", "A.B", "1", r#","causation":"x","correlation":"w""#)), Ok(()));
        assert_eq!(
            check(&message("error", "A.B", r#"{"code":404,"message":""}"#, r#","causation":"x""#)),
            Ok(())
        );
        let bad: [&[u8]; 8] = [
            b"nonsense",
            &message("reply", "A.C", "1", r#","causation":"x""#),
            &message("reply", "A.B", "1", r#","causation":"y""#),
            &message("reply", "A.B", "1", r#","causation":"x","correlation":"v""#),
            &message("event", "A.B", "1", ""),
            &message("error", "A.B", "1", r#","causation":"x""#),
            &message("error", "A.B", r#"{"code":9,"message":""}"#, r#","causation":"x""#),
            &message("reply", "A.B", &format!("\"{}\"", "x".repeat(1000)), r#","causation":"x""#),
        ];
        for line in bad {
            assert!(check(line).is_err(), "{}", String::from_utf8_lossy(line));
        }
    }
}
