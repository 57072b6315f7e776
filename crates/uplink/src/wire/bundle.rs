//! Several messages on one subject as one: what one turn of the loop sends to the same place costs
//! NATS, and those who speak with it, the work of one message.
//!
//! A bundle is the head `many`, and behind it each message, with its length in a line before it.
//! There are no bundles in bundles.

use crate::wire::text::read_number;

/// The head of a bundle.
pub(crate) const MANY: &str = "many";
/// Messages in one bundle.
pub(crate) const PARTS_MAX: usize = 64;
/// Bytes of a bundle that is written. What does not fit goes by itself.
pub(crate) const BUNDLE_BYTES_MAX: usize = 64 << 10;
/// The digits of a length, and the end of their line.
pub(crate) const LENGTH_BYTES_MAX: usize = 20 + 1;

/// Begins a bundle with this message.
pub(crate) fn begin(first: &[u8]) -> Vec<u8> {
    // What follows is likely to be like the first.
    let mut bundle = Vec::with_capacity((8 * (first.len() + LENGTH_BYTES_MAX)).min(BUNDLE_BYTES_MAX));
    bundle.extend_from_slice(MANY.as_bytes());
    bundle.push(b'\n');
    append(&mut bundle, first);
    bundle
}

/// Appends a message to a bundle.
pub(crate) fn append(bundle: &mut Vec<u8>, message: &[u8]) {
    bundle.extend_from_slice(itoa::Buffer::new().format(message.len()).as_bytes());
    bundle.push(b'\n');
    bundle.extend_from_slice(message);
}

/// The messages of a bundle, by what stands behind its head; an error where something else stands
/// there, and it ends then.
pub(crate) fn parts(payload: &[u8]) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    let (mut rest, mut left) = (payload, PARTS_MAX);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let part = left.checked_sub(1).and_then(|fewer| {
            left = fewer;
            next_part(rest)
        });
        let (part, behind) = part.map_or((Err(Malformed), &b""[..]), |(part, behind)| (Ok(part), behind));
        rest = behind;
        Some(part)
    })
}

/// What stands in a bundle is no message with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

fn next_part(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', &rest[..rest.len().min(LENGTH_BYTES_MAX)])?;
    let length = str::from_utf8(&rest[..end]).ok().and_then(read_number)?;
    rest[end + 1..].split_at_checked(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bundle: &[u8]) -> Vec<Result<&[u8], Malformed>> {
        let payload = bundle.strip_prefix(b"many\n").expect("its head");
        parts(payload).collect()
    }

    #[test]
    fn n3_10_what_is_joined_is_read_in_order() {
        let mut bundle = begin(b"out 1\n{}");
        append(&mut bundle, b"");
        append(&mut bundle, b"3\nfoo");
        assert_eq!(bundle, b"many\n8\nout 1\n{}0\n5\n3\nfoo");
        assert_eq!(read(&bundle), [Ok(&b"out 1\n{}"[..]), Ok(b""), Ok(b"3\nfoo")]);
    }

    #[test]
    fn n3_10_what_is_cut_or_wrong_ends_the_bundle_and_not_what_came_before() {
        for wrong in ["x", "1", "2\nx", "-1\nx", "+1\nx", "1 \nx", "\nx", "18446744073709551615\nx"] {
            let bundle = format!("many\n2\nok{wrong}");
            assert_eq!(read(bundle.as_bytes()), [Ok(&b"ok"[..]), Err(Malformed)], "{wrong}");
        }
        assert_eq!(read(b"many\n"), []);
    }

    #[test]
    fn n3_10_parts_are_bounded_in_number() {
        let bundle = [b"many\n".to_vec(), b"0\n".repeat(PARTS_MAX + 5)].concat();
        let read = read(&bundle);
        assert_eq!(read.len(), PARTS_MAX + 1);
        assert_eq!(read.last(), Some(&Err(Malformed)));
    }
}
