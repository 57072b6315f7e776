//! Keys, from the bytes that a terminal sends for them.

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    NextTab,
    PreviousTab,
    Enter,
    Escape,
    Backspace,
    Character(char),
}

/// Sequences that stand for a key: those of xterm and of the Linux console, in both modes of the
/// arrow keys.
const SEQUENCES: &[(&[u8], Key)] = &[
    (b"\x1b[A", Key::Up),
    (b"\x1bOA", Key::Up),
    (b"\x1b[B", Key::Down),
    (b"\x1bOB", Key::Down),
    (b"\x1b[C", Key::NextTab),
    (b"\x1bOC", Key::NextTab),
    (b"\x1b[D", Key::PreviousTab),
    (b"\x1bOD", Key::PreviousTab),
    (b"\x1b[5~", Key::PageUp),
    (b"\x1b[6~", Key::PageDown),
    (b"\x1b[H", Key::First),
    (b"\x1bOH", Key::First),
    (b"\x1b[1~", Key::First),
    (b"\x1b[7~", Key::First),
    (b"\x1b[F", Key::Last),
    (b"\x1bOF", Key::Last),
    (b"\x1b[4~", Key::Last),
    (b"\x1b[8~", Key::Last),
    (b"\x1b[Z", Key::PreviousTab),
    (b"\t", Key::NextTab),
    (b"\r", Key::Enter),
    (b"\n", Key::Enter),
    (b"\x7f", Key::Backspace),
    (b"\x08", Key::Backspace),
];

/// The keys in what was read at once. What is no key here is passed over.
pub(super) fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut found = Vec::new();
    while let Some(&first) = bytes.first() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| bytes.starts_with(sequence)) {
            found.push(*key);
            bytes = &bytes[sequence.len()..];
        } else if first == 0x1b {
            let length = escape_length(bytes);
            if length == 1 {
                found.push(Key::Escape);
            }
            bytes = &bytes[length..];
        } else {
            let (character, length) = character(bytes);
            found.extend(character.filter(|character| !character.is_control()).map(Key::Character));
            bytes = &bytes[length..];
        }
    }
    found
}

/// The length of a sequence that begins with the escape; 1 if that stands alone.
fn escape_length(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        // Parameters, and a last byte that is a letter or a tilde.
        Some(b'[') => {
            bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(bytes.len(), |at| at + 3)
        }
        Some(b'O') => bytes.len().min(3),
        _ => 1,
    }
}

fn character(bytes: &[u8]) -> (Option<char>, usize) {
    let length = match bytes.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    match bytes.get(..length).map(str::from_utf8) {
        Some(Ok(text)) => (text.chars().next(), length),
        _ => (None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_what_a_terminal_sends() {
        assert_eq!(
            keys(b"q\x1b[A\x1bOB\t\x1b[Z\r"),
            [Key::Character('q'), Key::Up, Key::Down, Key::NextTab, Key::PreviousTab, Key::Enter]
        );
        assert_eq!(keys("é日".as_bytes()), [Key::Character('é'), Key::Character('日')]);
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b\x1b[6~"), [Key::Escape, Key::PageDown]);
        // A mouse, a function key, half of a sequence, half of a character: nothing, and nothing
        // after it is lost.
        assert_eq!(keys(b"\x1b[<0;10;10Mq\x1b[15~q"), [Key::Character('q'); 2]);
        assert_eq!(keys(b"\x1b["), []);
        assert_eq!(keys(b"\xe6\x97q"), [Key::Character('q')]);
        assert_eq!(keys(b"\x00\x01q"), [Key::Character('q')]);
    }
}
