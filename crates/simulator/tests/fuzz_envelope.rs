//! Fuzzing the envelope: generated and damaged lines, from fixed seeds, for a few seconds.

use mainspring_message::{Draft, Envelope, Json, Kind, LINE_BYTES_CEILING};
use mainspring_simulator::Random;
use serde_json::Value;

const LINES: u64 = 60_000;

/// Pieces from which lines are put together.
const PIECES: [&str; 34] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\"kind\"",
    "\"type\"",
    "\"data\"",
    "\"metadata\"",
    "\"id\"",
    "\"timestamp\"",
    "\"causation\"",
    "\"correlation\"",
    "\"timeout\"",
    "\"command\"",
    "\"reply\"",
    "\"error\"",
    "\"A.B\"",
    "\"a\"",
    "null",
    "true",
    "1",
    "-1",
    "1e400",
    "0.5",
    "9007199254740993",
    " ",
    "\n",
    "\u{7f}é\u{1f600}",
];

fn name(random: &mut Random) -> String {
    let letters = ['a', 'Z', '.', '"', '\\', '\n', '\u{1}', 'é', '\u{1f600}', ' '];
    (0..1 + random.below(12)).map(|_| random.pick(&letters)).collect()
}

fn value(random: &mut Random, depth: u32) -> Value {
    match random.below(if depth > 3 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => random.percent(50).into(),
        2 => random.word().into(),
        3 => (random.below(1 << 50) as f64 / 1024.0).into(),
        4 => name(random).into(),
        5 => (0..random.below(4)).map(|_| value(random, depth + 1)).collect(),
        _ => (0..random.below(4)).map(|_| (name(random), value(random, depth + 1))).collect(),
    }
}

/// A valid message, and the same message by way of a draft.
fn draft(random: &mut Random) -> Draft {
    let mut draft = Draft::new(random.pick(&Kind::ALL), "Some.Type", Json::from(value(random, 0)));
    draft.id = Some(name(random).into());
    if draft.kind.is_outcome() || random.percent(50) {
        draft.causation = Some(name(random).into());
    }
    if random.percent(50) {
        draft.correlation = Some(name(random).into());
    }
    draft.timeout_ms = random.percent(30).then(|| 1 + random.below(1 << 52));
    draft
}

fn damaged(random: &mut Random, mut line: Vec<u8>) -> Vec<u8> {
    for _ in 0..1 + random.below(4) {
        if line.is_empty() {
            break;
        }
        let at = random.below(line.len() as u64) as usize;
        match random.below(5) {
            0 => line[at] = random.byte(),
            1 => line.truncate(at),
            2 => drop(line.drain(at..(at + 1 + random.below(8) as usize).min(line.len()))),
            3 => {
                let piece = random.pick(&PIECES);
                drop(line.splice(at..at, piece.bytes()));
            }
            _ => line[at] ^= 1 << random.below(8),
        }
    }
    line
}

/// What must hold of any line: no panic, and whatever is accepted is what serde_json reads, in the
/// same words.
fn check(line: &[u8]) -> bool {
    assert!(line.len() < LINE_BYTES_CEILING);
    let envelope = match Envelope::parse(line) {
        Ok(envelope) => envelope,
        Err(rejection) => {
            assert!(!rejection.reason.is_empty());
            assert!((400..600).contains(&rejection.failure.code()));
            return false;
        }
    };
    assert!(!envelope.line().contains('\n'), "a line break survives in {envelope:?}");
    let again = Envelope::parse(envelope.line().as_bytes()).expect("what was accepted is accepted again");
    assert_eq!(again.id(), envelope.id());
    // Lone surrogates and numbers beyond a double are legal in text that is passed through, but not
    // as values.
    if let Ok(read) = serde_json::from_slice::<Value>(line) {
        assert_eq!(read["kind"], envelope.kind().as_str());
        assert_eq!(read["type"], envelope.type_name());
        assert_eq!(read["metadata"]["id"], envelope.id());
        assert_eq!(read["metadata"]["timestamp"], envelope.timestamp_ms());
        assert_eq!(read["metadata"].get("causation").and_then(Value::as_str), envelope.causation());
        assert_eq!(read["metadata"].get("correlation").and_then(Value::as_str), envelope.correlation());
        assert_eq!(read["data"], serde_json::from_str::<Value>(envelope.data()).expect("data is JSON"));
        assert_eq!(
            read["metadata"],
            serde_json::from_str::<Value>(envelope.metadata()).expect("metadata is JSON")
        );
    }
    true
}

#[test]
fn what_is_written_is_read_back_the_same() {
    let mut random = Random::new(1);
    for _ in 0..LINES / 4 {
        let draft = draft(&mut random);
        assert_eq!(draft.check(), Ok(()));
        let written = draft.compose("unused", random.below(1 << 52), &mut String::new());
        assert!(check(written.line().as_bytes()));
        let read = Envelope::parse(written.line().as_bytes()).expect("a composed line is a message");
        assert_eq!(read, written);
        assert_eq!(
            (read.kind(), read.type_name(), read.id()),
            (draft.kind, "Some.Type", draft.id.as_deref().unwrap())
        );
        assert_eq!(read.causation(), draft.causation.as_deref());
        assert_eq!(read.correlation(), draft.correlation.as_deref());
        assert_eq!(read.timeout_ms(), draft.timeout_ms);
        assert_eq!(read.data(), draft.data.as_str());
        assert_eq!(read.timestamp_ms(), written.timestamp_ms());
    }
}

#[test]
fn damaged_lines_are_rejected_or_read_as_any_reader_would() {
    let mut random = Random::new(2);
    let mut accepted = 0;
    for _ in 0..LINES {
        let line = draft(&mut random).compose("unused", 7, &mut String::new()).line().as_bytes().to_vec();
        accepted += u64::from(check(&damaged(&mut random, line)));
    }
    assert!(accepted > LINES / 100, "only {accepted} damaged lines were still messages: damage less");
}

#[test]
fn lines_put_together_from_pieces_do_not_panic() {
    let mut random = Random::new(3);
    for _ in 0..LINES {
        let line: String = (0..random.below(24)).map(|_| random.pick(&PIECES)).collect();
        check(line.as_bytes());
    }
}

#[test]
fn bytes_at_random_do_not_panic() {
    let mut random = Random::new(4);
    for _ in 0..LINES {
        let line: Vec<u8> = (0..random.below(64)).map(|_| random.byte()).collect();
        check(&line);
    }
}
