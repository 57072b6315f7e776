//! What was asked, what was done, and what was told.

use super::NodesReport;
use crate::world::{Checked, Violation, must};
use mainspring_message::{Envelope, Kind};
use std::collections::BTreeMap;

#[derive(Debug)]
struct Entry {
    origin: usize,
    is_command: bool,
    /// How often an actor was given it, on any node.
    done: u32,
    outcome: Option<Told>,
    is_orphan: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Reply,
    NotStarted,
    Unknown,
}

/// Every request of a story, by its id.
#[derive(Debug, Default)]
pub(super) struct NodesLedger {
    entries: BTreeMap<String, Entry>,
    pub(super) report: NodesReport,
}

impl NodesLedger {
    pub(super) fn sent(&mut self, id: &str, origin: usize, is_command: bool) {
        self.report.sent += 1;
        let entry = Entry { origin, is_command, done: 0, outcome: None, is_orphan: false };
        self.entries.insert(id.to_owned(), entry);
    }

    /// An actor was given a request.
    pub(super) fn done(&mut self, id: &str) -> Checked {
        let Some(entry) = self.entries.get_mut(id) else {
            return Err(Violation(format!("{id} was done, and nobody asked for it")));
        };
        entry.done += 1;
        must!(!entry.is_command || entry.done == 1, "the command {id} was done {} times", entry.done);
        must!(
            entry.outcome != Some(Told::NotStarted),
            "{id} was done after its requester was told that it was not started"
        );
        Ok(())
    }

    /// A requester was told.
    pub(super) fn told(&mut self, origin: usize, message: &Envelope) -> Checked {
        let id = message.causation().unwrap_or("");
        let Some(entry) = self.entries.get_mut(id) else { return Ok(()) };
        must!(entry.origin == origin, "the outcome of {id} came to another node");
        must!(entry.outcome.is_none(), "{id} has a second outcome: {}", message.line());
        let told = match message.kind() {
            Kind::Reply => Told::Reply,
            _ if message.data().contains("\"started\":\"no\"") => Told::NotStarted,
            _ => Told::Unknown,
        };
        must!(told != Told::Reply || entry.done > 0, "{id} has a reply, and nobody did it");
        must!(
            told != Told::NotStarted || entry.done == 0,
            "{id} was done, and its requester is told: {}",
            message.data()
        );
        entry.outcome = Some(told);
        let code = match told {
            Told::Reply => {
                self.report.replied += 1;
                1
            }
            Told::NotStarted => {
                self.report.not_started += 1;
                2
            }
            Told::Unknown => {
                self.report.unknown += 1;
                3
            }
        };
        for byte in id.bytes().chain([code]) {
            self.report.digest = (self.report.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }

    /// A node was killed: whoever asked there is gone.
    pub(super) fn orphan(&mut self, origin: usize) {
        for entry in
            self.entries.values_mut().filter(|entry| entry.origin == origin && entry.outcome.is_none())
        {
            if !std::mem::replace(&mut entry.is_orphan, true) {
                self.report.orphaned += 1;
            }
        }
    }

    /// Every request whose requester lives has its outcome.
    pub(super) fn finish(self) -> Result<NodesReport, Violation> {
        for (id, entry) in &self.entries {
            must!(entry.outcome.is_some() || entry.is_orphan, "{id} has no outcome: {entry:?}");
        }
        Ok(self.report)
    }
}
