//! The hold: what rests on a fact waits until that fact is on disk.
//!
//! The facts of a batch go to the journal together, and are on disk together: what rests on any of
//! them waits for the last. For each target (a connection, a capability's actor) what is held
//! leaves in the order in which it came, and whatever comes for a target that something is held for
//! waits behind that. Other targets do not notice.
//!
//! Most of what waits is short answers to clients. Those that one client is told by one batch are
//! held as the bytes that leave in the end, so that a message's memory is free again at once.

use foldhash::fast::FixedState;
use mainspring_kernel::{ConnectionId, Effect, EffectTarget};
use mainspring_message::{Envelope, Kind};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Targets that are remembered though nothing is held for them.
const TARGETS_KEPT: usize = 64;
/// Memory that lines may keep for more when no more are likely, beside as much again as they take.
const SPARE_BYTES: usize = 256;

/// What leaves the hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// As it came.
    Effect(Effect),
    /// Messages for one connection, joined.
    Lines(HeldLines),
}

/// Messages for one connection, as it is sent them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldLines {
    /// Whom they are for.
    pub(crate) connection: ConnectionId,
    /// One line behind the other, each with its break.
    pub(crate) bytes: Vec<u8>,
    /// How many lines.
    count: usize,
    /// Whether all of them are events.
    pub(crate) are_events: bool,
}

impl HeldLines {
    #[inline]
    fn push(&mut self, message: &Envelope) {
        let line = message.line();
        self.bytes.reserve(line.len() + 1);
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
        self.count += 1;
        self.are_events &= message.kind() == Kind::Event;
    }

    /// Gives back what they take far less than: a buffer may have been made for more.
    #[inline]
    fn trim(&mut self) {
        if self.bytes.capacity() > 2 * self.bytes.len() + SPARE_BYTES {
            self.bytes.shrink_to_fit();
        }
    }

    /// The messages again, one by one.
    fn effects(&self) -> impl Iterator<Item = Effect> {
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        lines.filter_map(|line| {
            let message = Envelope::parse(&line[..line.len() - 1]);
            debug_assert!(message.is_ok(), "it is the line of a message");
            message.ok().map(|message| Effect::Write { connection: self.connection, message })
        })
    }
}

/// Facts that go to the journal together, counted from 1; 0 is before all of them.
type BatchNumber = u64;

#[derive(Debug)]
struct Held {
    /// It may leave when this batch is on disk: the one with what it rests on, or a later one that
    /// something before it for the same target waits for.
    after: BatchNumber,
    /// Counts what came, for the order among those that leave together.
    place: u64,
    /// The batch with what it rests on itself; 0 if it only waits for its place.
    batch: BatchNumber,
    released: Released,
}

impl Held {
    fn order(&self) -> (BatchNumber, u64) {
        (self.after, self.place)
    }

    fn count(&self) -> usize {
        match &self.released {
            Released::Effect(_) => 1,
            Released::Lines(lines) => lines.count,
        }
    }

    #[inline]
    fn trim(&mut self) {
        if let Released::Lines(lines) = &mut self.released {
            lines.trim();
        }
    }

    /// Drops what is for a connection that is gone, but keeps its place. The numbers are in order.
    fn forget(&mut self, gone: &[ConnectionId]) {
        let connection = match &self.released {
            Released::Effect(Effect::Write { connection, .. }) => *connection,
            Released::Lines(lines) => lines.connection,
            Released::Effect(_) => return,
        };
        if gone.binary_search(&connection).is_ok() {
            let nothing = HeldLines { connection, bytes: Vec::new(), count: 0, are_events: true };
            self.released = Released::Lines(nothing);
        }
    }
}

/// The batches that are not on disk.
#[derive(Debug)]
struct Batches {
    /// The last fact of each that was handed over, oldest first.
    ended: VecDeque<u64>,
    /// The one that facts are added to.
    present: BatchNumber,
    /// The last fact that is on disk.
    flushed: u64,
}

impl Batches {
    /// The last one that is on disk.
    fn flushed(&self) -> BatchNumber {
        self.present - 1 - self.ended.len() as u64
    }

    /// The one that a fact is in; 0 if that is on disk.
    #[inline]
    fn of(&self, fact: u64) -> BatchNumber {
        match self.ended.back() {
            _ if fact <= self.flushed => 0,
            Some(last) if fact <= *last => {
                self.flushed() + 1 + self.ended.partition_point(|last| *last < fact) as u64
            }
            _ => self.present,
        }
    }

    fn end(&mut self, last: u64) {
        if last > self.ended.back().copied().unwrap_or(self.flushed) {
            self.ended.push_back(last);
            self.present += 1;
        }
    }

    fn note_flushed(&mut self, flushed: u64) {
        self.flushed = self.flushed.max(flushed);
        while self.ended.front().is_some_and(|last| *last <= self.flushed) {
            self.ended.pop_front();
        }
    }
}

/// What the last effect for a target waits for. It means nothing once that is on disk, and is
/// dropped when there are many such.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    after: BatchNumber,
    /// Where it stands among all that were ever in `held`, if it is there.
    lines: Option<u64>,
}

/// Who is waiting for a batch, among clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Nobody,
    One(ConnectionId),
    Many,
}

impl Audience {
    #[inline]
    fn add(&mut self, target: EffectTarget) {
        let EffectTarget::Connection(connection) = target else { return };
        *self = match *self {
            Audience::Nobody => Audience::One(connection),
            Audience::One(other) if other == connection => return,
            Audience::One(_) | Audience::Many => Audience::Many,
        };
    }
}

/// What is held.
///
/// Nearly always what comes later rests on a later fact, so that `held` is in order by itself and a
/// release looks at nothing but what leaves.
#[derive(Debug)]
pub(crate) struct Hold {
    batches: Batches,
    /// How much was ever held.
    places: u64,
    /// The same when the present batch began.
    places_before: u64,
    /// Whom the present batch has something for.
    audience: Audience,
    /// In the order in which it leaves.
    held: VecDeque<Held>,
    /// How many have left `held`.
    left: u64,
    /// What leaves before the last of `held`, though it came later.
    early: BTreeMap<(BatchNumber, u64), Held>,
    /// How many effects are held.
    count: usize,
    targets: HashMap<EffectTarget, Last, FixedState>,
}

/// What came of it when the journal failed.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    /// What may leave: it only waited for its place.
    pub(crate) released: Vec<Released>,
    /// What never may: the facts that it rests on may not be on disk.
    pub(crate) lost: Vec<Effect>,
}

impl Default for Hold {
    fn default() -> Hold {
        Hold {
            batches: Batches { ended: VecDeque::new(), present: 1, flushed: 0 },
            places: 0,
            places_before: 0,
            audience: Audience::Nobody,
            held: VecDeque::new(),
            left: 0,
            early: BTreeMap::new(),
            count: 0,
            targets: HashMap::default(),
        }
    }
}

impl Hold {
    /// Gives an effect back that may be carried out now, and keeps it otherwise. `fact` is the one
    /// that it rests on, 0 if none.
    #[inline]
    pub(crate) fn offer(&mut self, effect: Effect, fact: u64) -> Option<Effect> {
        let Some(target) = effect.target().filter(|_| !self.is_open(fact)) else { return Some(effect) };
        let batch = self.batches.of(fact);
        let Some(after) = self.wait_of(target, batch) else { return Some(effect) };
        self.hold(target, after, batch, Released::Effect(effect));
        None
    }

    /// The same for a short message to a client, which may be joined to those before it. `buffer`
    /// makes an empty buffer for several of them.
    #[inline]
    pub(crate) fn offer_line(
        &mut self,
        connection: ConnectionId,
        message: Envelope,
        fact: u64,
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> Option<Envelope> {
        if self.is_open(fact) {
            return Some(message);
        }
        let (target, batch) = (EffectTarget::Connection(connection), self.batches.of(fact));
        let Some(after) = self.wait_of(target, batch) else { return Some(message) };
        if let Some(lines) = self.lines_before(target, after, batch) {
            lines.push(&message);
            self.count += 1;
            return None;
        }
        let mut lines = HeldLines { connection, bytes: buffer(), count: 0, are_events: true };
        lines.push(&message);
        self.hold(target, after, batch, Released::Lines(lines));
        None
    }

    /// Whether nothing is held, and this fact is on disk.
    #[inline]
    fn is_open(&self, fact: u64) -> bool {
        fact <= self.batches.flushed && self.count == 0
    }

    /// What something for this target waits for that rests on a fact of this batch; nothing if that
    /// is on disk.
    #[inline]
    fn wait_of(&self, target: EffectTarget, batch: BatchNumber) -> Option<BatchNumber> {
        let after = match batch {
            // Nothing waits for a later one than the present one.
            batch if batch == self.batches.present => batch,
            batch => self.targets.get(&target).map_or(batch, |last| batch.max(last.after)),
        };
        (after > self.batches.flushed()).then_some(after)
    }

    /// The lines that are the last that is held for a target, if what comes now may leave with
    /// them.
    #[inline]
    fn lines_before(
        &mut self,
        target: EffectTarget,
        after: BatchNumber,
        batch: BatchNumber,
    ) -> Option<&mut HeldLines> {
        let last = self.targets.get(&target).filter(|last| last.after == after)?;
        let at = last.lines?.checked_sub(self.left)?;
        match self.held.get_mut(at as usize)? {
            Held { batch: same, released: Released::Lines(lines), .. } if *same == batch => Some(lines),
            _ => None,
        }
    }

    fn hold(&mut self, target: EffectTarget, after: BatchNumber, batch: BatchNumber, released: Released) {
        self.places += 1;
        self.audience.add(target);
        let mut held = Held { after, place: self.places, batch, released };
        self.count += held.count();
        let mut last = Last { after, lines: None };
        if self.held.back().is_some_and(|last| last.after > after) {
            // Nothing is joined to these.
            held.trim();
            self.early.insert(held.order(), held);
        } else {
            last.lines = Some(self.left + self.held.len() as u64);
            self.held.push_back(held);
        }
        self.targets.insert(target, last);
    }

    /// The batch is handed over: facts up to this one go to the journal together.
    pub(crate) fn end_batch(&mut self, last_fact: u64) {
        self.batches.end(last_fact);
        // Hardly anything is joined to what came with it.
        let came = (self.places - self.places_before) as usize;
        self.held.iter_mut().rev().take(came).for_each(Held::trim);
        self.places_before = self.places;
        self.audience = Audience::Nobody;
    }

    /// These connections are gone: what is held for them is dropped, so that it takes no memory
    /// that nobody counts any more.
    pub(crate) fn forget(&mut self, gone: &mut Vec<ConnectionId>) {
        let flushed = self.batches.flushed();
        let is_held_for = |gone: &ConnectionId| {
            let last = self.targets.get(&EffectTarget::Connection(*gone));
            last.is_some_and(|last| last.after > flushed)
        };
        gone.retain(is_held_for);
        if gone.is_empty() {
            return;
        }
        gone.sort_unstable();
        for held in self.held.iter_mut().chain(self.early.values_mut()) {
            let before = held.count();
            held.forget(gone);
            self.count -= before - held.count();
        }
        gone.clear();
    }

    /// Whether several clients wait for the present batch.
    pub(crate) fn is_for_many(&self) -> bool {
        self.audience == Audience::Many
    }

    /// Facts up to this one are on disk: what may leave now comes out. For each target that is
    /// oldest first.
    pub(crate) fn release(&mut self, flushed: u64, into: &mut Vec<Released>) {
        self.batches.note_flushed(flushed);
        let flushed = self.batches.flushed();
        while let Some(held) = self.pop(flushed) {
            into.push(held.released);
        }
        if self.targets.len() > 2 * self.count + TARGETS_KEPT {
            self.targets.retain(|_, last| last.after > flushed);
        }
    }

    /// The next that leaves, if it waits for no later batch than this one.
    #[inline]
    fn pop(&mut self, up_to: BatchNumber) -> Option<Held> {
        let first = self.held.front().map(Held::order);
        let early = self.early.first_key_value().map(|(order, _)| *order);
        let held = match (first, early) {
            (first, Some(early)) if early.0 <= up_to && first.is_none_or(|first| early < first) => {
                self.early.pop_first().map(|(_, held)| held)
            }
            (Some(first), _) if first.0 <= up_to => {
                self.left += 1;
                self.held.pop_front()
            }
            _ => None,
        }?;
        self.count -= held.count();
        Some(held)
    }

    /// The journal failed: nothing waits for it any more.
    pub(crate) fn fail(&mut self) -> Failed {
        let (mut failed, flushed) = (Failed::default(), self.batches.flushed());
        while let Some(held) = self.pop(BatchNumber::MAX) {
            match held.released {
                released if held.batch <= flushed => failed.released.push(released),
                Released::Effect(effect) => failed.lost.push(effect),
                Released::Lines(lines) => failed.lost.extend(lines.effects()),
            }
        }
        self.targets.clear();
        self.batches.note_flushed(u64::MAX);
        failed
    }

    /// How many effects are held.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_kernel::{ActorRef, CloseReason};

    fn message(id: u64) -> Envelope {
        let line =
            format!(r#"{{"kind":"event","type":"A.B","data":1,"metadata":{{"id":"{id}","timestamp":1}}}}"#);
        Envelope::parse(line.as_bytes()).unwrap()
    }

    fn write(connection: u64, id: u64) -> Effect {
        Effect::Write { connection: ConnectionId(connection), message: message(id) }
    }

    fn deliver(capability: u32, id: u64) -> Effect {
        Effect::Deliver { actor: ActorRef::new(capability, 1), message: message(id) }
    }

    /// Offers it as the pump does; connections from 100 on are no clients.
    fn offer(hold: &mut Hold, effect: Effect, fact: u64) -> Option<Effect> {
        match effect {
            Effect::Write { connection, message } if connection.0 < 100 => {
                let refused = hold.offer_line(connection, message, fact, Vec::new);
                refused.map(|message| Effect::Write { connection, message })
            }
            effect => hold.offer(effect, fact),
        }
    }

    /// One by one.
    fn apart(released: Vec<Released>) -> Vec<Effect> {
        let apart = |released| match released {
            Released::Effect(effect) => vec![effect],
            Released::Lines(lines) => {
                let effects: Vec<Effect> = lines.effects().collect();
                assert_eq!(effects.len(), lines.count);
                effects
            }
        };
        released.into_iter().flat_map(apart).collect()
    }

    fn released(hold: &mut Hold, flushed: u64) -> Vec<Effect> {
        let mut into = Vec::new();
        hold.release(flushed, &mut into);
        apart(into)
    }

    #[test]
    fn j1_1_what_rests_on_a_fact_waits_for_it_and_nothing_else_does() {
        let mut hold = Hold::default();
        assert_eq!(offer(&mut hold, write(1, 1), 0), Some(write(1, 1)));
        assert_eq!(offer(&mut hold, deliver(1, 2), 5), None);
        assert_eq!(offer(&mut hold, write(1, 3), 0), Some(write(1, 3)));
        hold.end_batch(5);
        assert!(released(&mut hold, 4).is_empty());
        assert_eq!(released(&mut hold, 5), [deliver(1, 2)]);
        assert_eq!(hold.len(), 0);
        assert_eq!(offer(&mut hold, deliver(1, 4), 5), Some(deliver(1, 4)));
    }

    #[test]
    fn j1_5_a_query_never_overtakes_its_command_and_a_close_never_its_answer() {
        let mut hold = Hold::default();
        let close = Effect::Close { connection: ConnectionId(7), reason: CloseReason::Shutdown };
        let stop = Effect::Stop { actor: ActorRef::new(1, 1) };
        assert_eq!(offer(&mut hold, deliver(1, 1), 2), None);
        hold.end_batch(2);
        assert_eq!(offer(&mut hold, deliver(1, 2), 0), None, "it waits behind the command");
        assert_eq!(offer(&mut hold, stop.clone(), 0), None);
        assert_eq!(offer(&mut hold, write(7, 3), 3), None);
        assert_eq!(offer(&mut hold, close.clone(), 0), None);
        assert_eq!(offer(&mut hold, deliver(2, 4), 0), Some(deliver(2, 4)), "another capability");
        let now = Effect::Terminate { actor: ActorRef::new(1, 1) };
        assert_eq!(offer(&mut hold, now.clone(), 0), Some(now));
        hold.end_batch(3);
        assert_eq!(released(&mut hold, 2), [deliver(1, 1), deliver(1, 2), stop]);
        assert_eq!(released(&mut hold, 3), [write(7, 3), close]);
    }

    #[test]
    fn what_rests_on_a_later_fact_holds_up_what_follows_for_the_same_target_alone() {
        let mut hold = Hold::default();
        assert_eq!(offer(&mut hold, write(1, 1), 1), None);
        hold.end_batch(2);
        for (effect, fact) in [(write(1, 2), 9), (write(1, 3), 2), (write(2, 4), 2), (write(2, 5), 0)] {
            assert_eq!(offer(&mut hold, effect, fact), None);
        }
        hold.end_batch(9);
        assert_eq!(released(&mut hold, 2), [write(1, 1), write(2, 4), write(2, 5)]);
        assert_eq!(released(&mut hold, 9), [write(1, 2), write(1, 3)]);
    }

    #[test]
    fn short_messages_of_a_batch_for_one_client_are_joined_unless_something_stands_between_them() {
        let mut hold = Hold::default();
        let answer =
            r#"{"kind":"reply","type":"A.B","data":1,"metadata":{"id":"2","timestamp":1,"causation":"c"}}"#;
        let answer = Envelope::parse(answer.as_bytes()).unwrap();
        let answer = Effect::Write { connection: ConnectionId(1), message: answer };
        for effect in [write(1, 1), write(2, 1), answer, write(100, 1), write(100, 2), write(1, 3)] {
            assert_eq!(offer(&mut hold, effect, 1), None);
        }
        assert_eq!(hold.len(), 6);
        assert!(hold.is_for_many());
        let close = Effect::Close { connection: ConnectionId(2), reason: CloseReason::Shutdown };
        assert_eq!(offer(&mut hold, close.clone(), 0), None);
        assert_eq!(offer(&mut hold, write(2, 4), 1), None);
        hold.end_batch(1);
        assert!(!hold.is_for_many());
        assert_eq!(offer(&mut hold, write(1, 5), 2), None);
        assert_eq!(offer(&mut hold, write(1, 6), 2), None);
        assert!(!hold.is_for_many());
        hold.end_batch(2);
        let mut into = Vec::new();
        hold.release(2, &mut into);
        assert_eq!(hold.len(), 0);
        let told = |released: &Released| match released {
            Released::Effect(_) => (0, 0, false),
            Released::Lines(lines) => (lines.connection.0, lines.count, lines.are_events),
        };
        let expected = [
            (1, 3, false),
            (2, 1, true),
            (0, 0, false),
            (0, 0, false),
            (0, 0, false),
            (2, 1, true),
            (1, 2, true),
        ];
        assert_eq!(into.iter().map(told).collect::<Vec<_>>(), expected);
        assert_eq!(into[4], Released::Effect(close));
    }

    #[test]
    fn j3_1_after_a_failure_what_rested_on_lost_facts_is_told_apart_and_nothing_is_held() {
        let mut hold = Hold::default();
        assert_eq!(offer(&mut hold, write(3, 1), 3), None);
        hold.end_batch(3);
        assert_eq!(released(&mut hold, 3), [write(3, 1)]);
        for (effect, fact) in [(write(1, 1), 4), (write(1, 2), 0), (deliver(1, 3), 5), (deliver(1, 4), 2)] {
            assert_eq!(offer(&mut hold, effect, fact), None);
        }
        hold.end_batch(5);
        // Behind a later fact, and on an earlier one that is as lost.
        for (effect, fact) in [(write(2, 5), 6), (write(2, 6), 4), (write(2, 7), 3), (write(1, 8), 5)] {
            assert_eq!(offer(&mut hold, effect, fact), None);
        }
        let failed = hold.fail();
        let lost = [write(1, 1), deliver(1, 3), write(1, 8), write(2, 5), write(2, 6)];
        assert_eq!(failed.lost, lost);
        assert_eq!(apart(failed.released), [write(1, 2), deliver(1, 4), write(2, 7)]);
        assert_eq!(offer(&mut hold, write(1, 5), 99), Some(write(1, 5)));
        hold.end_batch(99);
        assert_eq!(hold.len(), 0);
    }

    /// A flush that hangs kept a quarter of a MiB for each short answer that came meanwhile.
    #[test]
    fn j1_7_a_short_line_that_is_held_kept_a_large_buffer() {
        let mut hold = Hold::default();
        let offer = |hold: &mut Hold, to, fact| {
            let large = || Vec::with_capacity(256 << 10);
            assert_eq!(hold.offer_line(ConnectionId(to), message(1), fact, large), None);
        };
        for fact in 1..=3 {
            offer(&mut hold, fact, fact);
            offer(&mut hold, 9, fact);
            if fact == 2 {
                // In the place before: nothing is joined to it.
                offer(&mut hold, 8, 1);
            }
            hold.end_batch(fact);
        }
        let mut into = Vec::new();
        hold.release(3, &mut into);
        let kept = |released: &Released| match released {
            Released::Lines(lines) => lines.bytes.capacity(),
            Released::Effect(_) => 0,
        };
        assert_eq!(into.len(), 7);
        let all: usize = into.iter().map(kept).sum();
        assert!(all < 7 * 1024, "{all}");
    }

    #[test]
    fn j1_7_what_was_held_for_a_client_that_is_gone_was_kept_and_counted_nowhere() {
        let mut hold = Hold::default();
        for (effect, fact) in [(write(1, 1), 1), (write(2, 2), 1), (write(101, 3), 1), (deliver(1, 4), 1)] {
            assert_eq!(offer(&mut hold, effect, fact), None);
        }
        hold.end_batch(1);
        for (effect, fact) in [(write(1, 5), 2), (write(2, 6), 2), (write(3, 7), 1), (write(101, 8), 0)] {
            assert_eq!(offer(&mut hold, effect, fact), None);
        }
        hold.end_batch(2);
        hold.forget(&mut [101, 1, 7, 3].map(ConnectionId).to_vec());
        assert_eq!(hold.len(), 3);
        let bytes = |held: &Held| match &held.released {
            Released::Lines(lines) => lines.bytes.capacity(),
            Released::Effect(effect) => usize::from(matches!(effect, Effect::Write { .. })),
        };
        assert_eq!(hold.held.iter().chain(hold.early.values()).filter(|held| bytes(held) > 0).count(), 2);
        assert_eq!(released(&mut hold, 1), [write(2, 2), deliver(1, 4)]);
        assert_eq!(released(&mut hold, 2), [write(2, 6)]);
        assert_eq!(hold.len(), 0);
        assert_eq!(offer(&mut hold, write(4, 9), 2), Some(write(4, 9)));
    }

    /// Against a plain list that is searched each time.
    #[test]
    fn the_hold_keeps_every_order_whatever_comes() {
        let mut seed = 7_u64;
        let mut random = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % bound
        };
        let (mut hold, mut left, mut fact) = (Hold::default(), Vec::new(), 0);
        let mut sent: Vec<(u64, u64, u64)> = Vec::new();
        let (mut flushed, mut ended) = (0, 0);
        for id in 0..20_000 {
            // Two of them are no clients.
            let target = random(5) + if random(2) == 0 { 98 } else { 0 };
            let on = match random(8) {
                0 | 1 => {
                    fact += 1;
                    fact
                }
                2 => fact - random(fact.min(5) + 1),
                _ => 0,
            };
            sent.push((target, id, on));
            left.extend(offer(&mut hold, write(target, id), on).map(|effect| (effect, flushed)));
            if random(4) == 0 {
                hold.end_batch(fact);
                ended = fact;
            }
            if random(3) == 0 {
                flushed += random(ended - flushed + 1);
                left.extend(released(&mut hold, flushed).into_iter().map(|effect| (effect, flushed)));
            }
        }
        hold.end_batch(fact);
        left.extend(released(&mut hold, fact).into_iter().map(|effect| (effect, fact)));
        assert_eq!((left.len(), hold.len()), (sent.len(), 0));
        for target in (0..5).chain(98..103) {
            let sent: Vec<(u64, u64)> =
                sent.iter().filter(|(to, ..)| *to == target).map(|(_, id, on)| (*id, *on)).collect();
            let left: Vec<(u64, u64)> = left
                .iter()
                .filter_map(|(effect, flushed)| match effect {
                    Effect::Write { connection, message } if connection.0 == target => {
                        Some((message.id().parse().unwrap(), *flushed))
                    }
                    _ => None,
                })
                .collect();
            assert!(sent.iter().map(|(id, _)| id).eq(left.iter().map(|(id, _)| id)));
            assert!(sent.iter().zip(&left).all(|((_, on), (_, flushed))| on <= flushed));
        }
    }
}
