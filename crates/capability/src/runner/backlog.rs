//! Messages that wait for their handler.

use mainspring_message::{Envelope, Kind};
use std::collections::VecDeque;

/// Events that wait, and their bytes. Beyond, the oldest is dropped. Requests are bounded by the
/// daemon.
const EVENTS_MAX: usize = 16_384;
const EVENT_BYTES_MAX: usize = 32 << 20;

/// Messages in their order, with a bound on the events among them.
#[derive(Debug, Default)]
pub struct Backlog {
    messages: VecDeque<Envelope>,
    events: usize,
    event_bytes: usize,
    has_dropped: bool,
}

impl Backlog {
    /// Adds a message. True if events had to be dropped for the first time, which whoever reads the
    /// log should know.
    #[must_use = "the log should say that events are dropped"]
    pub fn put(&mut self, message: Envelope) -> bool {
        if message.kind() == Kind::Event {
            self.events += 1;
            self.event_bytes += message.line().len();
        }
        self.messages.push_back(message);
        let had_dropped = self.has_dropped;
        while self.events > EVENTS_MAX || self.event_bytes > EVENT_BYTES_MAX {
            self.drop_event();
        }
        self.has_dropped && !had_dropped
    }

    /// The next message, if one waits.
    pub fn take(&mut self) -> Option<Envelope> {
        let message = self.messages.pop_front()?;
        self.forget(&message);
        Some(message)
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn drop_event(&mut self) {
        let at = self.messages.iter().position(|message| message.kind() == Kind::Event);
        if let Some(dropped) = at.and_then(|at| self.messages.remove(at)) {
            self.forget(&dropped);
        }
        self.has_dropped = true;
    }

    fn forget(&mut self, message: &Envelope) {
        if message.kind() == Kind::Event {
            self.events -= 1;
            self.event_bytes -= message.line().len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, number: usize) -> Envelope {
        let line = format!(
            r#"{{"kind":"{kind}","type":"A.B","data":{{}},"metadata":{{"id":"{number}","timestamp":0}}}}"#
        );
        Envelope::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn the_oldest_events_are_dropped_and_told_once_and_requests_never() {
        let mut backlog = Backlog::default();
        assert!(!backlog.put(message("command", 0)));
        let told = (1..=EVENTS_MAX + 2).filter(|number| backlog.put(message("event", *number))).count();
        assert_eq!(told, 1);
        assert_eq!(backlog.take().unwrap().id(), "0");
        assert_eq!(backlog.take().unwrap().id(), "3");
        let mut left = 0;
        while backlog.take().is_some() {
            left += 1;
        }
        assert_eq!((left, backlog.events, backlog.event_bytes), (EVENTS_MAX - 1, 0, 0));
    }
}
