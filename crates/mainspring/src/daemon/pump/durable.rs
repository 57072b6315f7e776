//! The pump's side of the journal: facts go to it, what rests on them waits, and what it tells goes
//! to the kernel.

use super::Pump;
use crate::daemon::clients::Clients;
use crate::daemon::hold::{Hold, Released};
use crate::daemon::storage::{Notice, Opening, Progress, Storage};
use crate::settings::OnFailure;
use mainspring_kernel::{Effect, Records};
use mainspring_reactor::Handle;
use serde_json::Value;
use std::cell::{Cell, RefCell};

/// What a daemon with a journal has besides.
pub(super) struct Keeping {
    storage: Storage,
    hold: RefCell<Hold>,
    /// The fact that the next effect rests on.
    after: Cell<u64>,
    on_failure: OnFailure,
    has_failed: Cell<bool>,
    /// Both kept for their room.
    released: RefCell<Vec<Released>>,
    written: Cell<Records>,
}

impl Keeping {
    pub(super) fn start(
        opening: Opening,
        on_failure: OnFailure,
        reactor: &Handle,
        stir: impl Fn() + 'static,
    ) -> Result<Keeping, String> {
        Ok(Keeping {
            storage: Storage::start(opening, reactor, stir)?,
            hold: RefCell::default(),
            after: Cell::new(0),
            on_failure,
            has_failed: Cell::new(false),
            released: RefCell::default(),
            written: Cell::default(),
        })
    }

    pub(super) fn record(&self, records: Records) {
        if let Some(last) = self.storage.append(&records) {
            self.hold.borrow_mut().end_batch(last);
        }
        self.written.set(records);
    }

    /// Facts that the journal has taken, for their memory.
    pub(super) fn take_written(&self) -> Records {
        self.written.take()
    }

    /// Whether there are facts for the journal's thread.
    pub(super) fn has_gathered(&self) -> bool {
        self.storage.has_gathered()
    }

    /// The next effect rests on this fact.
    pub(super) fn rest_on(&self, fact: u64) {
        self.after.set(fact);
    }

    /// Gives an effect back that may be carried out now.
    #[inline]
    pub(super) fn admit(&self, effect: Effect, clients: &Clients) -> Option<Effect> {
        let (mut hold, fact) = (self.hold.borrow_mut(), self.after.take());
        match effect {
            Effect::Write { connection, message } if Clients::joins(connection, &message) => {
                let refused = hold.offer_line(connection, message, fact, || clients.spare_buffer());
                refused.map(|message| Effect::Write { connection, message })
            }
            // It is given nothing more, so this waits for nothing.
            Effect::Close { connection, reason } if reason.drops_what_is_unread() => {
                hold.forget(&mut vec![connection]);
                Some(effect)
            }
            effect => hold.offer(effect, fact),
        }
    }

    pub(super) fn stats(&self) -> Value {
        let mut stats = self.storage.stats();
        stats["held"] = self.hold.borrow().len().into();
        stats
    }
}

impl Pump {
    /// Carries out what was held and may leave now, and has the kernel know how far the disk is.
    /// Whether there was anything of that.
    pub(super) fn take_progress(&self) -> bool {
        let Some(keeping) = &self.keeping else { return false };
        let Some(progress) = keeping.storage.progress() else { return false };
        let Progress { flushed, failure, is_full, is_congested, notices } = progress;
        notices.iter().for_each(tell);
        self.kernel_cell.feed(|kernel, now| {
            kernel.flushed(flushed, now);
            kernel.storage_full(is_full, now);
            kernel.storage_congested(is_congested, now);
        });
        if let Some(uplink) = &self.uplink {
            uplink.flushed(flushed);
        }
        let mut released = keeping.released.take();
        keeping.hold.borrow_mut().release(flushed, &mut released);
        for released in released.drain(..) {
            self.let_go(released);
        }
        *keeping.released.borrow_mut() = released;
        if let Some(reason) = failure
            && !keeping.has_failed.replace(true)
        {
            self.give_up_journal(keeping, &reason);
        }
        true
    }

    fn let_go(&self, released: Released) {
        match released {
            Released::Effect(effect) => self.carry_out_now(effect),
            Released::Lines(lines) => self.clients.write_lines(lines),
        }
    }

    /// The journal failed: whoever waits for it is told.
    fn give_up_journal(&self, keeping: &Keeping, reason: &str) {
        // What a callback had the kernel do since its last turn rests on facts that are lost, too.
        let mut effects = Vec::new();
        self.kernel_cell.with(|kernel, _| kernel.drain_effects(&mut effects));
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        let failed = keeping.hold.borrow_mut().fail();
        self.kernel_cell.feed(|kernel, now| {
            kernel.storage_failed(reason, now);
            for effect in &failed.lost {
                kernel.effect_lost(effect, now);
            }
        });
        for released in failed.released {
            self.let_go(released);
        }
        if keeping.on_failure == OnFailure::Exit {
            tracing::error!("the daemon ends because its journal failed (journal.on_failure = \"exit\")");
            self.exit_after_turn.set(true);
        }
    }

    /// Gives the journal's thread what was recorded, if that is not better done later; `is_idle`
    /// tells that there was nothing else to do in this turn.
    pub(super) fn hand_over_facts(&self, is_idle: bool) {
        let Some(keeping) = &self.keeping else { return };
        if keeping.has_gathered() {
            let mut hold = keeping.hold.borrow_mut();
            let expects_more = !is_idle && hold.is_for_many();
            let (turn_began, now) = (self.kernel_cell.turn_began(), || self.reactor.now());
            if keeping.storage.is_due(expects_more, turn_began, now) {
                hold.end_batch(keeping.storage.hand_over());
            }
        }
        if keeping.storage.take_congestion() {
            self.kernel_cell.feed(|kernel, now| kernel.storage_congested(true, now));
        }
    }

    /// Drops what is held for clients that are gone.
    pub(super) fn forget_gone_clients(&self) {
        let mut gone = self.gone.take();
        self.clients.take_gone(&mut gone);
        self.http_bus.take_gone(&mut gone);
        if let Some(keeping) = self.keeping.as_ref().filter(|_| !gone.is_empty()) {
            keeping.hold.borrow_mut().forget(&mut gone);
        }
        gone.clear();
        self.gone.set(gone);
    }

    /// Writes what is left to the journal, and closes it.
    pub(super) fn close_journal(&self) {
        if let Some(keeping) = &self.keeping {
            keeping.storage.close().iter().for_each(tell);
        }
    }
}

fn tell(notice: &Notice) {
    match notice {
        Notice::Info(text) => tracing::info!("{text}"),
        Notice::Warn(text) => tracing::warn!("{text}"),
        Notice::Error(text) => tracing::error!("{text}"),
    }
}
