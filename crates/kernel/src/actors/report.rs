//! What is told of actors: to operators, to whoever asks what there is, to audits.

use super::latency::{Latency, LatencyTotals, Summary};
use super::supervision::ActorState;
use super::{Actor, Actors};
use crate::api::ids::CapabilityId;
use crate::api::manifest::Manifest;
use crate::out::{MS, Out};
use crate::requests::RequestKey;
use mainspring_message::Kind;
use serde_json::{Value, json};

/// What all actors have, added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Messages in mailboxes.
    pub(crate) mail: usize,
    /// Requests in progress.
    pub(crate) in_progress: usize,
    /// Requests that timed out and were not answered.
    pub(crate) overdue: usize,
}

/// A capability that has something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy<'a> {
    pub(crate) id: &'a str,
    /// Requests in progress.
    pub(crate) in_progress: usize,
    /// Messages in its mailbox.
    pub(crate) mail: usize,
}

impl std::fmt::Display for Busy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Busy { id, in_progress, mail } = *self;
        let requests = if in_progress == 1 { "request" } else { "requests" };
        match mail {
            0 => write!(f, "{id} ({in_progress} {requests})"),
            mail => write!(f, "{id} ({in_progress} {requests}, {mail} waiting)"),
        }
    }
}

impl Actor {
    /// When it is tried again, while it rests.
    fn probe_in_ms(&self, now_ns: i64) -> Option<i64> {
        let is_resting = matches!(self.state, ActorState::Unhealthy(Some(_)));
        self.probe_ns.filter(|_| is_resting).map(|probe_ns| probe_ns.saturating_sub(now_ns).max(0) / MS)
    }
}

impl Actors {
    pub(crate) fn totals(&self) -> Totals {
        self.list.iter().fold(Totals::default(), |sum, it| Totals {
            mail: sum.mail + it.mailbox.len(),
            in_progress: sum.in_progress + it.progress.len(),
            overdue: sum.overdue + it.progress.overdue_len(),
        })
    }

    /// The capabilities that have something to do.
    pub(crate) fn busy(&self) -> Vec<Busy<'_>> {
        let all = self.list.iter().map(|it| Busy {
            id: it.id(),
            in_progress: it.progress.len(),
            mail: it.mailbox.len(),
        });
        all.filter(|busy| busy.in_progress + busy.mail > 0).collect()
    }

    /// The state of an actor, as an operator sees it.
    pub(crate) fn state_name(&self, capability: CapabilityId) -> &'static str {
        self.get(capability).state_name()
    }

    /// What `Sys.Actors` tells of an actor; nothing if only its place is left.
    pub(crate) fn report(&self, capability: CapabilityId, out: &Out) -> Option<Value> {
        let it = self.get(capability);
        let now_ns = out.now.mono_ns;
        (!it.is_gone()).then(|| {
            json!({
                "capabilityId": it.id(),
                "state": it.state_name(),
                "incarnation": it.incarnation,
                "mailbox": it.mailbox.len(),
                "mailboxBytes": it.mailbox.bytes(),
                "inFlight": it.progress.len(),
                "overdue": it.progress.overdue_len(),
                "blocked": it.blocked,
                "handled": it.progress.handled,
                "faults": it.faults,
                "restartsInWindow": it.restarts.in_window(),
                "latencyNs": told(Latency::summary(std::iter::once(&*it.latency), now_ns)),
                "sinceMs": now_ns.saturating_sub(it.since_ns) / MS,
                "startedAt": out.now.unix_ms.saturating_sub((now_ns.saturating_sub(it.since_ns).max(0) / MS) as u64),
                "probeInMs": it.probe_in_ms(now_ns),
                "lastFault": it.last_fault.as_ref().map(|fault| {
                    json!({ "at": fault.unix_ms, "message": fault.message, "words": fault.words })
                }),
            })
        })
    }

    /// How long requests took of late, over all actors; null if none ended.
    pub(crate) fn latency(&self, out: &Out) -> Value {
        told(Latency::summary(self.list.iter().map(|it| &*it.latency), out.now.mono_ns))
    }

    /// How long requests took since the start, over all actors.
    pub(crate) fn latency_total(&self) -> Value {
        let totals = Latency::totals(self.list.iter().map(|it| &*it.latency));
        json!({
            "requests": totals.requests,
            "sumNs": totals.sum_ns,
            "boundsNs": LatencyTotals::bounds_ns(),
            "counts": totals.buckets,
        })
    }

    /// What can be sent to a capability: its newest manifest, and the kinds and types that it
    /// takes. Nothing if it was removed.
    pub(crate) fn announced(&self, capability: CapabilityId) -> Option<(&Manifest, &[(Kind, String)])> {
        let it = self.get(capability);
        (!it.succession.is_removed()).then(|| it.announced())
    }

    /// The newest manifest of a capability.
    pub(crate) fn manifest(&self, capability: CapabilityId) -> &Manifest {
        self.get(capability).announced().0
    }

    /// The capabilities with what they handle, as `Sys.BootComplete` tells them.
    pub(crate) fn summary(&self) -> Vec<Value> {
        let told = |it: &Actor| {
            let handles = it.contract.handles.iter().map(|(kind, name)| format!("{kind}:{name}"));
            json!({ "id": it.id(), "handles": handles.collect::<Vec<String>>() })
        };
        self.list.iter().map(told).collect()
    }

    /// How often a request is in progress; for audits.
    pub(crate) fn count_in_progress(&self, capability: CapabilityId, key: RequestKey) -> usize {
        self.in_progress(capability).iter().filter(|there| **there == key).count()
    }

    /// Whether the number of retiring incarnations is as it is kept; for audits.
    pub(crate) fn audit_retiring(&self) -> (usize, usize) {
        (self.list.iter().filter(|it| it.succession.is_retiring()).count(), self.retiring)
    }
}

/// How long requests took of late; null if none ended.
fn told(latency: Option<Summary>) -> Value {
    let Some(Summary { requests, mean_ns, p50_ns, p99_ns, max_ns }) = latency else { return Value::Null };
    json!({ "requests": requests, "mean": mean_ns, "p50": p50_ns, "p99": p99_ns, "max": max_ns })
}
