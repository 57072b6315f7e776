//! Which trace a message belongs to, and which span asked for it.
//!
//! A `traceparent` says so. Without one, a trace is a workflow (`correlation`), or whatever the
//! first cause led to: its id is made of that name, so that children that end before their parents
//! have it too. What has ended is remembered for a while, because events and outcomes cause more.

use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};

/// Messages that are remembered. Beyond: the oldest is forgotten, and what it causes later begins a
/// trace of its own.
const REMEMBERED_MAX: usize = 32_768;

pub(super) type TraceId = [u8; 16];
pub(super) type SpanId = [u8; 8];

/// A span of another system, as W3C writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceParent {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) is_sampled: bool,
}

impl TraceParent {
    /// Reads `00-{32 digits}-{16 digits}-{2 digits}`, of this version or a later one.
    pub(super) fn read(text: &str) -> Option<TraceParent> {
        let mut parts = text.split('-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let (trace, span): (TraceId, SpanId) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let flags: [u8; 1] = hex(parts.next()?)?;
        let is_whole = if version[0] == 0 { parts.next().is_none() } else { version[0] != 0xff };
        let is_valid = is_whole && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(TraceParent { trace, span, is_sampled: flags[0] & 1 == 1 })
    }
}

/// Bytes of lower-case hexadecimal digits, exactly so many.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The first bytes of the hash of a name, for one purpose.
pub(super) fn named<const N: usize>(purpose: &str, name: &str) -> [u8; N] {
    let mut hash = Sha256::new();
    hash.update(purpose.as_bytes());
    hash.update([0]);
    hash.update(name.as_bytes());
    let mut bytes = [0; N];
    bytes.copy_from_slice(&hash.finalize()[..N]);
    bytes
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineagePlace {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) is_sampled: bool,
}

/// What a record says of the place of its message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clues<'a> {
    pub(super) id: &'a str,
    pub(super) causation: Option<&'a str>,
    pub(super) correlation: Option<&'a str>,
    /// The first cause, if it is unfinished.
    pub(super) root: Option<&'a str>,
    pub(super) traceparent: Option<TraceParent>,
    /// Whether that span was made by whoever sent the message, not inherited from its cause.
    pub(super) is_own_span: bool,
    pub(super) outcome_id: Option<&'a str>,
}

/// What is remembered of messages.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_name: HashMap<[u8; 16], LineagePlace>,
    order: VecDeque<[u8; 16]>,
}

impl Places {
    /// Finds the place of a message, and remembers it.
    pub(super) fn find(&mut self, clues: &Clues<'_>) -> LineagePlace {
        let cause = clues.causation.and_then(|id| self.by_name.get(&key(id)).copied());
        let root = clues.root.and_then(|id| self.by_name.get(&key(id)).copied());
        let trace = match (clues.traceparent, clues.correlation) {
            (Some(parent), _) => parent.trace,
            (None, Some(correlation)) => named("workflow", correlation),
            (None, None) => {
                let above = root.or(cause).map(|place| place.trace);
                let first = clues.root.or(clues.causation).unwrap_or(clues.id);
                above.unwrap_or_else(|| named("first cause", first))
            }
        };
        let by_cause = || cause.map_or_else(|| clues.causation.map(span_of), |cause| Some(cause.span));
        let parent = match clues.traceparent {
            Some(parent) if clues.is_own_span => Some(parent.span),
            Some(parent) => by_cause().or(Some(parent.span)),
            None => by_cause(),
        };
        let is_sampled = clues.traceparent.is_none_or(|parent| parent.is_sampled);
        let place = LineagePlace { trace, span: span_of(clues.id), parent, is_sampled };
        self.remember(clues.id, place);
        if let Some(outcome_id) = clues.outcome_id {
            self.remember(outcome_id, place);
        }
        place
    }

    fn remember(&mut self, id: &str, place: LineagePlace) {
        let name = key(id);
        if self.by_name.insert(name, place).is_none() {
            self.order.push_back(name);
        }
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_name.remove(&oldest);
        }
    }
}

fn key(id: &str) -> [u8; 16] {
    named("id", id)
}

/// The span of a message, whether or not it has ended.
pub(super) fn span_of(id: &str) -> SpanId {
    named("span", id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_as_w3c_writes_it_and_nothing_else_is() {
        let read = TraceParent::read(TEXT).unwrap();
        assert_eq!((read.trace[0], read.span[7], read.is_sampled), (0x0a, 0x31, true));
        assert!(!TraceParent::read(&TEXT.replace("-01", "-00")).unwrap().is_sampled);
        assert!(
            TraceParent::read(&(TEXT.replace("00-0af", "cc-0af") + "-more")).is_some(),
            "a later version"
        );
        for wrong in [
            "",
            "00",
            "00-ab",
            &TEXT.replace('a', "A"),
            &format!("{TEXT}-x"),
            &TEXT.replace("00-0", "ff-0"),
            &TEXT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &TEXT.replace("b7ad6b7169203331", &"0".repeat(16)),
            &TEXT.replace("-01", "-1"),
        ] {
            assert_eq!(TraceParent::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn children_that_end_before_their_parents_share_their_trace() {
        let mut places = Places::default();
        let grandchild =
            places.find(&Clues { id: "c", causation: Some("b"), root: Some("a"), ..Clues::default() });
        let child =
            places.find(&Clues { id: "b", causation: Some("a"), root: Some("a"), ..Clues::default() });
        let first = places.find(&Clues { id: "a", outcome_id: Some("r"), ..Clues::default() });
        assert!(first.trace == child.trace && child.trace == grandchild.trace);
        assert_eq!(
            (grandchild.parent, child.parent, first.parent),
            (Some(child.span), Some(first.span), None)
        );
        let later = places.find(&Clues { id: "e", causation: Some("r"), ..Clues::default() });
        assert_eq!((later.trace, later.parent), (first.trace, Some(first.span)), "an outcome is its request");
    }

    #[test]
    fn a_span_of_another_system_is_the_parent_of_what_it_asked_for() {
        let mut places = Places::default();
        let traceparent = TraceParent::read(TEXT);
        let asked = places.find(&Clues { id: "a", traceparent, ..Clues::default() });
        assert_eq!(asked.parent, traceparent.map(|parent| parent.span));
        let caused = Clues { id: "b", causation: Some("a"), traceparent, ..Clues::default() };
        assert_eq!(places.find(&caused).parent, Some(asked.span), "inherited, so the cause is the parent");
        let own = Clues { is_own_span: true, ..caused };
        assert_eq!(places.find(&own).parent, asked.parent, "made by the capability itself");
    }

    #[test]
    fn no_more_is_remembered_than_the_bound() {
        let mut places = Places::default();
        for number in 0..REMEMBERED_MAX + 10 {
            places.find(&Clues { id: &number.to_string(), ..Clues::default() });
        }
        assert_eq!((places.by_name.len(), places.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
