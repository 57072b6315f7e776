//! `Sys.Subscribe` with a cursor, and `Sys.Acknowledge`: events for subscribers that come back.

use super::{Answer, Caller, Whole, client, read};
use crate::api::ids::ConnectionId;
use crate::cursors::CursorKey;
use crate::durability::Storage;
use crate::egress::check_pattern;
use crate::flow::refusal::Refusal;
use crate::kernel::Kernel;
use mainspring_message::{Envelope, Failure};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcknowledgeData {
    cursor: String,
    event: Whole,
}

impl Kernel {
    /// Gives a connection the durable events of these types, after what its cursor says or after
    /// this event.
    pub(super) fn subscribe_by_cursor(
        &mut self,
        caller: Caller,
        types: &[String],
        cursor: String,
        after: Option<u64>,
    ) -> Answer {
        let connection = client(caller)?;
        self.check_durable_events()?;
        self.check_cursor_types(types)?;
        let key = self.cursor_key(caller, cursor)?;
        if let Some(other) = self.cursors.cursor_of(connection).filter(|own| **own != key) {
            let text = format!("data.cursor: this connection reads by the cursor {:?} already", other.1);
            return Err(Refusal::new(Failure::Conflict, text));
        }
        self.cursors.check(&key)?;
        let last = self.cursors.last_event();
        if let Some(after) = after.filter(|after| *after > last) {
            let text = format!("data.after: {after} is no event yet; the last one is {last}");
            return Err(Refusal::new(Failure::Conflict, text));
        }
        let known = self.cursors.acknowledged(&key);
        let from = after.or(known).unwrap_or(last);
        if known != Some(from) {
            self.cursors.move_to(&key, from);
            self.record_cursor(&key, from, Some(connection));
        }
        self.rest_on_cursor(&key, connection);
        let name = key.1.clone();
        if let Some(before) = self.cursors.read_by(connection, key, types) {
            self.tell_cursor_ended(before, &name, "another connection of this peer reads by it now");
        }
        Ok(json!({ "types": types, "cursor": name, "after": from }).to_string())
    }

    fn check_durable_events(&self) -> Result<(), Refusal> {
        let refused = |failure, text: &str| Err(Refusal::new(failure, format!("data.cursor: {text}")));
        match self.out.facts.storage {
            Storage::None | Storage::Untouched => refused(Failure::NotDurable, "this daemon has no journal"),
            Storage::Failed => refused(Failure::StorageFailed, "the journal has failed"),
            Storage::Ready | Storage::Full => {
                let mut all = self.actors.ids();
                if all.any(|capability| self.actors.manifest(capability).durable_events) {
                    return Ok(());
                }
                let text = "no capability has `durable_events = true` in its manifest, \
                            so that there is nothing to come back to";
                refused(Failure::NotDurable, text)
            }
        }
    }

    fn check_cursor_types(&self, types: &[String]) -> Result<(), Refusal> {
        let most = self.config.limits.subscriptions_max;
        if types.is_empty() || types.len() > most {
            let text = format!("data.types: names 1 to {most} types");
            return Err(Refusal::new(Failure::Schema, text));
        }
        for pattern in types {
            check_pattern(pattern).map_err(|reason| {
                Refusal::new(Failure::Schema, format!("data.types: {pattern:?}: {reason}"))
            })?;
        }
        Ok(())
    }

    /// The cursor of that name of whoever asks.
    fn cursor_key(&self, caller: Caller, name: String) -> Result<CursorKey, Refusal> {
        let peer = self.requests.peer_name(caller.peer);
        let peer = peer.ok_or_else(|| Refusal::new(Failure::Routing, "the connection is gone"))?;
        Ok((peer.into(), name.into()))
    }

    fn no_cursor(key: &CursorKey) -> Refusal {
        Refusal::new(Failure::Routing, format!("data.cursor: this peer has no cursor {:?}", key.1))
    }

    /// Ends the reading by a cursor, and forgets it.
    pub(super) fn forget_cursor(&mut self, caller: Caller, name: String) -> Result<(), Refusal> {
        let connection = client(caller)?;
        let key = self.cursor_key(caller, name)?;
        match self.cursors.forget(&key) {
            None => return Err(Self::no_cursor(&key)),
            Some(Some(reader)) if reader != connection => {
                self.tell_cursor_ended(reader, &key.1, "another connection of this peer has ended it");
            }
            Some(_) => {}
        }
        self.record_cursor_forgotten(&key, connection);
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let connection: ConnectionId = client(caller)?;
        let AcknowledgeData { cursor, event: Whole(event) } = read(request)?;
        let key = self.cursor_key(caller, cursor)?;
        let known = self.cursors.acknowledged(&key).ok_or_else(|| Self::no_cursor(&key))?;
        let last = self.cursors.last_event();
        if event > last {
            let text = format!("data.event: {event} is no event yet; the last one is {last}");
            return Err(Refusal::new(Failure::Conflict, text));
        }
        if !self.is_durable() {
            let text = "the journal has failed, and the cursor cannot be moved any more";
            return Err(Refusal::new(Failure::StorageFailed, text));
        }
        let moved = self.cursors.acknowledge(&key, event);
        if let Some(event) = moved {
            self.record_cursor(&key, event, Some(connection));
        }
        self.rest_on_cursor(&key, connection);
        Ok(json!({ "cursor": key.1, "event": moved.unwrap_or(known) }).to_string())
    }
}
