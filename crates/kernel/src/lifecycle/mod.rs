//! The beginning, the end, and whether the tables agree with each other.
//!
//! [`Lifecycle`] owns the stage that the kernel is in, the phase of its boot and the transports.
//! The boot and the shutdown drive the parts in phases, as the flow of messages drives them for one
//! message; the audit only looks.

pub(crate) mod audit;
mod boot;
mod shutdown;

use crate::requests::RequestKey;
use crate::time::wheel::TimerKey;
use boot::{Adapter, BootPhase};
use std::collections::VecDeque;

/// The stages of the kernel, from boot to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From LOAD to ADAPT.
    #[default]
    Booting,
    Running,
    /// No new work; what there is may finish.
    Draining,
    /// All is answered; bytes and actors may leave.
    Flushing,
    Ended,
}

/// Where the kernel is between its boot and its end.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    stage: Stage,
    /// Whether the boot was asked for.
    has_begun: bool,
    phase: BootPhase,
    /// When the boot took too long.
    boot_timer: Option<TimerKey>,
    adapters: Vec<Adapter>,
    /// Requests that are still to be answered because the drain took too long.
    giving_up: Option<VecDeque<RequestKey>>,
}

impl Lifecycle {
    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    #[inline]
    pub(crate) fn is_booting(&self) -> bool {
        self.stage == Stage::Booting
    }

    /// Whether requests are worked on: also while they are drained.
    pub(crate) fn is_at_work(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Draining)
    }

    /// Whether nothing new is taken from clients.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Draining | Stage::Flushing | Stage::Ended)
    }

    /// Whether all is answered, so that nothing is delivered any more.
    #[inline]
    pub(crate) fn is_flushing(&self) -> bool {
        self.stage == Stage::Flushing
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether actors may still ask each other.
    pub(crate) fn takes_inner_requests(&self) -> bool {
        !self.is_flushing() && self.giving_up.is_none()
    }

    /// Whether requests that took too long are being answered.
    #[inline]
    pub(crate) fn is_giving_up(&self) -> bool {
        self.giving_up.is_some()
    }

    /// An error unless capabilities may be changed now.
    pub(crate) fn check_running(&self) -> Result<(), String> {
        match self.stage {
            Stage::Running => Ok(()),
            Stage::Booting => Err("the boot is not complete".to_owned()),
            _ => Err("the daemon is shutting down".to_owned()),
        }
    }
}
