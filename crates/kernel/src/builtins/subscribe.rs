//! `Sys.Subscribe` and `Sys.Unsubscribe`: clients want events as capabilities do.

use super::{Answer, Caller, client, read};
use crate::egress::connections::SlowPolicy;
use crate::egress::subscribers::check_pattern;
use crate::flow::ingest::Refusal;
use crate::kernel::Kernel;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use mainspring_message::{Envelope, Failure};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscribeData {
    types: Vec<String>,
    slow: Option<SlowPolicy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnsubscribeData {
    types: Option<Vec<String>>,
}

impl Kernel {
    pub(super) fn subscribe(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let connection = client(caller)?;
        let data: SubscribeData = read(request)?;
        self.check_length(&data.types)?;
        if data.types.is_empty() {
            return Err(Refusal::new(Failure::Schema, "data.types: must name at least 1 type"));
        }
        for pattern in &data.types {
            check_pattern(pattern).map_err(|reason| {
                Refusal::new(Failure::Schema, format!("data.types: {pattern:?}: {reason}"))
            })?;
        }
        let subscriptions_max = self.config.limits.subscriptions_max;
        let gone = || Refusal::new(Failure::Routing, "the connection is gone");
        let state = self.connections.get_mut(&connection).ok_or_else(gone)?;
        let (mut new, mut named) = (Vec::new(), HashSet::with_hasher(FixedState::default()));
        for pattern in &data.types {
            if !self.subscribers.has(pattern, connection) && named.insert(pattern) {
                new.push(pattern);
            }
        }
        if state.patterns.len() + new.len() > subscriptions_max {
            let text = format!("data.types: more than {subscriptions_max} subscriptions of one connection");
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        for pattern in new {
            state.patterns.push(pattern.as_str().into());
            self.subscribers.add(pattern, connection);
        }
        if let Some(slow) = data.slow {
            state.slow_policy = slow;
        }
        Ok(json!({ "types": state.patterns }).to_string())
    }

    /// A list longer than all that may be subscribed to is not worth comparing.
    fn check_length(&self, types: &[String]) -> Result<(), Refusal> {
        let subscriptions_max = self.config.limits.subscriptions_max;
        if types.len() > subscriptions_max {
            let text = format!("data.types: more than {subscriptions_max} subscriptions of one connection");
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let connection = client(caller)?;
        let data: UnsubscribeData = read(request)?;
        self.check_length(data.types.as_deref().unwrap_or_default())?;
        let gone = || Refusal::new(Failure::Routing, "the connection is gone");
        let state = self.connections.get_mut(&connection).ok_or_else(gone)?;
        let named = data.types.map(HashSet::<String, FixedState>::from_iter);
        state.patterns.retain(|pattern| {
            let is_ended = named.as_ref().is_none_or(|named| named.contains(&**pattern));
            if is_ended {
                self.subscribers.remove(pattern, connection);
            }
            !is_ended
        });
        Ok(json!({ "types": state.patterns }).to_string())
    }
}
