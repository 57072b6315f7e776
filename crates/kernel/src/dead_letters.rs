//! Messages that could not be delivered or survived too many attempts: kept whole, with the reason.

use mainspring_message::Envelope;
use std::collections::{BTreeMap, VecDeque};

/// On whose account a dead letter is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Capability(u32),
    Peer(u32),
    Loop,
}

/// A message that ended here.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    /// Counts all dead letters, from 1.
    pub(crate) number: u64,
    pub(crate) unix_ms: u64,
    pub(crate) reason: String,
    /// How often it was delivered.
    pub(crate) attempts: u32,
    pub(crate) message: Envelope,
}

#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    by_owner: BTreeMap<Owner, VecDeque<DeadLetter>>,
    len: usize,
    bytes: usize,
    last_number: u64,
    /// Letters that made room for newer ones.
    pub(crate) dropped: u64,
}

impl DeadLetters {
    /// Keeps a letter. At the bound, the oldest letter of whoever has most makes room.
    pub(crate) fn add(
        &mut self,
        owner: Owner,
        mut letter: DeadLetter,
        letters_max: usize,
        bytes_max: usize,
    ) -> u64 {
        self.last_number += 1;
        letter.number = self.last_number;
        self.len += 1;
        self.bytes += letter.message.line().len();
        self.by_owner.entry(owner).or_default().push_back(letter);
        while self.len > letters_max || (self.bytes > bytes_max && self.len > 0) {
            self.drop_oldest_of_the_fullest();
        }
        self.last_number
    }

    fn drop_oldest_of_the_fullest(&mut self) {
        // The first of equals, so that the choice is the same in every run.
        let fullest =
            self.by_owner.iter().rev().max_by_key(|(_, letters)| letters.len()).map(|(owner, _)| *owner);
        let Some(letters) = fullest.and_then(|owner| self.by_owner.get_mut(&owner)) else { return };
        if let Some(letter) = letters.pop_front() {
            self.len -= 1;
            self.bytes -= letter.message.line().len();
            self.dropped += 1;
        }
        self.by_owner.retain(|_, letters| !letters.is_empty());
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All letters, oldest first.
    pub(crate) fn in_order(&self) -> Vec<&DeadLetter> {
        let mut all: Vec<&DeadLetter> = self.by_owner.values().flatten().collect();
        all.sort_by_key(|letter| letter.number);
        all
    }

    pub(crate) fn get(&self, number: u64) -> Option<&DeadLetter> {
        self.by_owner.values().flatten().find(|letter| letter.number == number)
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<DeadLetter> {
        for letters in self.by_owner.values_mut() {
            if let Some(at) = letters.iter().position(|letter| letter.number == number) {
                let letter = letters.remove(at)?;
                self.len -= 1;
                self.bytes -= letter.message.line().len();
                self.by_owner.retain(|_, letters| !letters.is_empty());
                return Some(letter);
            }
        }
        None
    }

    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.len;
        self.by_owner.clear();
        self.len = 0;
        self.bytes = 0;
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(id: u64) -> DeadLetter {
        let line = format!(
            r#"{{"kind":"event","type":"Test.Lost","data":1,"metadata":{{"id":"{id}","timestamp":0}}}}"#
        );
        let message = Envelope::parse(line.as_bytes()).unwrap();
        DeadLetter { number: 0, unix_ms: 0, reason: "test".into(), attempts: 0, message }
    }

    #[test]
    fn whoever_has_most_makes_room_and_the_neighbour_keeps_its_letter() {
        let mut dead = DeadLetters::default();
        dead.add(Owner::Peer(7), letter(0), 4, usize::MAX);
        for id in 1..10 {
            dead.add(Owner::Capability(1), letter(id), 4, usize::MAX);
        }
        let kept: Vec<&str> = dead.in_order().iter().map(|letter| letter.message.id()).collect();
        assert_eq!(kept, ["0", "7", "8", "9"]);
        assert_eq!((dead.len(), dead.dropped), (4, 6));
        assert_eq!(
            dead.bytes(),
            dead.in_order().iter().map(|letter| letter.message.line().len()).sum::<usize>()
        );
    }
}
