//! A client: what it sent, what it is owed, and what it has not read yet.

use std::collections::BTreeMap;

use mainspring_kernel::ConnectionId;

/// A connection as its far end sees it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: usize,
    /// Whether the kernel asked not to read from it.
    pub(crate) paused: bool,
    /// Bytes that were written to it and that it has not read.
    pub(crate) unread_bytes: usize,
    /// When something was last written to it.
    pub(crate) written_ns: i64,
    /// When it last read, or had little enough to read.
    pub(crate) moved_ns: i64,
    /// What it is owed, by the id of what it sent.
    pub(crate) debts: BTreeMap<String, Debt>,
    /// Lines whose id could not be read: each may be answered by an error that names none.
    pub(crate) unreadable: u32,
    /// Whether it has scheduled or put back messages, whose outcomes come under ids that it does
    /// not know.
    pub(crate) has_delegates: bool,
    /// The patterns that it ever subscribed to.
    pub(crate) patterns: Vec<String>,
}

/// The messages that one client sent under one id.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt {
    /// Commands and queries: each must be answered, once.
    pub(crate) requests: u32,
    /// Other messages: each may be refused by one error.
    pub(crate) others: u32,
    pub(crate) answers: u32,
    /// When the latest of the requests times out.
    pub(crate) deadline_ns: i64,
}

impl Client {
    pub(crate) fn new(connection: ConnectionId, peer: usize) -> Client {
        Client {
            connection,
            peer,
            paused: false,
            unread_bytes: 0,
            written_ns: 0,
            moved_ns: 0,
            debts: BTreeMap::new(),
            unreadable: 0,
            has_delegates: false,
            patterns: Vec::new(),
        }
    }

    pub(crate) fn owe_request(&mut self, id: &str, deadline_ns: i64) {
        let debt = self.debts.entry(id.to_owned()).or_default();
        debt.requests += 1;
        debt.deadline_ns = debt.deadline_ns.max(deadline_ns);
    }

    pub(crate) fn owe_other(&mut self, id: &str) {
        self.debts.entry(id.to_owned()).or_default().others += 1;
    }

    /// Whether one of its patterns covers an event of this type.
    pub(crate) fn hears(&self, type_name: &str) -> bool {
        self.patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => type_name.starts_with(prefix),
            None => pattern == type_name,
        })
    }
}
