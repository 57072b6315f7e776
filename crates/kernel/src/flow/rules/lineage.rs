//! The laws of lineage: whatever an actor says names what caused it, and stays within the workflow
//! of that.

use crate::api::ids::{ActorRef, CapabilityId};
use crate::kernel::Kernel;
use crate::requests::{KnownCause, RequestKey, Workflow};
use mainspring_message::{Envelope, Kind};

/// What an actor says of the place of its message among others.
#[derive(Clone, Copy)]
pub(in crate::flow) struct Lineage<'a> {
    pub(in crate::flow) kind: Kind,
    pub(in crate::flow) type_name: &'a str,
    pub(in crate::flow) causation: Option<&'a str>,
    pub(in crate::flow) correlation: Option<&'a str>,
    /// Whether it names a span of another system itself.
    pub(in crate::flow) is_traced: bool,
}

impl<'a> Lineage<'a> {
    #[inline]
    pub(in crate::flow) fn of(message: &'a Envelope) -> Lineage<'a> {
        let (causation, correlation) = (message.causation(), message.correlation());
        let is_traced = message.has_traceparent();
        Lineage { kind: message.kind(), type_name: message.type_name(), causation, correlation, is_traced }
    }

    /// What is to be restored where it was left out, given the workflow of the cause.
    ///
    /// A different correlation is a violation: an actor preserves the workflow that it works in. A
    /// different span is none: an actor may have made one of its own.
    #[inline]
    pub(in crate::flow) fn to_restore(self, mut wanted: Workflow) -> Result<Workflow, String> {
        if let (Some(correlation), Some(there)) = (&wanted.correlation, self.correlation) {
            if &**correlation != there {
                return Err(format!("{self} with correlation {there:?} instead of {:?}", &**correlation));
            }
            wanted.correlation = None;
        }
        if self.is_traced {
            wanted.traceparent = None;
        }
        Ok(wanted)
    }
}

impl std::fmt::Display for Lineage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.type_name)
    }
}

impl Kernel {
    /// Checks causation and correlation of an event or request; returns what was left out of its
    /// workflow, and the request behind it.
    pub(in crate::flow) fn check_lineage(
        &mut self,
        actor: ActorRef,
        lineage: Lineage<'_>,
    ) -> Result<(Workflow, Option<RequestKey>), String> {
        let Some(causation) = lineage.causation else {
            if self.actors.may_be_uncaused(actor.capability) {
                return Ok((Workflow::default(), None));
            }
            return Err(format!(
                "{lineage} without metadata.causation (the manifest's `uncaused` would allow it)"
            ));
        };
        let Some(KnownCause { key, workflow }) = self.find_cause(actor.capability, causation) else {
            return Err(format!("{lineage} caused by {causation:?}, which it was never given"));
        };
        Ok((lineage.to_restore(workflow)?, key))
    }

    /// The message with that id which the actor has or had.
    pub(crate) fn find_cause(&mut self, capability: CapabilityId, id: &str) -> Option<KnownCause> {
        // Mostly it is what the actor works on just now.
        if let Some(key) = self.find_in_progress(capability, id) {
            return Some(self.requests.cause(key));
        }
        let hash = self.out.hash_id(id);
        if let Some(cause) = self.requests.find_cause(capability, hash, id) {
            return Some(cause);
        }
        if let Some(workflow) = self.actors.find_taken(capability, id) {
            return Some(KnownCause { key: None, workflow });
        }
        self.requests.find_old_cause(capability, hash, id)
    }
}

/// The message with what it left out of the workflow of its cause.
#[inline]
pub(in crate::flow) fn with_workflow(mut message: Envelope, left_out: Workflow) -> Envelope {
    if let Some(traceparent) = left_out.traceparent {
        message = message.with_metadata_member("traceparent", &traceparent);
    }
    if let Some(correlation) = left_out.correlation {
        message = message.with_metadata_member("correlation", &correlation);
    }
    message
}
