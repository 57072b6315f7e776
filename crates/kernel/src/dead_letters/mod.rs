//! Messages that could not be delivered or survived too many attempts: kept whole, with the reason,
//! within a bound. The flow of messages buries them here. Only `Sys.DeadLetters` reads them, puts
//! them back or drops them.

use crate::api::config::Limits;
use crate::api::fact::{Fact, PeerName};
use crate::api::ids::CapabilityId;
use crate::out::Out;
use crate::requests::PeerId;
use mainspring_message::Envelope;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// The longest reason, in bytes: reasons quote what actors said.
const REASON_BYTES_MAX: usize = 1024;
/// Changes that gather before it is worth looking which of them say nothing.
const CHANGES_MIN: usize = 4096;

/// On whose account a dead letter is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Capability(CapabilityId),
    Peer(PeerId),
}

/// A message that ended here.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    /// Counts all dead letters, from 1; given when it is added.
    number: u64,
    /// When it was buried.
    unix_ms: u64,
    /// Why, at most [`REASON_BYTES_MAX`] bytes and a mark that there was more.
    reason: String,
    /// How often it was delivered.
    attempts: u32,
    message: Envelope,
}

impl DeadLetter {
    fn new(message: Envelope, reason: &str, attempts: u32, unix_ms: u64) -> DeadLetter {
        let mut reason = reason.to_owned();
        if reason.len() > REASON_BYTES_MAX {
            reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
            reason.push_str(" ...");
        }
        DeadLetter { number: 0, unix_ms, reason, attempts, message }
    }

    fn bytes(&self) -> usize {
        self.message.line().len() + self.reason.len()
    }

    /// When it was buried.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    /// Why.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// The fact that it is kept, under this number and on this account.
    pub(crate) fn fact<'a>(&'a self, number: u64, owner: PeerName<&'a str>) -> Fact<&'a str> {
        Fact::DeadLettered {
            letter: number,
            owner,
            attempts: self.attempts,
            unix_ms: self.unix_ms,
            reason: &self.reason,
            message: self.message.line(),
        }
    }

    /// What died.
    pub(crate) fn message(&self) -> &Envelope {
        &self.message
    }

    /// All about it but the message itself, as `Sys.DeadLetters` tells it.
    pub(crate) fn headline(&self) -> serde_json::Value {
        serde_json::json!({
            "number": self.number,
            "timestamp": self.unix_ms,
            "reason": self.reason,
            "attempts": self.attempts,
            "kind": self.message.kind().as_str(),
            "type": self.message.type_name(),
            "id": self.message.id(),
        })
    }
}

/// The letters of one owner, oldest first.
#[derive(Debug, Default)]
struct Account {
    letters: VecDeque<DeadLetter>,
    bytes: usize,
}

impl Account {
    /// Where the letter of that number is: they are in order.
    fn place(&self, number: u64) -> Option<usize> {
        self.letters.binary_search_by_key(&number, |letter| letter.number).ok()
    }

    fn get(&self, number: u64) -> Option<&DeadLetter> {
        self.letters.get(self.place(number)?)
    }
}

/// The dead letters of everybody.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    by_owner: BTreeMap<Owner, Account>,
    /// Whose each of them is, oldest first.
    owners: BTreeMap<u64, Owner>,
    /// Bytes of the messages and their reasons.
    bytes: usize,
    last_number: u64,
    /// Letters that made room for newer ones.
    dropped: u64,
    letters_max: usize,
    bytes_max: usize,
    /// What became of letters and is not recorded yet; nothing where nothing is recorded.
    changes: Vec<LetterChange>,
}

/// What became of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetterChange {
    /// There is one more.
    Added(u64, Owner),
    /// All from this number to that one are gone.
    Dropped(u64, u64),
    /// It was sent again.
    Requeued(u64),
}

impl DeadLetters {
    pub(crate) fn new(limits: &Limits) -> DeadLetters {
        DeadLetters::bounded(limits.dead_letters_max, limits.dead_letter_bytes_max)
    }

    fn bounded(letters_max: usize, bytes_max: usize) -> DeadLetters {
        DeadLetters {
            by_owner: BTreeMap::new(),
            owners: BTreeMap::new(),
            bytes: 0,
            last_number: 0,
            dropped: 0,
            letters_max,
            bytes_max,
            changes: Vec::new(),
        }
    }

    /// Keeps a message that ended badly after so many deliveries.
    pub(crate) fn bury(
        &mut self,
        owner: Owner,
        message: Envelope,
        reason: &str,
        attempts: u32,
        out: &mut Out,
    ) {
        out.counters.dead_letters += 1;
        let from = self.changes.len();
        let number = self.add(owner, DeadLetter::new(message, reason, attempts, out.now.unix_ms));
        match out.facts.is_on() {
            true => self.changes.insert(from, LetterChange::Added(number, owner)),
            false => self.changes.clear(),
        }
    }

    /// Takes note of what became of letters, if that is to be recorded.
    pub(crate) fn note(&mut self, change: LetterChange, out: &Out) {
        if out.facts.is_on() {
            self.changes.push(change);
        }
    }

    /// Whether something is to be recorded.
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Takes out what is to be recorded, oldest first.
    pub(crate) fn take_changes(&mut self) -> Vec<LetterChange> {
        std::mem::take(&mut self.changes)
    }

    /// Drops what says nothing: changes of letters that came and went before they were recorded.
    /// What is left is bounded, as the letters are.
    pub(crate) fn compact_changes(&mut self) {
        if self.changes.len() < CHANGES_MIN + 4 * self.letters_max {
            return;
        }
        let gone = |change: &LetterChange| match change {
            LetterChange::Added(number, _) if self.get(*number).is_none() => Some(*number),
            _ => None,
        };
        let gone: BTreeSet<u64> = self.changes.iter().filter_map(gone).collect();
        self.changes.retain(|change| match change {
            LetterChange::Added(number, _) | LetterChange::Requeued(number) => !gone.contains(number),
            LetterChange::Dropped(first, last) => first != last || !gone.contains(first),
        });
    }

    /// Keeps a letter of an earlier run under the number that it had.
    pub(crate) fn restore(
        &mut self,
        number: u64,
        owner: Owner,
        message: Envelope,
        reason: &str,
        attempts: u32,
        unix_ms: u64,
    ) {
        let letter = DeadLetter { number, ..DeadLetter::new(message, reason, attempts, unix_ms) };
        self.last_number = self.last_number.max(number);
        self.owners.insert(number, owner);
        self.bytes += letter.bytes();
        let account = self.by_owner.entry(owner).or_default();
        account.bytes += letter.bytes();
        account.letters.push_back(letter);
    }

    /// Numbers up to this one are used up.
    pub(crate) fn go_on_after(&mut self, number: u64) {
        self.last_number = self.last_number.max(number);
    }

    /// The numbers of the oldest and the newest letter.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        Some((*self.owners.first_key_value()?.0, *self.owners.last_key_value()?.0))
    }

    /// Keeps a letter. At the bound, the oldest letter of whoever has most (letters, or bytes)
    /// makes room.
    fn add(&mut self, owner: Owner, mut letter: DeadLetter) -> u64 {
        self.last_number += 1;
        letter.number = self.last_number;
        let bytes = letter.bytes();
        self.owners.insert(letter.number, owner);
        self.bytes += bytes;
        let account = self.by_owner.entry(owner).or_default();
        account.bytes += bytes;
        account.letters.push_back(letter);
        while self.len() > self.letters_max {
            self.drop_oldest_of_the_first_by(|account| account.letters.len());
        }
        while self.bytes > self.bytes_max {
            self.drop_oldest_of_the_first_by(|account| account.bytes);
        }
        self.last_number
    }

    fn drop_oldest_of_the_first_by(&mut self, measure: impl Fn(&Account) -> usize) {
        // The first of equals, so that the choice is the same in every run.
        let most = self.by_owner.iter().rev().max_by_key(|(_, account)| measure(account));
        let Some(number) = most.and_then(|(_, account)| Some(account.letters.front()?.number)) else {
            return;
        };
        self.take(number);
        self.dropped += 1;
        self.changes.push(LetterChange::Dropped(number, number));
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many made room for newer ones.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The letters with higher numbers, oldest first.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = (u64, &DeadLetter)> {
        let later = self.owners.range((Bound::Excluded(number), Bound::Unbounded));
        later.filter_map(|(number, owner)| Some((*number, self.by_owner.get(owner)?.get(*number)?)))
    }

    /// On whose account a letter is kept.
    pub(crate) fn owner(&self, number: u64) -> Option<Owner> {
        self.owners.get(&number).copied()
    }

    /// The letter of that number.
    pub(crate) fn get(&self, number: u64) -> Option<&DeadLetter> {
        self.by_owner.get(self.owners.get(&number)?)?.get(number)
    }

    /// Takes the letter of that number out.
    pub(crate) fn take(&mut self, number: u64) -> Option<DeadLetter> {
        let owner = self.owners.remove(&number)?;
        let account = self.by_owner.get_mut(&owner)?;
        let at = account.place(number)?;
        let letter = account.letters.remove(at)?;
        account.bytes -= letter.bytes();
        self.bytes -= letter.bytes();
        if account.letters.is_empty() {
            self.by_owner.remove(&owner);
        }
        Some(letter)
    }

    /// Drops all of them; returns how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.len();
        self.by_owner.clear();
        self.owners.clear();
        self.bytes = 0;
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(id: u64, data_bytes: usize) -> DeadLetter {
        let data = "x".repeat(data_bytes);
        let line = format!(
            r#"{{"kind":"event","type":"Test.Lost","data":"{data}","metadata":{{"id":"{id}","timestamp":0}}}}"#
        );
        DeadLetter::new(Envelope::parse(line.as_bytes()).unwrap(), "test", 0, 0)
    }

    fn ids(dead: &DeadLetters) -> Vec<&str> {
        dead.after(0).map(|(_, letter)| letter.message.id()).collect()
    }

    #[test]
    fn whoever_has_most_makes_room_and_the_neighbour_keeps_its_letter() {
        let mut dead = DeadLetters::bounded(4, usize::MAX);
        dead.add(Owner::Peer(PeerId::for_test(7)), letter(0, 1));
        for id in 1..10 {
            dead.add(Owner::Capability(CapabilityId(1)), letter(id, 1));
        }
        assert_eq!(ids(&dead), ["0", "7", "8", "9"]);
        assert_eq!((dead.len(), dead.dropped), (4, 6));
        assert_eq!(dead.bytes(), dead.after(0).map(|(_, letter)| letter.bytes()).sum::<usize>());
    }

    #[test]
    fn whoever_has_most_bytes_makes_room_for_bytes_even_if_its_neighbour_has_more_letters() {
        let mut dead = DeadLetters::bounded(usize::MAX, 3000);
        for id in 0..5 {
            dead.add(Owner::Peer(PeerId::for_test(7)), letter(id, 1));
        }
        for id in 5..9 {
            dead.add(Owner::Capability(CapabilityId(1)), letter(id, 1000));
        }
        assert_eq!(ids(&dead), ["0", "1", "2", "3", "4", "7", "8"]);
        dead.add(Owner::Capability(CapabilityId(1)), letter(9, 4000));
        assert_eq!(ids(&dead), ["0", "1", "2", "3", "4"], "what is larger than the bound is not kept");
    }
}
