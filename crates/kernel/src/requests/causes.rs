//! Requests as causes of others: what an actor may name as the reason for what it says, and chains
//! that end in themselves.

use super::Requests;
use super::live::{Phase, RequestKey};
use crate::api::ids::CapabilityId;
use crate::flow::routes::Handler;
use mainspring_message::{Envelope, Text};

/// What a message takes over from the one that caused it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workflow {
    /// The workflow that both belong to, if they belong to one.
    pub(crate) correlation: Option<Text>,
    /// The span of another system that asked for it.
    pub(crate) traceparent: Option<Text>,
}

impl Workflow {
    /// That of a message.
    #[inline]
    pub(crate) fn of(message: &Envelope) -> Workflow {
        Workflow { correlation: message.correlation_text(), traceparent: message.traceparent_text() }
    }
}

/// A request that a capability has or had.
#[derive(Debug)]
pub(crate) struct KnownCause {
    /// It, unless nothing else is remembered of it.
    pub(crate) key: Option<RequestKey>,
    /// What is taken over from it.
    pub(crate) workflow: Workflow,
}

impl Requests {
    fn cause_at(&self, slot: u32) -> KnownCause {
        KnownCause { key: Some(self.key(slot)), workflow: self.workflow(slot) }
    }

    /// An unfinished request as a cause.
    pub(crate) fn cause(&self, key: RequestKey) -> KnownCause {
        self.cause_at(key.slot())
    }

    /// The request with this id (whose hash this is) that a capability has or had last, if it is in
    /// the table.
    pub(crate) fn find_cause(&mut self, capability: CapabilityId, hash: u64, id: &str) -> Option<KnownCause> {
        self.find_handled(hash, capability, id).map(|slot| self.cause_at(slot))
    }

    /// The same, of requests of which little or nothing else is remembered.
    pub(crate) fn find_old_cause(&self, capability: CapabilityId, hash: u64, id: &str) -> Option<KnownCause> {
        if let Some(workflow) = self.capabilities[capability.index()].had.find(hash) {
            return Some(KnownCause { key: None, workflow });
        }
        self.find_handled_earlier(hash, capability, id).map(|slot| self.cause_at(slot))
    }

    /// Whether a capability has, or lately had, a request with this id, whose hash this is.
    pub(crate) fn was_given(&mut self, capability: CapabilityId, hash: u64, id: &str) -> bool {
        self.find_handled(hash, capability, id).is_some()
            || self.capabilities[capability.index()].had.find(hash).is_some()
    }

    /// The id of the first request in the chain of causes above this one that is still unfinished.
    pub(crate) fn root_id(&self, key: RequestKey) -> Option<&str> {
        let (mut root, mut above) = (None, Some(key));
        while let Some(live) = above.and_then(|key| self.get(key)) {
            root = Some(live.message.id());
            above = live.cause;
        }
        root
    }

    /// Whether so many requests that a capability has in progress are caused by each other, `cause`
    /// being the last.
    pub(crate) fn is_chain_in_progress(
        &self,
        capability: CapabilityId,
        cause: Option<RequestKey>,
        places: u32,
    ) -> bool {
        let (mut above, mut held) = (cause, 0);
        while let Some(key) = above {
            let Some(live) = self.get(key) else { return false };
            let is_own = self.slots[key.slot() as usize].handler == Handler::Capability(capability);
            held += u32::from(is_own && matches!(live.phase, Phase::InProgress(_)));
            if held >= places {
                return true;
            }
            above = live.cause;
        }
        false
    }
}
