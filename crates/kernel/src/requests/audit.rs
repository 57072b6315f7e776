//! Whether the accounts of requests, peers and shares agree with each other.

use super::Requests;
use super::live::{Phase, RequestKey};
use crate::flow::routes::Handler;
use crate::lifecycle::audit::{Audit, agree};
use crate::time::wheel::TimerKey;

/// Where an unfinished request should be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// In the User lane.
    Lane,
    Mailbox,
    /// With its actor.
    InProgress,
    /// In the wheel, between two attempts.
    Retrying(TimerKey),
    /// Its outcome is in the Completions lane.
    Answering,
    /// Among the built-ins that are not answered at once.
    Chores,
}

impl Requests {
    /// Where an unfinished request should be found, and its deadline, if that has not passed. One
    /// that has ended counts as answered.
    pub(crate) fn whereabouts(&self, key: RequestKey) -> (Whereabouts, Option<(TimerKey, i64)>) {
        let Some(live) = self.get(key) else { return (Whereabouts::Answering, None) };
        let whereabouts = match live.phase {
            Phase::Lane => Whereabouts::Lane,
            Phase::Mailbox => Whereabouts::Mailbox,
            Phase::InProgress(_) => Whereabouts::InProgress,
            Phase::Retrying(timer) => Whereabouts::Retrying(timer),
            Phase::Answering => Whereabouts::Answering,
            Phase::Served | Phase::Outside => Whereabouts::Chores,
        };
        (whereabouts, live.timer.map(|timer| (timer, live.deadline_ns)))
    }

    /// Compares the accounts of peers, shares and capabilities with the table.
    pub(crate) fn audit(&self, audit: &mut Audit) -> Result<(), String> {
        let live = self.live_keys();
        agree("unfinished requests", live.len(), self.live)?;
        let mut unfinished = vec![0; self.capabilities.len()];
        for key in live {
            if let Some(Handler::Capability(capability)) = self.handler(key) {
                unfinished[capability.index()] += 1;
            }
        }
        let kept: Vec<usize> = self.capabilities.iter().map(|it| it.unfinished).collect();
        agree("requests of each capability", unfinished, kept)?;
        audit.wasted_bytes = self.answers.wasted_bytes();
        let (mut requests, mut answers, mut bytes) = (0, 0, 0);
        for (peer, it) in self.peers.each() {
            self.audit_shares(peer)?;
            requests += it.requests;
            answers += it.window.requests;
            bytes += it.window.bytes;
            audit.most_requests = audit.most_requests.max(it.requests);
            audit.most_remembered = audit.most_remembered.max(it.window.requests);
            audit.most_remembered_bytes = audit.most_remembered_bytes.max(it.window.bytes);
        }
        agree("requests of all peers", requests, self.live)?;
        agree("remembered commands of all peers", answers, self.window.requests)?;
        agree("remembered bytes of all peers", bytes, self.window.bytes)
    }
}
