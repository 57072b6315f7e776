//! A stream of bytes: whatever pieces it comes in, the lines are the same, and no more than one
//! line is held.

use mainspring_message::lines::{Line, LineSplitter};

/// Short, so that lines beyond it are met often.
const LINE_BYTES_MAX: usize = 64;

/// The first byte chooses the sizes of the pieces.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&step, stream)) = bytes.split_first() else { return };
    let whole = split(stream, stream.len().max(1));
    let pieces = split(stream, usize::from(step % 32) + 1);
    assert_eq!(whole, pieces);
    let longest = whole.iter().flatten().map(Vec::len).max().unwrap_or(0);
    assert!(longest <= LINE_BYTES_MAX, "a line of {longest} bytes");
}

/// The lines; nothing in the place of one that is too long.
fn split(stream: &[u8], piece_bytes: usize) -> Vec<Option<Vec<u8>>> {
    let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
    let keep = |line: Line<'_>| match line {
        Line::Whole(line) => Some(line.to_vec()),
        Line::TooLong => None,
    };
    for piece in stream.chunks(piece_bytes) {
        splitter.split(piece, LINE_BYTES_MAX, |line| lines.push(keep(line)));
        assert!(splitter.held_bytes() <= LINE_BYTES_MAX + 1, "{} bytes held", splitter.held_bytes());
    }
    lines.extend(splitter.finish().map(keep));
    lines
}
