//! Lines are the same however the bytes are divided, and nothing is held that need not be.

use mainspring_message::lines::{Line, LineBuffer, LineSplitter};
use proptest::prelude::*;

const MAX: usize = 8;

fn show(line: Line<'_>) -> String {
    match line {
        Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
        Line::TooLong => "<too long>".to_owned(),
    }
}

/// What a splitter hands on of some bytes, without blank lines.
fn feed(splitter: &mut LineSplitter, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    splitter.split(bytes, MAX, |line| found.push(show(line)));
    found
}

/// All lines of a stream that comes in pieces, the last one included.
fn buffered<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut buffer, mut found) = (LineBuffer::new(16, MAX), Vec::new());
    for piece in pieces.flat_map(|piece| piece.chunks(16)) {
        buffer.room()[..piece.len()].copy_from_slice(piece);
        buffer.filled(piece.len());
        while let Some(line) = buffer.next_line() {
            found.push(show(line));
        }
    }
    found.extend(buffer.finish().map(show));
    found
}

#[test]
fn many_lines_in_one_read_come_out_in_order() {
    assert_eq!(feed(&mut LineSplitter::default(), b"a\nbb\nccc\n"), ["a", "bb", "ccc"]);
}

#[test]
fn however_the_bytes_are_divided_the_lines_are_the_same() {
    let text = b"one\n\n12345678\n123456789\n  \r\ntwo\r\nrest";
    let whole = feed(&mut LineSplitter::default(), text);
    assert_eq!(whole, ["one", "12345678", "<too long>", "two"]);
    for size in 1..text.len() {
        let mut splitter = LineSplitter::default();
        let found: Vec<String> = text.chunks(size).flat_map(|part| feed(&mut splitter, part)).collect();
        assert_eq!(found, whole, "{size} bytes at a time");
        assert_eq!(splitter.finish(), Some(Line::Whole(b"rest")));
        assert_eq!(splitter.finish(), None);
    }
}

#[test]
fn a_buffer_hands_out_blank_lines_and_the_last_one_too() {
    let text = b"one\n\n123456789\ntwo\r\nrest";
    for size in 1..text.len() {
        let found = buffered(text.chunks(size));
        assert_eq!(found, ["one", "", "<too long>", "two", "rest"], "{size} bytes at a time");
    }
}

#[test]
fn lines_that_were_not_taken_before_the_next_read_are_not_lost() {
    let mut buffer = LineBuffer::new(4, MAX);
    for piece in [b"a\nb\n", b"c\nd\n"] {
        buffer.room()[..4].copy_from_slice(piece);
        buffer.filled(4);
    }
    let found: Vec<String> = std::iter::from_fn(|| buffer.next_line().map(show)).collect();
    assert_eq!(found, ["a", "b", "c", "d"]);
}

#[test]
fn an_endless_line_is_told_once_and_holds_no_memory() {
    let mut splitter = LineSplitter::default();
    let told: Vec<String> = (0..1000).flat_map(|_| feed(&mut splitter, b"xxxx")).collect();
    assert_eq!(told, ["<too long>"]);
    assert_eq!(splitter.held_bytes(), 0);
    assert_eq!(feed(&mut splitter, b"x\nnext\n"), ["next"]);
}

#[test]
fn a_line_that_has_begun_is_held_until_it_ends_and_no_longer() {
    let mut splitter = LineSplitter::default();
    feed(&mut splitter, b"par");
    assert_eq!(splitter.held_bytes(), 3);
    assert_eq!(feed(&mut splitter, b"tial\n"), ["partial"]);
    assert_eq!(splitter.held_bytes(), 0);
}

#[test]
fn an_endless_line_takes_bounded_memory_in_a_buffer_too() {
    let mut buffer = LineBuffer::new(1000, 10);
    let mut told = 0;
    for _ in 0..1000 {
        assert!(buffer.room().len() <= 1000);
        buffer.room().fill(b'x');
        buffer.filled(1000);
        while let Some(line) = buffer.next_line() {
            assert_eq!(line, Line::TooLong);
            told += 1;
        }
    }
    assert_eq!(told, 1);
}

/// The lines of a text that is there whole.
fn lines_of(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // What stands behind the last line end is a line only if there is something.
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let shown = lines.into_iter().map(|line| match line.len() > MAX {
        true => Line::TooLong,
        false => Line::Whole(line.strip_suffix(b"\r").unwrap_or(line)),
    });
    shown.map(show).collect()
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_the_lines_of_the_whole(
        bytes in proptest::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b'\r')], 0..200),
        cuts in proptest::collection::vec(1_usize..20, 1..40),
    ) {
        let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
        let pieces = std::iter::from_fn(|| {
            let (piece, after) = rest.split_at((*cuts.next()?).min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(buffered(pieces), lines_of(&bytes));
    }
}
