//! `Sys.Subscribe` and `Sys.Unsubscribe`: clients want events as capabilities do.

use super::{Answer, Caller, Whole, client, read};
use crate::egress::SlowPolicy;
use crate::flow::refusal::{Refusal, is_reserved};
use crate::kernel::Kernel;
use mainspring_message::{Envelope, Failure};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscribeData {
    types: Vec<String>,
    slow: Option<SlowPolicy>,
    cursor: Option<String>,
    after: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnsubscribeData {
    types: Option<Vec<String>>,
    cursor: Option<String>,
}

impl Kernel {
    pub(super) fn subscribe(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let connection = client(caller)?;
        let data: SubscribeData = read(request)?;
        for pattern in data.types.iter().filter(|pattern| !is_reserved(pattern)) {
            if !self.may_see(caller.recipient, pattern) {
                let rights = self.connections.rights(connection).map(ToString::to_string).unwrap_or_default();
                let text = format!(
                    "data.types: {pattern:?} reaches beyond the types that this connection may see ({rights})"
                );
                return Err(Refusal::new(Failure::Forbidden, text));
            }
        }
        if let Some(cursor) = data.cursor {
            if data.slow.is_some() {
                let text =
                    "data.slow: a cursor loses nothing that is kept, so that there is nothing to choose";
                return Err(Refusal::new(Failure::Schema, text));
            }
            let after = data.after.map(|Whole(after)| after);
            return self.subscribe_by_cursor(caller, &data.types, cursor, after);
        }
        if data.after.is_some() {
            return Err(Refusal::new(Failure::Schema, "data.after: needs data.cursor"));
        }
        let types = self.connections.subscribe(connection, &data.types, data.slow)?;
        Ok(json!({ "types": types }).to_string())
    }

    pub(super) fn unsubscribe(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let connection = client(caller)?;
        let data: UnsubscribeData = read(request)?;
        match (data.cursor, &data.types) {
            (Some(_), Some(_)) => {
                let text = "data: types and cursor exclude each other";
                return Err(Refusal::new(Failure::Schema, text));
            }
            (Some(cursor), None) => {
                self.forget_cursor(caller, cursor.clone())?;
                return Ok(json!({ "types": [], "cursor": cursor }).to_string());
            }
            // The reading ends; the cursor stays.
            (None, None) => self.leave_cursor(connection),
            (None, Some(_)) => {}
        }
        let types = self.connections.unsubscribe(connection, data.types)?;
        let answer = json!({ "types": types }).to_string();
        // An event that is on its way to many does not reach it after the answer.
        let is_left = |name: &str| !self.connections.is_wanted_by(connection, name);
        if self.fan_out.type_name().is_some_and(is_left) {
            self.fan_out.leave_out(connection);
        }
        Ok(answer)
    }
}
