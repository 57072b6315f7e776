//! `Syscall.Cancel`: a requester has enough of its own request.

use super::{Answer, Caller, read};
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::out::Cause;
use crate::requests::{Leaving, Recipient, RequestKey};
use mainspring_message::{Envelope, Failure, Kind};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelData {
    id: String,
}

/// What whoever waited is told.
const WORDS: &str = "its requester cancelled it";

impl Kernel {
    pub(super) fn cancel(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let data: CancelData = read(request)?;
        let hash = self.out.hash_id(&data.id);
        let found = self.requests.find_unfinished(hash, caller.peer, &data.id);
        let Some(key) = found.filter(|key| self.can_be_cancelled(*key)) else {
            return Ok(json!({ "cancelled": false }).to_string());
        };
        let started = self.requests.started(key);
        let asker = match caller.recipient {
            Recipient::Connection(connection) => Some(connection),
            Recipient::Actor(_) => None,
        };
        match asker.map(|connection| (connection, self.requests.leave(key, connection))) {
            // Others wait for the same: the request goes on for them.
            Some((connection, Leaving::OthersStay)) => {
                if let Some(message) = self.requests.message(key).cloned() {
                    let answer = self.out.failure(&message, Failure::Cancelled, WORDS, started);
                    let _ = self.answer(connection, answer);
                }
            }
            _ => self.cancel_request(key),
        }
        Ok(json!({ "cancelled": true, "started": started.as_str() }).to_string())
    }

    /// Whether a request is with a capability, or on its way there. What the kernel serves itself
    /// is too quick.
    fn can_be_cancelled(&self, key: RequestKey) -> bool {
        matches!(self.requests.handler(key), Some(Handler::Capability(_))) && !self.requests.is_answered(key)
    }

    /// Ends a request for everybody who waits for it. An actor that has it goes on, and is told if
    /// it wants to know.
    fn cancel_request(&mut self, key: RequestKey) {
        self.out.counters.requests_cancelled += 1;
        if let (Some(Handler::Capability(capability)), Some(_)) =
            (self.requests.handler(key), self.requests.place(key))
            && self.actors.wants_cancellations(capability)
            && let Some(message) = self.requests.message(key).cloned()
        {
            let data =
                json!({ "id": message.id(), "type": message.type_name(), "reason": "cancelled" }).to_string();
            let event = self.out.message(Kind::Event, "Sys.RequestCancelled", &data, Cause::of(&message));
            self.actors.deliver_notice(capability, event, &mut self.out);
        }
        self.keep_as_overdue(key);
        self.fail(key, Failure::Cancelled, WORDS);
    }
}

/// Whether a request asks to hear of its progress.
pub(crate) fn wants_progress(request: &Envelope) -> bool {
    #[derive(Deserialize)]
    struct Wish {
        #[serde(default)]
        progress: bool,
    }
    // Most metadata does not even have the word.
    request.metadata().contains("\"progress\"")
        && serde_json::from_str::<Wish>(request.metadata()).is_ok_and(|wish| wish.progress)
}

impl Kernel {
    /// An actor tells how far it is with a request: whoever waits for that hears of it, if it asked
    /// to.
    #[cold]
    pub(crate) fn tell_progress(&mut self, key: RequestKey, event: &Envelope, is_told: bool) {
        let Some(request) = self.requests.message(key) else { return };
        if !wants_progress(request) {
            return;
        }
        for connection in self.requests.waiting_connections(key) {
            // Who subscribes to what is told to subscribers gets it anyway.
            if !is_told || !self.connections.is_wanted_by(connection, event.type_name()) {
                self.write_event(connection, event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_wanted_by_those_who_say_so() {
        let wants = |metadata: &str| {
            let line = format!(
                r#"{{"kind":"query","type":"A.B","data":1,"metadata":{{"id":"q","timestamp":1{metadata}}}}}"#
            );
            wants_progress(&Envelope::parse(line.as_bytes()).unwrap())
        };
        assert!(wants(r#","progress": true"#));
        assert!(
            !wants("")
                && !wants(r#","progress":false"#)
                && !wants(r#","progress":1"#)
                && !wants(r#","other":"progress""#)
        );
    }
}
