//! Dead letters, as facts.

use super::{FACT_BYTES_MAX, durable_name};
use crate::api::fact::{Fact, PeerName};
use crate::dead_letters::{LetterChange, Owner};
use crate::kernel::Kernel;

impl Kernel {
    /// Records what has become of dead letters since this was last done.
    #[inline]
    pub(crate) fn record_letters(&mut self) {
        if self.dead_letters.has_changed() {
            self.record_letters_unless_behind();
        }
    }

    /// While far too much waits for the disk, changes gather: the letters are bounded, what was
    /// recorded of them would not be.
    #[cold]
    fn record_letters_unless_behind(&mut self) {
        match self.is_far_behind() {
            true => self.dead_letters.compact_changes(),
            false => self.record_all_letters(),
        }
    }

    /// The same, however much waits for the disk.
    pub(crate) fn record_all_letters(&mut self) {
        for change in self.dead_letters.take_changes() {
            match change {
                LetterChange::Added(number, owner) => self.record_letter(number, owner),
                LetterChange::Dropped(first, last) => {
                    self.out.record(&Fact::<&str>::Dropped { first, last });
                }
                LetterChange::Requeued(number) => {
                    self.out.record(&Fact::<&str>::Requeued { letter: number });
                }
            }
        }
    }

    fn record_letter(&mut self, number: u64, owner: Owner) {
        let owner = match owner {
            Owner::Capability(capability) => PeerName::Capability(self.actors.id(capability)),
            Owner::Peer(peer) => durable_name(&self.requests, &self.actors, peer),
        };
        // It may be gone already.
        let kept = self.dead_letters.get(number);
        let kept = kept.filter(|letter| letter.message().line().len() <= FACT_BYTES_MAX);
        if let Some(letter) = kept {
            let bytes = letter.message().line().len();
            self.out.record(&letter.fact(number, owner));
            self.count_if_congested(bytes);
        }
    }
}
