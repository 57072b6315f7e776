//! Lines out of a stream of bytes, whatever pieces it comes in.

use std::io::{self, Read};

/// The longest line that is taken, in bytes; no daemon writes one that long.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Room for one read.
const READ_BYTES: usize = 64 << 10;

/// What was read and not yet taken.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Everything before is taken.
    taken: usize,
    /// Everything before holds no line end.
    searched: usize,
}

impl Lines {
    /// The next whole line, without its end.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let found = memchr::memchr(b'\n', &self.bytes[self.searched..]);
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.bytes.len();
            return None;
        };
        let start = std::mem::replace(&mut self.taken, end + 1);
        self.searched = end + 1;
        let line = &self.bytes[start..end];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// What is left when the stream has ended: a line without an end.
    pub fn rest(&mut self) -> Option<&[u8]> {
        let start = std::mem::replace(&mut self.taken, self.bytes.len());
        self.searched = self.bytes.len();
        (start < self.bytes.len()).then(|| &self.bytes[start..])
    }

    /// Reads once. 0: the stream has ended.
    ///
    /// # Errors
    /// As the stream; or the line is too long.
    pub fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        let length = self.bytes.len();
        if length >= LINE_BYTES_MAX {
            let text = format!("a line is longer than {LINE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.bytes.resize(length + READ_BYTES, 0);
        let result = stream.read(&mut self.bytes[length..]);
        self.bytes.truncate(length + result.as_ref().map_or(0, |count| *count));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out a text in pieces of a given size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn lines_are_the_same_whatever_the_pieces() {
        let text = b"one\n\ntwo\r\n\xffthree\nrest";
        for size in 1..text.len() + 1 {
            let (mut lines, mut stream, mut found) = (Lines::default(), Pieces(text, size), Vec::new());
            loop {
                while let Some(line) = lines.next_line() {
                    found.push(line.to_vec());
                }
                if lines.fill(&mut stream).unwrap() == 0 {
                    break;
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"two", b"\xffthree"]);
            assert_eq!(lines.rest(), Some(&b"rest"[..]));
            assert_eq!(lines.rest(), None);
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                Ok(buffer.len())
            }
        }
        let mut lines = Lines::default();
        let error = loop {
            if let Err(error) = lines.fill(&mut Endless) {
                break error;
            }
            assert!(lines.next_line().is_none());
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
