//! `Sys.Actors`: the actors with their state, their mailbox and how fast they are.

use super::chores::Slice;
use super::{Answer, stats};
use crate::api::ids::Now;
use crate::flow::work;
use crate::kernel::{Kernel, MS};
use crate::records::latency::Latency;
use serde_json::json;
use std::fmt::Write;

/// The list as far as it was made.
#[derive(Debug, Default)]
pub(crate) struct ListActors {
    at: usize,
    text: String,
}

impl ListActors {
    pub(super) fn step(&mut self, kernel: &Kernel, slice: &mut Slice, now: Now) -> Option<Answer> {
        while let Some(actor) = kernel.actors.get(self.at) {
            if slice.is_over() {
                return None;
            }
            self.at += 1;
            if actor.is_gone() {
                slice.spend(work::LOOK);
                continue;
            }
            let before = self.text.len();
            let item = json!({
                "capabilityId": actor.manifest.id,
                "state": actor.state_name(),
                "incarnation": actor.incarnation,
                "mailbox": actor.mail_len,
                "mailboxBytes": actor.mail_bytes,
                "inFlight": actor.in_flight.len(),
                "overdue": actor.overdue.len(),
                "blocked": actor.blocked,
                "handled": actor.handled,
                "faults": actor.faults,
                "restartsInWindow": actor.restarts.len(),
                "latencyNs": stats::told(Latency::summary(std::iter::once(&*actor.latency), now.mono_ns)),
                "sinceMs": now.mono_ns.saturating_sub(actor.since_ns) / MS,
            });
            append(&mut self.text, &item);
            slice.spend(2 * work::ITEM + (self.text.len() - before) as u64);
        }
        Some(Ok(format!("{{\"actors\":[{}]}}", self.text)))
    }
}

/// Adds an item to a list.
pub(crate) fn append(list: &mut String, item: &serde_json::Value) {
    if !list.is_empty() {
        list.push(',');
    }
    let _ = write!(list, "{item}");
}
