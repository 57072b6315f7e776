//! The laws of lineage: whatever an actor says names what caused it, and stays within the workflow
//! of that.

use crate::api::ids::{ActorRef, CapabilityId};
use crate::kernel::Kernel;
use crate::requests::{KnownCause, RequestKey};
use mainspring_message::{Envelope, Kind, Text};

/// What an actor says of the place of its message among others.
#[derive(Clone, Copy)]
pub(in crate::flow) struct Lineage<'a> {
    pub(in crate::flow) kind: Kind,
    pub(in crate::flow) type_name: &'a str,
    pub(in crate::flow) causation: Option<&'a str>,
    pub(in crate::flow) correlation: Option<&'a str>,
}

impl<'a> Lineage<'a> {
    #[inline]
    pub(in crate::flow) fn of(message: &'a Envelope) -> Lineage<'a> {
        let (causation, correlation) = (message.causation(), message.correlation());
        Lineage { kind: message.kind(), type_name: message.type_name(), causation, correlation }
    }

    /// The correlation to restore where it was left out, given that of the cause.
    ///
    /// A different one is a violation: an actor preserves the workflow that it works in.
    pub(in crate::flow) fn to_restore<T: AsRef<str>>(self, wanted: Option<T>) -> Result<Option<T>, String> {
        match (wanted, self.correlation) {
            (None, _) => Ok(None),
            (Some(wanted), Some(there)) if wanted.as_ref() == there => Ok(None),
            (Some(wanted), None) => Ok(Some(wanted)),
            (Some(wanted), Some(there)) => {
                Err(format!("{self} with correlation {there:?} instead of {:?}", wanted.as_ref()))
            }
        }
    }
}

impl std::fmt::Display for Lineage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.type_name)
    }
}

impl Kernel {
    /// Checks causation and correlation of an event or request; returns a correlation that was left
    /// out, and the request behind it.
    pub(in crate::flow) fn check_lineage(
        &mut self,
        actor: ActorRef,
        lineage: Lineage<'_>,
    ) -> Result<(Option<Text>, Option<RequestKey>), String> {
        let Some(causation) = lineage.causation else {
            if self.actors.may_be_uncaused(actor.capability) {
                return Ok((None, None));
            }
            return Err(format!(
                "{lineage} without metadata.causation (the manifest's `uncaused` would allow it)"
            ));
        };
        let Some(KnownCause { key, correlation }) = self.find_cause(actor.capability, causation) else {
            return Err(format!("{lineage} caused by {causation:?}, which it was never given"));
        };
        Ok((lineage.to_restore(correlation)?, key))
    }

    /// The message with that id which the actor has or had.
    fn find_cause(&mut self, capability: CapabilityId, id: &str) -> Option<KnownCause> {
        // Mostly it is what the actor works on just now.
        if let Some(key) = self.find_in_progress(capability, id) {
            return Some(self.requests.cause(key));
        }
        let hash = self.out.hash_id(id);
        if let Some(cause) = self.requests.find_cause(capability, hash, id) {
            return Some(cause);
        }
        if let Some(correlation) = self.actors.find_taken(capability, id) {
            return Some(KnownCause { key: None, correlation });
        }
        self.requests.find_old_cause(capability, hash, id)
    }
}

/// The message with the correlation of its cause, if that was left out.
pub(in crate::flow) fn with_correlation(message: Envelope, left_out: Option<Text>) -> Envelope {
    match left_out {
        Some(correlation) => message.with_metadata_member("correlation", &correlation),
        None => message,
    }
}
