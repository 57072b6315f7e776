//! Lines out of a blocking stream.

use mainspring_message::lines::{Line, LineBuffer};
use std::io::{self, Read};

/// The longest line that is taken, in bytes; no daemon writes one that long.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Room for one read.
const READ_BYTES: usize = 64 << 10;

/// What was read and not yet taken.
#[derive(Debug)]
pub struct Lines {
    buffer: LineBuffer,
    /// A line was longer than [`LINE_BYTES_MAX`]: the next read says so.
    is_too_long: bool,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines { buffer: LineBuffer::new(READ_BYTES, LINE_BYTES_MAX), is_too_long: false }
    }
}

impl Lines {
    /// The next whole line, without its end.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        match self.buffer.next_line()? {
            Line::Whole(line) => Some(line),
            Line::TooLong => {
                self.is_too_long = true;
                None
            }
        }
    }

    /// What is left when the stream has ended: a line without an end.
    pub fn rest(&mut self) -> Option<&[u8]> {
        match self.buffer.finish()? {
            Line::Whole(line) => Some(line),
            Line::TooLong => None,
        }
    }

    /// Reads once. 0: the stream has ended.
    ///
    /// # Errors
    /// As the stream; or a line is too long.
    pub fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        if self.is_too_long {
            let text = format!("a line is longer than {LINE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let count = stream.read(self.buffer.room())?;
        self.buffer.filled(count);
        Ok(count)
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
