//! Commands that ended and are remembered: what the next run of the daemon tells repetitions.
//!
//! They are forgotten by the rules of the window in which a running daemon remembers
//! (`requests/room.rs`): whoever has most pays, and at the bound of bytes only answers go. The
//! bounds of one peer are not among them: the window holds to these what it takes up, and whoever
//! is above them pays here before anybody who is not.

use crate::api::fact::{Answer, Ending, Fact, PeerName};
use crate::facts::{DurableBounds, KeptAnswer};
use hashbrown::HashMap;
use mainspring_message::Text;
use slab::Slab;
use std::collections::VecDeque;

/// The part of a bound that is made free when it is met, so that looking for who pays is rare.
const ROOM: usize = 16;

/// What is remembered of a command that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) id: Text,
    pub(crate) fingerprint: u64,
    pub(crate) ended_ms: u64,
    pub(crate) until_ms: u64,
    /// Nothing if only that it was done is known.
    pub(crate) answer: Option<KeptAnswer>,
}

/// A command that ended, as a fact tells it.
pub(super) struct Ended<'a> {
    pub(super) id: &'a str,
    pub(super) fingerprint: u64,
    pub(super) ended_ms: u64,
    pub(super) until_ms: u64,
    pub(super) answer: Option<KeptAnswer>,
}

impl Remembered {
    fn answer_bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, KeptAnswer::bytes)
    }

    /// The answer, if that is known.
    pub(crate) fn answer(&self) -> Option<Answer<&str>> {
        self.answer.as_ref().map(|answer| answer.answer(&self.id))
    }

    fn fact<'a>(&'a self, peer: &'a PeerName) -> Fact<&'a str> {
        let which = Ending::Whole { peer: peer.as_ref(), id: &*self.id, fingerprint: self.fingerprint };
        let (unix_ms, until_ms) = (self.ended_ms, self.until_ms);
        Fact::Ended { which, unix_ms, until_ms, answer: self.answer() }
    }
}

/// A peer of which something is remembered, and how much.
#[derive(Clone, Debug)]
struct RememberedPeer {
    name: PeerName,
    commands: usize,
    /// Bytes of their answers.
    bytes: usize,
}

/// The remembered commands of all peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RememberedCommands {
    /// In the order in which they ended, each with its peer; nothing where one was forgotten before
    /// an older one. The first is there.
    commands: VecDeque<Option<(usize, Remembered)>>,
    /// How many are there.
    count: usize,
    /// How many were ever added: the number of a command is how many were added before it.
    added: u64,
    /// Bytes of answers.
    bytes: usize,
    /// None of the commands before this one has its answer still.
    answered_from: u64,
    peers: Slab<RememberedPeer>,
    by_name: HashMap<PeerName, usize, foldhash::fast::FixedState>,
    /// Where answers are written; kept for its room.
    scratch: Vec<u8>,
}

impl RememberedCommands {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many places they take, with those that are empty.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.commands.len()
    }

    /// The number of the first one.
    fn first(&self) -> u64 {
        self.added - self.commands.len() as u64
    }

    /// All of them, oldest first, each with whose it is.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PeerName, &Remembered)> {
        self.commands.iter().flatten().map(|(peer, command)| (&self.peers[*peer].name, command))
    }

    /// The facts that stand for them.
    pub(super) fn facts(&self) -> impl Iterator<Item = Fact<&str>> {
        self.iter().map(|(peer, command)| command.fact(peer))
    }

    /// An answer as it is kept, given the id of the command that it answers.
    pub(super) fn keep(&mut self, answer: &Answer<&str>, command: &str) -> KeptAnswer {
        KeptAnswer::of(answer, command, &mut self.scratch)
    }

    /// Adds the newest, and holds them all to the bounds.
    pub(super) fn add(&mut self, peer: PeerName<&str>, ended: Ended<'_>, bounds: &DurableBounds) {
        let Ended { id, fingerprint, ended_ms, until_ms, answer } = ended;
        let command = Remembered { id: id.into(), fingerprint, ended_ms, until_ms, answer };
        let peer = self.peer_called(peer);
        let bytes = command.answer_bytes();
        self.peers[peer].commands += 1;
        self.peers[peer].bytes += bytes;
        self.bytes += bytes;
        self.commands.push_back(Some((peer, command)));
        self.count += 1;
        self.added += 1;
        if self.count > bounds.answers_max {
            self.forget_commands(bounds.answers_max - bounds.answers_max / ROOM);
        }
        if self.bytes > bounds.answer_bytes_max {
            self.forget_answers(bounds.answer_bytes_max - bounds.answer_bytes_max / ROOM);
        }
    }

    fn peer_called(&mut self, name: PeerName<&str>) -> usize {
        if let Some(peer) = self.by_name.get(&name) {
            return *peer;
        }
        let name = name.to_owned();
        let peer = self.peers.insert(RememberedPeer { name: name.clone(), commands: 0, bytes: 0 });
        self.by_name.insert(name, peer);
        peer
    }

    /// Forgets those whose time is over, oldest first.
    pub(super) fn forget_until(&mut self, unix_ms: u64) {
        while let Some(Some((_, oldest))) = self.commands.front() {
            if oldest.until_ms > unix_ms {
                return;
            }
            self.forget(self.first());
        }
    }

    /// The wall clock was ahead and is set back: what ended by the wrong one counts as ended now,
    /// and is remembered for no longer than it was to be.
    #[cold]
    pub(super) fn follow_clock_back(&mut self, unix_ms: u64) {
        for (_, command) in self.commands.iter_mut().flatten() {
            let ahead_ms = command.ended_ms.saturating_sub(unix_ms);
            command.ended_ms -= ahead_ms;
            command.until_ms = command.until_ms.saturating_sub(ahead_ms);
        }
    }

    fn forget(&mut self, number: u64) {
        let place = (number - self.first()) as usize;
        let Some((peer, command)) = self.commands.get_mut(place).and_then(Option::take) else { return };
        self.count -= 1;
        while let Some(None) = self.commands.front() {
            self.commands.pop_front();
        }
        self.forget_bytes(peer, command.answer_bytes());
        let own = &mut self.peers[peer];
        own.commands -= 1;
        if own.commands == 0 {
            self.by_name.remove(&own.name);
            self.peers.remove(peer);
        }
    }

    fn forget_bytes(&mut self, peer: usize, bytes: usize) {
        self.peers[peer].bytes -= bytes;
        self.bytes -= bytes;
    }

    /// Forgets the oldest commands of the peers that have most, until so many are left.
    #[cold]
    fn forget_commands(&mut self, left: usize) {
        let level = level(self.peers.iter().map(|(_, peer)| peer.commands).collect(), left);
        let mut spare: Vec<usize> = vec![0; self.peers.capacity()];
        for (peer, own) in &self.peers {
            spare[peer] = own.commands.saturating_sub(level);
        }
        let over = self.count - left;
        let paying = (self.first()..).zip(&self.commands).filter_map(|(number, command)| {
            let (peer, _) = command.as_ref()?;
            let pays = spare[*peer] > 0;
            spare[*peer] = spare[*peer].saturating_sub(1);
            pays.then_some(number)
        });
        let paying: Vec<u64> = paying.take(over).collect();
        paying.into_iter().for_each(|number| self.forget(number));
        // Behind an old command of somebody who has few, many of others come and go.
        if self.commands.len() > 2 * self.count {
            self.commands.retain(Option::is_some);
            self.answered_from = 0;
        }
    }

    /// Forgets the oldest answers of the peers that have most bytes, until so many are left. That
    /// their commands were done stays known.
    #[cold]
    fn forget_answers(&mut self, left: usize) {
        let level = level(self.peers.iter().map(|(_, peer)| peer.bytes).collect(), left);
        let mut first_kept = None;
        let first = self.first().max(self.answered_from);
        let commands = self.commands.range_mut((first - self.first()) as usize..);
        for (number, command) in (first..).zip(commands) {
            let Some((peer, command)) = command else { continue };
            if self.bytes <= left {
                first_kept = first_kept.or(Some(number));
                break;
            }
            let own = &mut self.peers[*peer];
            if own.bytes > level {
                let bytes = command.answer.take().map_or(0, |answer| answer.bytes());
                own.bytes -= bytes;
                self.bytes -= bytes;
            } else if command.answer.is_some() {
                first_kept = first_kept.or(Some(number));
            }
        }
        self.answered_from = first_kept.unwrap_or(self.added);
    }
}

/// The most that each may have, so that all of them have no more than `max`; where that does not
/// divide, a few may have more.
fn level(mut held: Vec<usize>, max: usize) -> usize {
    held.sort_unstable();
    let (mut left, mut others) = (max, held.len());
    for own in held {
        if own > left / others {
            return left / others;
        }
        left -= own;
        others -= 1;
    }
    usize::MAX
}

/// What is remembered is the same: whose it is, what, and in which order.
impl PartialEq for RememberedCommands {
    fn eq(&self, other: &RememberedCommands) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for RememberedCommands {}
