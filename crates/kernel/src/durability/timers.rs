//! Schedules, as facts.

use super::{durable_name, unix_of};
use crate::api::fact::Fact;
use crate::kernel::Kernel;
use crate::requests::PeerId;
use crate::time::schedules::ScheduleState;

impl Kernel {
    /// Records that a peer scheduled the message of this name.
    pub(crate) fn record_scheduled(&mut self, peer: PeerId, timer_id: &str) {
        let Some(state) = self.schedules.state(peer, timer_id) else { return };
        let message = state.draft.parts(timer_id, self.out.now.unix_ms).compose(&mut String::new());
        let fact = Fact::Scheduled {
            peer: durable_name(&self.requests, &self.actors, peer),
            timer_id,
            due_ms: unix_of(state.deadline_ns, self.out.now),
            repeat_ms: state.repeat_ms,
            left: state.left,
            fired: state.fired,
            bytes: state.bytes as u64,
            rights: state.rights,
            message: message.line(),
        };
        self.out.record(&fact);
    }

    /// Records that a schedule was sent, and is over or goes on.
    pub(crate) fn record_fired(&mut self, peer: PeerId, state: &ScheduleState) {
        let fact = Fact::Fired {
            peer: durable_name(&self.requests, &self.actors, peer),
            timer_id: &*state.timer_id,
            fired: state.fired,
            left: state.left,
            next_ms: state.next_ns.map(|next_ns| unix_of(next_ns, self.out.now)),
        };
        self.out.record(&fact);
    }

    /// Records that a schedule was cancelled.
    pub(crate) fn record_cancelled(&mut self, peer: PeerId, timer_id: &str) {
        let peer = durable_name(&self.requests, &self.actors, peer);
        self.out.record(&Fact::Cancelled { peer, timer_id });
    }
}
