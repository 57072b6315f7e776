//! Facts come back as they were, nothing else does, and a snapshot stands for what it was made of.

use super::{
    Durable, DurableBounds, FACT_KINDS, Fate, KeptAnswer, Pending, fate_of, fingerprint, time_left_ms,
};
use crate::api::fact::{Answer, ComposedAnswer, Ending, Fact, PeerName};
use crate::api::manifest::Redeliver;
use crate::api::rights::Rights;
use mainspring_message::{Envelope, Text};
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Text> {
    prop_oneof!["[a-c]", "[\\PC]{0,40}"].prop_map(Text::from)
}

fn peer() -> impl Strategy<Value = PeerName> {
    let name = "[ab]".prop_map(Text::from);
    (any::<bool>(), name).prop_map(|(client, name)| match client {
        true => PeerName::Client(name),
        false => PeerName::Capability(name),
    })
}

fn message() -> impl Strategy<Value = Text> {
    ("[a-d]", 0..9999u64, "[x\\\\\"é]{0,40}").prop_map(|(id, timestamp, data)| {
        let data = serde_json::to_string(&data).unwrap();
        let line = format!(
            r#"{{"kind":"command","type":"Test.Do","data":{data},"metadata":{{"id":"{id}","timestamp":{timestamp}}}}}"#
        );
        Text::from(line.as_str())
    })
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        (1..9u64).prop_map(Ending::Accepted),
        (peer(), text(), any::<u64>()).prop_map(|(peer, id, fingerprint)| Ending::Whole {
            peer,
            id,
            fingerprint
        }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let composed =
        (any::<bool>(), text(), text(), text(), clock(), prop::array::uniform3(proptest::option::of(text())));
    prop_oneof![
        message().prop_map(Answer::Line),
        composed.prop_map(|(is_error, type_name, data, id, timestamp_ms, others)| {
            let [causation, correlation, traceparent] = others;
            Answer::Composed(ComposedAnswer {
                is_error,
                type_name,
                data,
                id,
                timestamp_ms,
                causation,
                correlation,
                traceparent,
            })
        }),
    ]
}

fn rights() -> impl Strategy<Value = Option<Rights>> {
    let allow = proptest::option::of(prop::collection::vec("[A-C]\\.(\\*|[a-c])", 0..4));
    let rights = (allow, any::<bool>()).prop_map(|(allow, operator)| {
        let rights = Rights::default().as_operator(operator);
        match allow {
            Some(allow) => rights.limited_to(allow),
            None => rights,
        }
    });
    proptest::option::of(rights)
}

/// The wall clock, which is set back and forth.
fn clock() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..99u64, 4 => 0..200_000u64, 1 => any::<u64>()]
}

/// Facts about few things, so that they meet.
fn fact() -> impl Strategy<Value = Fact> {
    let number = || prop_oneof![1..9u64, any::<u64>()];
    let time = || prop_oneof![0..99u64, 0..300_000u64, any::<u64>()];
    let maybe = || proptest::option::of(prop_oneof![0..9u64, any::<u64>()]);
    let flow = prop_oneof![
        (text(), time()).prop_map(|(build, unix_ms)| Fact::Started { build, unix_ms }),
        time().prop_map(|unix_ms| Fact::Stopped { unix_ms }),
        (number(), peer(), proptest::option::of(text()), time(), 0..99u64, message()).prop_map(
            |(request, peer, timer_id, deadline_ms, unix_ms, message)| Fact::Accepted {
                request,
                peer,
                timer_id,
                deadline_ms,
                unix_ms,
                message
            }
        ),
        (number(), 1..u32::MAX, 0..99u64).prop_map(|(request, attempt, unix_ms)| Fact::Delivered {
            request,
            attempt,
            unix_ms
        }),
        (ending(), clock(), time(), proptest::option::of(answer()))
            .prop_map(|(which, unix_ms, until_ms, answer)| Fact::Ended { which, unix_ms, until_ms, answer }),
    ];
    let later = prop_oneof![
        (peer(), text(), time(), maybe(), maybe(), number(), number(), rights(), message()).prop_map(
            |(peer, timer_id, due_ms, repeat_ms, left, fired, bytes, rights, message)| Fact::Scheduled {
                peer,
                timer_id,
                due_ms,
                repeat_ms,
                left,
                fired,
                bytes,
                rights,
                message
            }
        ),
        (peer(), text(), number(), maybe(), maybe()).prop_map(|(peer, timer_id, fired, left, next_ms)| {
            Fact::Fired { peer, timer_id, fired, left, next_ms }
        }),
        (peer(), text()).prop_map(|(peer, timer_id)| Fact::Cancelled { peer, timer_id }),
    ];
    let letters = prop_oneof![
        (number(), peer(), any::<u32>(), clock(), text(), message()).prop_map(
            |(letter, owner, attempts, unix_ms, reason, message)| Fact::DeadLettered {
                letter,
                owner,
                attempts,
                unix_ms,
                reason,
                message
            }
        ),
        number().prop_map(|letter| Fact::Requeued { letter }),
        (number(), number()).prop_map(|(first, last)| Fact::Dropped { first, last }),
    ];
    let rest = prop_oneof![
        (number(), clock(), message()).prop_map(|(event, unix_ms, message)| Fact::Emitted {
            event,
            unix_ms,
            message
        }),
        (peer(), text(), number()).prop_map(|(peer, name, event)| Fact::CursorMoved { peer, name, event }),
        (peer(), text()).prop_map(|(peer, name)| Fact::CursorForgotten { peer, name }),
        (text(), text(), text()).prop_map(|(store, key, value)| Fact::Put { store, key, value }),
        (text(), text()).prop_map(|(store, key)| Fact::Deleted { store, key }),
        (number(), number(), number(), number(), clock()).prop_map(
            |(request, letter, event, starts, unix_ms)| Fact::Numbered {
                request,
                letter,
                event,
                starts,
                unix_ms
            }
        ),
    ];
    prop_oneof![3 => flow, 1 => later, 1 => letters, 1 => rest]
}

fn written(fact: &Fact) -> Vec<u8> {
    let mut bytes = Vec::new();
    fact.write(&mut bytes);
    bytes
}

fn applied(durable: &mut Durable, fact: &Fact) {
    durable.apply_record(fact.kind(), fact.version(), &written(fact)).unwrap();
}

/// Few enough that bounds are met.
const BOUNDS: DurableBounds =
    DurableBounds { answers_max: 3, answer_bytes_max: 400, events_max: 3, event_bytes_max: 400 };

fn snapshot_of(durable: &Durable) -> Durable {
    let mut copy = Durable::new(BOUNDS);
    for fact in durable.facts() {
        let mut bytes = Vec::new();
        fact.write(&mut bytes);
        copy.apply_record(fact.kind(), fact.version(), &bytes).unwrap();
    }
    copy
}

proptest! {
    #[test]
    fn j2_6_a_fact_comes_back_as_it_was_and_says_the_same_again(fact in fact()) {
        let bytes = written(&fact);
        let read = Fact::read(fact.kind(), fact.version(), &bytes).unwrap();
        let mut again = Vec::new();
        read.write(&mut again);
        prop_assert_eq!(&again, &bytes);
        prop_assert_eq!(read.name(), fact.name());
    }

    #[test]
    fn no_shorter_and_no_longer_record_is_taken_for_a_fact(fact in fact(), cut in any::<prop::sample::Index>()) {
        let bytes = written(&fact);
        let shorter = &bytes[..cut.index(bytes.len())];
        prop_assert!(Fact::read(fact.kind(), fact.version(), shorter).is_err());
        let mut longer = bytes.clone();
        longer.push(0);
        prop_assert!(Fact::read(fact.kind(), fact.version(), &longer).is_err());
        for wrong in [shorter, &longer] {
            prop_assert!(Durable::new(BOUNDS).apply_record(fact.kind(), fact.version(), wrong).is_err());
        }
    }

    #[test]
    fn a_record_is_applied_as_the_fact_that_is_read_from_it(
        facts in prop::collection::vec(fact(), 1..30), at in any::<prop::sample::Index>(), bits in any::<u8>()
    ) {
        let (mut by_record, mut by_fact) = (Durable::new(BOUNDS), Durable::new(BOUNDS));
        for fact in &facts {
            let mut bytes = written(fact);
            for bits in [0, bits] {
                let place = at.index(bytes.len());
                bytes[place] ^= bits;
                let applied = by_record.apply_record(fact.kind(), fact.version(), &bytes);
                let read = Fact::read(fact.kind(), fact.version(), &bytes).map(|fact| by_fact.apply(fact));
                prop_assert_eq!(applied, read);
                prop_assert_eq!(&by_record, &by_fact);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_fact_or_an_error_with_words(kind in any::<u8>(), version in 0..3u8, bytes: Vec<u8>) {
        match Fact::read(kind, version, &bytes) {
            Ok(fact) => {
                let mut again = Vec::new();
                fact.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
            Err(error) => prop_assert!(error.to_string().starts_with("a fact")),
        }
    }

    #[test]
    fn j2_4_a_snapshot_and_the_rest_come_to_the_same_as_all_facts(
        facts in prop::collection::vec(fact(), 0..60), cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..3)
    ) {
        let mut all = Durable::new(BOUNDS);
        facts.iter().for_each(|fact| applied(&mut all, fact));
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(facts.len() + 1)).collect();
        let mut in_parts = Durable::new(BOUNDS);
        for (at, fact) in facts.iter().enumerate() {
            if cuts.contains(&at) {
                in_parts = snapshot_of(&in_parts);
            }
            applied(&mut in_parts, fact);
        }
        prop_assert_eq!(&all, &in_parts);
        prop_assert_eq!(&snapshot_of(&all), &all);
        prop_assert!(all.remembered.len() <= BOUNDS.answers_max && all.events.len() <= BOUNDS.events_max);
        let answers = all.remembered.iter().filter_map(|(_, command)| command.answer.as_ref());
        prop_assert!(answers.map(KeptAnswer::bytes).sum::<usize>() <= BOUNDS.answer_bytes_max);
    }
}

#[test]
fn j2_6_a_fact_of_a_newer_build_is_refused_by_name() {
    let error = Fact::read(200, 1, &[]).unwrap_err().to_string();
    assert!(error.contains("kind 200") && error.contains("newer"), "{error}");
    let error = Fact::read(6, 3, &[]).unwrap_err().to_string();
    assert!(error.contains("\"scheduled\" of version 3") && error.contains("up to 2"), "{error}");
    let error = Fact::read(3, 2, &[]).unwrap_err().to_string();
    assert!(error.contains("\"accepted\" of version 2") && error.contains("up to 1"), "{error}");
}

#[test]
fn every_kind_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<&str> = FACT_KINDS.into_iter().collect();
    assert_eq!(names.len(), FACT_KINDS.len());
}

#[test]
fn an_ended_command_is_remembered_under_its_id_until_its_time_is_over() {
    let line = r#"{"kind":"command","type":"A.B","data":1,"metadata":{"id":"c-1","timestamp":1}}"#;
    let answer =
        r#"{"kind":"reply","type":"A.B","data":2,"metadata":{"id":"r","timestamp":1,"causation":"c-1"}}"#;
    let peer = PeerName::Client("alice");
    let mut durable = Durable::default();
    durable.apply(Fact::Accepted {
        request: 7,
        peer,
        timer_id: None,
        deadline_ms: 50,
        unix_ms: 10,
        message: line,
    });
    durable.apply(Fact::Delivered { request: 7, attempt: 1, unix_ms: 11 });
    assert_eq!(durable.pending[&7].attempts, 1);
    durable.apply(Fact::Ended {
        which: Ending::Accepted(7),
        unix_ms: 12,
        until_ms: 100,
        answer: Some(Answer::Line(answer)),
    });
    assert!(durable.pending.is_empty());
    let (whose, remembered) = durable.remembered.iter().next().unwrap();
    assert_eq!(
        (&*remembered.id, remembered.answer(), whose.as_ref()),
        ("c-1", Some(Answer::Line(answer)), peer)
    );
    assert_eq!(remembered.fingerprint, fingerprint(&Envelope::parse(line.as_bytes()).unwrap()));
    durable.apply(Fact::Stopped { unix_ms: 99 });
    assert_eq!(durable.remembered.len(), 1);
    durable.apply(Fact::Started { build: "b", unix_ms: 100 });
    assert_eq!(durable.remembered.len(), 0);
    assert_eq!(durable.last_request, 7);
}

/// The end of a command of this peer that is told whole, with an answer of so many bytes.
fn ended<'a>(peer: &'a str, id: u64, answer: Option<&'a str>) -> Fact<&'a str> {
    let (peer, id) = (PeerName::Client(peer), &*id.to_string().leak());
    let which = Ending::Whole { peer, id, fingerprint: 1 };
    Fact::Ended { which, unix_ms: 1, until_ms: 1_000_000, answer: answer.map(Answer::Line) }
}

fn ids_of(durable: &Durable, peer: &str) -> Vec<u64> {
    let name = PeerName::Client(peer.into());
    let own = durable.remembered.iter().filter(|(whose, _)| **whose == name);
    own.map(|(_, command)| command.id.parse().unwrap()).collect()
}

#[test]
fn j4_4_whoever_has_most_commands_in_the_journal_is_forgotten_first() {
    let mut durable = Durable::new(DurableBounds { answers_max: 160, ..DurableBounds::default() });
    for id in 0..10 {
        durable.apply(ended("bob", id, Some("1")));
    }
    for id in 0..1000 {
        durable.apply(ended("eve", id, Some("1")));
        if id < 20 {
            durable.apply(ended("carol", id, Some("1")));
        }
    }
    assert_eq!((ids_of(&durable, "bob").len(), ids_of(&durable, "carol").len()), (10, 20));
    let eves = ids_of(&durable, "eve");
    assert!((120..=130).contains(&eves.len()) && eves[0] == 1000 - eves.len() as u64, "{eves:?}");
}

#[test]
fn j4_4_an_old_command_of_a_quiet_peer_does_not_keep_the_places_of_those_behind_it() {
    let mut durable = Durable::new(DurableBounds { answers_max: 64, ..DurableBounds::default() });
    durable.apply(ended("quiet", 0, Some("1")));
    for id in 1..10_000 {
        durable.apply(ended("busy", id, Some("1")));
        assert!(durable.remembered.places() <= 2 * 64 + 1, "{} places", durable.remembered.places());
    }
    assert_eq!(ids_of(&durable, "quiet"), [0]);
    assert_eq!(ids_of(&durable, "busy").last(), Some(&9999));
}

#[test]
fn j4_4_more_peers_than_commands_can_be_remembered_cost_the_oldest_alone() {
    let mut durable = Durable::new(DurableBounds { answers_max: 160, ..DurableBounds::default() });
    for id in 0..500 {
        durable.apply(ended(&format!("peer-{id}"), id, Some("1")));
        assert!(durable.remembered.len() > 149 || id < 150, "{id}: {}", durable.remembered.len());
    }
    let left: Vec<u64> = durable.remembered.iter().map(|(_, command)| command.id.parse().unwrap()).collect();
    assert_eq!(left, ((500 - left.len() as u64)..500).collect::<Vec<_>>());
}

#[test]
fn j4_4_at_the_bound_of_bytes_the_oldest_answers_of_whoever_has_most_go_and_their_commands_stay() {
    let bounds = DurableBounds { answer_bytes_max: 16_000, ..DurableBounds::default() };
    let (mut durable, large) = (Durable::new(bounds), "x".repeat(1000));
    durable.apply(ended("bob", 1, Some(&large)));
    for id in 0..100 {
        durable.apply(ended("eve", id, Some(&large)));
    }
    assert_eq!(durable.remembered.len(), 101);
    let answered = |peer: &str| {
        let name = PeerName::Client(peer.into());
        let own = durable.remembered.iter().filter(|(whose, _)| **whose == name);
        own.map(|(_, command)| command.answer.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(answered("bob"), [true]);
    let eves = answered("eve");
    let kept = eves.iter().filter(|is_kept| **is_kept).count();
    assert!((13..=15).contains(&kept) && eves[100 - kept..].iter().all(|is_kept| *is_kept), "{eves:?}");
}

#[test]
fn what_is_asked_makes_the_fingerprint_and_how_it_is_addressed_does_not() {
    let message = |kind: &str, type_name: &str, data: &str, id: &str| {
        let line = format!(
            r#"{{"kind":"{kind}","type":"{type_name}","data":{data},"metadata":{{"id":"{id}","timestamp":1}}}}"#
        );
        fingerprint(&Envelope::parse(line.as_bytes()).unwrap())
    };
    let one = message("command", "A.B", "\"12345678x\"", "1");
    assert_eq!(one, message("command", "A.B", "\"12345678x\"", "2"));
    for other in [
        message("query", "A.B", "\"12345678x\"", "1"),
        message("command", "A.C", "\"12345678x\"", "1"),
        message("command", "A.B", "\"12345678y\"", "1"),
        message("command", "A.B", "\"12345678x \"", "1"),
    ] {
        assert_ne!(one, other);
    }
    // It stands on disk, so it never changes.
    assert_eq!(message("command", "A.B", "{}", "1"), 0x7c29_1afc_b8e0_a61c);
}

fn pending(attempts: u32) -> Pending {
    Pending {
        peer: PeerName::Client("alice".into()),
        timer_id: None,
        accepted_ms: 1000,
        deadline_ms: 31_000,
        attempts,
        delivered_ms: 0,
        line: "".into(),
    }
}

#[test]
fn j4_2_the_fate_of_an_unfinished_command_is_as_its_manifest_says() {
    use Redeliver::{Always, IfNotStarted, Never};
    let fate = |attempts, redeliver, now_ms| fate_of(&pending(attempts), redeliver, 1, now_ms);
    assert_eq!(fate(0, IfNotStarted, 2000), Fate::Deliver);
    assert_eq!(fate(0, Always, 2000), Fate::Deliver);
    assert_eq!(fate(0, Never, 2000), Fate::Discarded);
    assert_eq!(fate(1, IfNotStarted, 2000), Fate::Interrupted);
    assert_eq!(fate(1, Never, 2000), Fate::Interrupted);
    assert_eq!(fate(1, Always, 2000), Fate::DeliverAgain);
    // What an actor had when the daemon ended was interrupted, whatever the time is now.
    assert_eq!(fate(1, IfNotStarted, 99_000), Fate::Interrupted);
}

#[test]
fn j4_3_a_command_that_kills_the_daemon_is_given_up_after_its_attempts() {
    let fate = |delivered, attempts| fate_of(&pending(delivered), Redeliver::Always, attempts, 2000);
    assert_eq!((fate(2, 1), fate(3, 1)), (Fate::DeliverAgain, Fate::GivenUp));
    assert_eq!((fate(4, 5), fate(5, 5)), (Fate::DeliverAgain, Fate::GivenUp));
}

#[test]
fn j5_2_a_deadline_counts_the_time_without_a_daemon_and_never_grows() {
    assert_eq!(fate_of(&pending(0), Redeliver::IfNotStarted, 1, 31_000), Fate::Overdue);
    assert_eq!(fate_of(&pending(1), Redeliver::Always, 5, 31_000), Fate::Overdue);
    assert_eq!(time_left_ms(&pending(0), 21_000), 10_000);
    assert_eq!(time_left_ms(&pending(0), 0), 30_000, "the wall clock was set back");
}
