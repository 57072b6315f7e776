//! Bytes that have been read, and the lines in them.

use std::ops::Range;

/// How much is asked for at once; a batch of messages should fit.
const READ_BYTES: usize = 16 * 1024;

/// A buffer that bytes are read into at its end and lines are taken from at its front. It grows for
/// a long line alone.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    /// All of it is initialised, so that reading into it clears nothing.
    bytes: Vec<u8>,
    held: Range<usize>,
    /// How far the held bytes are known to have no end of line.
    scanned: usize,
    line_bytes_max: usize,
}

impl LineBuffer {
    pub(crate) fn new(line_bytes_max: usize) -> LineBuffer {
        LineBuffer { bytes: Vec::new(), held: 0..0, scanned: 0, line_bytes_max }
    }

    pub(crate) fn line_bytes_max(&self) -> usize {
        self.line_bytes_max
    }

    pub(crate) fn set_line_bytes_max(&mut self, bytes: usize) {
        self.line_bytes_max = bytes;
    }

    /// The next line whose end has come, without that end. One that is too long is cut off at one
    /// byte more than it may have.
    pub(crate) fn next_line(&mut self) -> Option<&[u8]> {
        let found = memchr::memchr(b'\n', &self.bytes[self.scanned..self.held.end]);
        let Some(at) = found else {
            self.scanned = self.held.end;
            return None;
        };
        let line = self.held.start..self.scanned + at;
        self.held.start = line.end + 1;
        self.scanned = self.held.start;
        Some(&self.bytes[line])
    }

    /// What is left when no more comes: a line without its end.
    pub(crate) fn take_rest(&mut self) -> Option<&[u8]> {
        let rest = std::mem::replace(&mut self.held, 0..0);
        self.scanned = 0;
        (!rest.is_empty()).then(|| &self.bytes[rest])
    }

    /// Where the next bytes are to be read to. To be called when there is no further line.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        // Of a line that is too long only its being so is kept, in bounded memory.
        let kept = self.held.len().min(self.line_bytes_max + 1);
        if self.held.start > 0 {
            self.bytes.copy_within(self.held.start..self.held.start + kept, 0);
        }
        self.held = 0..kept;
        self.scanned = kept;
        if self.bytes.len() - kept < READ_BYTES {
            self.bytes.resize((kept + READ_BYTES).max(kept * 2), 0);
        } else if kept == 0 && self.bytes.len() > 4 * READ_BYTES {
            self.bytes = vec![0; READ_BYTES];
        }
        &mut self.bytes[kept..]
    }

    /// So many bytes were read there.
    pub(crate) fn filled(&mut self, count: usize) {
        self.held.end += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buffer: &mut LineBuffer, bytes: &[u8]) -> Vec<Vec<u8>> {
        buffer.room()[..bytes.len()].copy_from_slice(bytes);
        buffer.filled(bytes.len());
        std::iter::from_fn(|| buffer.next_line().map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn lines_come_out_the_same_however_the_bytes_are_divided() {
        let text = b"one\n\ntwo\nthree";
        for size in 1..text.len() {
            let mut buffer = LineBuffer::new(100);
            let lines: Vec<_> = text.chunks(size).flat_map(|piece| read(&mut buffer, piece)).collect();
            assert_eq!(lines, [&b"one"[..], b"", b"two"], "{size}");
            assert_eq!(buffer.take_rest(), Some(&b"three"[..]));
            assert_eq!(buffer.take_rest(), None);
        }
    }

    #[test]
    fn a_line_that_is_too_long_takes_bounded_memory_and_those_after_it_are_found() {
        let mut buffer = LineBuffer::new(10);
        for _ in 0..1000 {
            assert!(read(&mut buffer, &[b'x'; 1000]).is_empty());
            assert!(buffer.bytes.len() <= 4 * READ_BYTES, "{}", buffer.bytes.len());
        }
        let lines = read(&mut buffer, b"x\nnext\n");
        assert!(lines[0].len() > 10);
        assert_eq!(lines[1], b"next");
    }

    #[test]
    fn memory_for_a_long_line_is_given_back() {
        let mut buffer = LineBuffer::new(1 << 20);
        for _ in 0..100 {
            assert!(read(&mut buffer, &[b'x'; 10_000]).is_empty());
        }
        assert_eq!(read(&mut buffer, b"\n")[0].len(), 1_000_000);
        buffer.room();
        assert_eq!(buffer.bytes.len(), READ_BYTES);
    }
}
