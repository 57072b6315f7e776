//! What each connection subscribed to, and what happens to it when it does not keep up.

use super::Connections;
use super::subscribers::check_pattern;
use crate::api::ids::ConnectionId;
use crate::flow::refusal::Refusal;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use mainspring_message::Failure;

/// What happens to a subscriber that does not keep up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SlowPolicy {
    /// It loses its oldest events, and is told how many.
    #[default]
    DropOldest,
    /// It is closed.
    Disconnect,
}

fn gone() -> Refusal {
    Refusal::new(Failure::Routing, "the connection is gone")
}

impl Connections {
    /// Subscribes a connection to these patterns as well; returns all of its patterns. What is
    /// refused changes nothing.
    pub(crate) fn subscribe(
        &mut self,
        connection: ConnectionId,
        patterns: &[String],
        slow: Option<SlowPolicy>,
    ) -> Result<&[Box<str>], Refusal> {
        self.check_length(patterns.len())?;
        if patterns.is_empty() {
            return Err(Refusal::new(Failure::Schema, "data.types: must name at least 1 type"));
        }
        for pattern in patterns {
            check_pattern(pattern).map_err(|reason| {
                Refusal::new(Failure::Schema, format!("data.types: {pattern:?}: {reason}"))
            })?;
        }
        let own = self.clients.get(&connection).ok_or_else(gone)?.patterns.len();
        let (mut new, mut named) = (Vec::new(), HashSet::with_hasher(FixedState::default()));
        for pattern in patterns {
            if !self.subscribers.has(pattern, connection) && named.insert(pattern) {
                new.push(pattern);
            }
        }
        self.check_length(own + new.len())?;
        let client = self.clients.get_mut(&connection).ok_or_else(gone)?;
        for pattern in new {
            client.patterns.push(pattern.as_str().into());
            self.subscribers.add(pattern, connection);
        }
        if let Some(slow) = slow {
            client.slow_policy = slow;
        }
        Ok(&client.patterns)
    }

    /// Ends these subscriptions of a connection, or all; returns the patterns that are left.
    pub(crate) fn unsubscribe(
        &mut self,
        connection: ConnectionId,
        patterns: Option<Vec<String>>,
    ) -> Result<&[Box<str>], Refusal> {
        // A list longer than all that may be subscribed to is not worth comparing.
        self.check_length(patterns.as_ref().map_or(0, Vec::len))?;
        let client = self.clients.get_mut(&connection).ok_or_else(gone)?;
        let named = patterns.map(HashSet::<String, FixedState>::from_iter);
        client.patterns.retain(|pattern| {
            let is_ended = named.as_ref().is_none_or(|named| named.contains(&**pattern));
            if is_ended {
                self.subscribers.remove(pattern, connection);
            }
            !is_ended
        });
        Ok(&client.patterns)
    }

    /// Ends the subscriptions of a connection for which `is_over` holds.
    pub(crate) fn unsubscribe_where(&mut self, connection: ConnectionId, is_over: impl Fn(&str) -> bool) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.patterns.retain(|pattern| {
            let ends = is_over(pattern);
            if ends {
                self.subscribers.remove(pattern, connection);
            }
            !ends
        });
    }

    fn check_length(&self, patterns: usize) -> Result<(), Refusal> {
        let subscriptions_max = self.bounds.subscriptions;
        if patterns > subscriptions_max {
            let text = format!("data.types: more than {subscriptions_max} subscriptions of one connection");
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        Ok(())
    }
}
