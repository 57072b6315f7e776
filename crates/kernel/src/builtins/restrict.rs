//! `Sys.Restrict`: a connection gives rights up, for good.

use super::{Answer, Caller, client, read};
use crate::egress::check_pattern;
use crate::flow::refusal::{Refusal, is_reserved};
use crate::kernel::Kernel;
use mainspring_message::{Envelope, Failure};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestrictData {
    allow: Option<Vec<String>>,
    operator: Option<bool>,
}

/// Patterns that one connection may be limited to.
const PATTERNS_MAX: usize = 256;

impl Kernel {
    pub(super) fn restrict(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let connection = client(caller)?;
        let data: RestrictData = read(request)?;
        let gone = || Refusal::new(Failure::Routing, "the connection is gone");
        let mut rights = self.connections.rights(connection).ok_or_else(gone)?.clone();
        if data.operator == Some(true) && !rights.is_operator() {
            return Err(Refusal::new(
                Failure::Forbidden,
                "data.operator: rights are given up here, not taken",
            ));
        }
        if let Some(operator) = data.operator {
            rights = rights.as_operator(operator);
        }
        if let Some(patterns) = data.allow {
            if patterns.len() > PATTERNS_MAX {
                let text = format!("data.allow: more than {PATTERNS_MAX} patterns");
                return Err(Refusal::new(Failure::LimitExceeded, text));
            }
            for pattern in &patterns {
                check_pattern(pattern).map_err(|reason| {
                    Refusal::new(Failure::Schema, format!("data.allow: {pattern:?}: {reason}"))
                })?;
                if !rights.allows(pattern) {
                    let text =
                        format!("data.allow: {pattern:?} reaches beyond what this connection has ({rights})");
                    return Err(Refusal::new(Failure::Forbidden, text));
                }
            }
            rights = rights.limited_to(patterns);
        }
        self.taps.limit(connection, &rights);
        self.connections.set_rights(connection, rights.clone());
        self.connections
            .unsubscribe_where(connection, |pattern| !is_reserved(pattern) && !rights.allows(pattern));
        if self.cursors.retain_patterns(connection, |pattern| is_reserved(pattern) || rights.allows(pattern))
        {
            self.leave_cursor(connection);
        }
        let place = self.connections.place(connection).ok_or_else(gone)?;
        let peer = self.peer_name(place.peer);
        Ok(json!({ "peer": peer, "allow": rights.patterns(), "operator": rights.is_operator() }).to_string())
    }
}
