//! The hold: what rests on a fact waits until that fact is on disk.
//!
//! For each target (a connection, a capability's actor) what is held leaves in the order in which
//! it came, and whatever comes for a target that something is held for waits behind that. Other
//! targets do not notice.

use foldhash::fast::FixedState;
use mainspring_kernel::{Effect, EffectTarget};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Targets that are remembered though nothing is held for them.
const TARGETS_KEPT: usize = 64;

#[derive(Debug)]
struct Held {
    /// It may leave when facts up to this one are on disk: the one that it rests on, or a later one
    /// that something before it for the same target rests on.
    after: u64,
    /// Counts what came, for the order among those that leave together.
    place: u64,
    /// The fact that it rests on itself; 0 if it only waits for its place.
    fact: u64,
    effect: Effect,
}

impl Held {
    fn order(&self) -> (u64, u64) {
        (self.after, self.place)
    }
}

/// What is held.
///
/// Nearly always what comes later rests on a later fact, so that `held` is in order by itself and a
/// release looks at nothing but what leaves.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// The last fact that is on disk.
    flushed: u64,
    /// How much was ever held.
    places: u64,
    /// In the order in which it leaves.
    held: VecDeque<Held>,
    /// What leaves before the last of `held`, though it came later.
    early: BTreeMap<(u64, u64), Held>,
    targets: Targets,
}

/// The fact that the last effect for each target waits for. Those at or before the last one on disk
/// mean nothing and are dropped when there are many.
#[derive(Debug, Default)]
struct Targets {
    /// The one that was noted last, which mostly is noted again; what `others` says of it is old.
    recent: Option<(EffectTarget, u64)>,
    others: HashMap<EffectTarget, u64, FixedState>,
    /// The highest of all.
    latest: u64,
}

impl Targets {
    #[inline]
    fn note(&mut self, target: EffectTarget, after: u64) {
        self.latest = self.latest.max(after);
        match self.recent.replace((target, after)) {
            Some((before, last)) if before != target => drop(self.others.insert(before, last)),
            _ => {}
        }
    }

    /// What the last effect for this target waits for; 0 if there is none.
    fn last(&self, target: EffectTarget) -> u64 {
        match self.recent {
            Some((recent, last)) if recent == target => last,
            _ => self.others.get(&target).copied().unwrap_or(0),
        }
    }
}

/// What came of it when the journal failed.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    /// What may leave: it only waited for its place.
    pub(crate) released: Vec<Effect>,
    /// What never may: the facts that it rests on may not be on disk.
    pub(crate) lost: Vec<Effect>,
}

impl Hold {
    /// Gives an effect back that may be carried out now, and keeps it otherwise. `fact` is the one
    /// that it rests on, 0 if none.
    #[inline]
    pub(crate) fn offer(&mut self, effect: Effect, fact: u64) -> Option<Effect> {
        if fact <= self.flushed && self.held.is_empty() && self.early.is_empty() {
            return Some(effect);
        }
        self.offer_among_others(effect, fact)
    }

    fn offer_among_others(&mut self, effect: Effect, fact: u64) -> Option<Effect> {
        let Some(target) = effect.target() else { return Some(effect) };
        // Nearly always no other waits for a later one.
        let is_latest = fact >= self.targets.latest;
        let after = if is_latest { fact } else { fact.max(self.targets.last(target)) };
        if after <= self.flushed {
            return Some(effect);
        }
        self.targets.note(target, after);
        self.places += 1;
        let held = Held { after, place: self.places, fact, effect };
        if self.held.back().is_some_and(|last| last.after > after) {
            self.early.insert(held.order(), held);
        } else {
            self.held.push_back(held);
        }
        None
    }

    /// Facts up to this one are on disk: what may leave now comes out. For each target that is
    /// oldest first.
    pub(crate) fn release(&mut self, flushed: u64, into: &mut Vec<Effect>) {
        self.flushed = self.flushed.max(flushed);
        if self.early.is_empty() {
            let leaving = self.held.iter().take_while(|held| held.after <= self.flushed).count();
            into.extend(self.held.drain(..leaving).map(|held| held.effect));
        } else {
            while let Some(held) = self.pop(self.flushed) {
                into.push(held.effect);
            }
        }
        if self.targets.others.len() > 2 * self.len() + TARGETS_KEPT {
            let flushed = self.flushed;
            self.targets.others.retain(|_, after| *after > flushed);
        }
    }

    /// The next that leaves, if it waits for no later fact than this one.
    fn pop(&mut self, up_to: u64) -> Option<Held> {
        let first = self.held.front().map(Held::order);
        let early = self.early.first_key_value().map(|(order, _)| *order);
        match (first, early) {
            (first, Some(early)) if early.0 <= up_to && first.is_none_or(|first| early < first) => {
                self.early.pop_first().map(|(_, held)| held)
            }
            (Some(first), _) if first.0 <= up_to => self.held.pop_front(),
            _ => None,
        }
    }

    /// The journal failed: nothing waits for it any more.
    pub(crate) fn fail(&mut self) -> Failed {
        let mut failed = Failed::default();
        while let Some(held) = self.pop(u64::MAX) {
            let list = if held.fact > self.flushed { &mut failed.lost } else { &mut failed.released };
            list.push(held.effect);
        }
        self.targets = Targets::default();
        self.flushed = u64::MAX;
        failed
    }

    /// How much is held.
    pub(crate) fn len(&self) -> usize {
        self.held.len() + self.early.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_kernel::{ActorRef, CloseReason, ConnectionId};
    use mainspring_message::Envelope;

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

    fn released(hold: &mut Hold, flushed: u64) -> Vec<Effect> {
        let mut into = Vec::new();
        hold.release(flushed, &mut into);
        into
    }

    #[test]
    fn j1_1_what_rests_on_a_fact_waits_for_it_and_nothing_else_does() {
        let mut hold = Hold::default();
        assert_eq!(hold.offer(write(1, 1), 0), Some(write(1, 1)));
        assert_eq!(hold.offer(deliver(1, 2), 5), None);
        assert_eq!(hold.offer(write(1, 3), 0), Some(write(1, 3)));
        assert!(released(&mut hold, 4).is_empty());
        assert_eq!(released(&mut hold, 5), [deliver(1, 2)]);
        assert_eq!(hold.len(), 0);
        assert_eq!(hold.offer(deliver(1, 4), 5), Some(deliver(1, 4)));
    }

    #[test]
    fn j1_5_a_query_never_overtakes_its_command_and_a_close_never_its_answer() {
        let mut hold = Hold::default();
        let close = Effect::Close { connection: ConnectionId(7), reason: CloseReason::Shutdown };
        let stop = Effect::Stop { actor: ActorRef::new(1, 1) };
        assert_eq!(hold.offer(deliver(1, 1), 2), None);
        assert_eq!(hold.offer(deliver(1, 2), 0), None, "it waits behind the command");
        assert_eq!(hold.offer(stop.clone(), 0), None);
        assert_eq!(hold.offer(write(7, 3), 3), None);
        assert_eq!(hold.offer(close.clone(), 0), None);
        assert_eq!(hold.offer(deliver(2, 4), 0), Some(deliver(2, 4)), "another capability");
        let now = Effect::Terminate { actor: ActorRef::new(1, 1) };
        assert_eq!(hold.offer(now.clone(), 0), Some(now));
        assert_eq!(released(&mut hold, 2), [deliver(1, 1), deliver(1, 2), stop]);
        assert_eq!(released(&mut hold, 3), [write(7, 3), close]);
    }

    #[test]
    fn what_rests_on_a_later_fact_holds_up_what_follows_for_the_same_target_alone() {
        let mut hold = Hold::default();
        for (effect, fact) in [(write(1, 1), 1), (write(1, 2), 9), (write(1, 3), 2), (write(2, 4), 2)] {
            assert_eq!(hold.offer(effect, fact), None);
        }
        assert_eq!(released(&mut hold, 2), [write(1, 1), write(2, 4)]);
        assert_eq!(released(&mut hold, 9), [write(1, 2), write(1, 3)]);
    }

    #[test]
    fn j3_1_after_a_failure_what_rested_on_lost_facts_is_told_apart_and_nothing_is_held() {
        let mut hold = Hold::default();
        assert!(released(&mut hold, 3).is_empty());
        for (effect, fact) in [(write(1, 1), 4), (write(1, 2), 0), (deliver(1, 3), 5), (deliver(1, 4), 2)] {
            assert_eq!(hold.offer(effect, fact), None);
        }
        let failed = hold.fail();
        assert_eq!(failed.lost, [write(1, 1), deliver(1, 3)]);
        assert_eq!(failed.released, [write(1, 2), deliver(1, 4)]);
        assert_eq!(hold.offer(write(1, 5), 99), Some(write(1, 5)));
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
        for id in 0..20_000 {
            let (target, rests) = (random(5), random(4) == 0);
            fact += u64::from(rests);
            let on = if rests { fact } else { 0 };
            sent.push((target, id, on));
            left.extend(hold.offer(write(target, id), on).map(|effect| (effect, hold.flushed)));
            if random(3) == 0 {
                let flushed = hold.flushed + random(fact - hold.flushed.min(fact) + 1);
                let mut into = Vec::new();
                hold.release(flushed, &mut into);
                left.extend(into.into_iter().map(|effect| (effect, flushed)));
            }
        }
        let mut into = Vec::new();
        hold.release(fact, &mut into);
        left.extend(into.into_iter().map(|effect| (effect, fact)));
        assert_eq!(left.len(), sent.len());
        for target in 0..5 {
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
