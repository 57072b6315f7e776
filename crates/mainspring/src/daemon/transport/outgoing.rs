//! What waits to be written to one place: a client, a child process, the log.
//!
//! Small lines are copied one behind the other, so that many leave in one write. A large message is
//! kept as what it is: it may be on its way to many clients, and is in memory once.

use mainspring_message::Envelope;
use rustix::io::Errno;
use std::collections::VecDeque;

/// A message of so many bytes or more is not copied.
pub(crate) const SHARED_BYTES_MIN: usize = 32 << 10;

/// A piece of the stream.
enum Piece {
    /// Lines with their breaks; the first may be the break of the message before.
    Lines(Vec<u8>),
    /// A line without its break.
    Message(Envelope),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Lines(lines) => lines,
            Piece::Message(message) => message.line().as_bytes(),
        }
    }
}

/// How far writing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Everything is written.
    Everything,
    /// There is no room for the rest.
    NoRoom,
}

/// The bytes for one place that are not written yet.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// What comes before `tail`.
    pieces: VecDeque<Piece>,
    /// The newest lines.
    tail: Vec<u8>,
    /// How much of the first piece, or of `tail` if there is none, is written.
    done: usize,
    /// Bytes of all the pieces, written or not.
    pieces_bytes: usize,
}

impl Outgoing {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that are not written yet.
    pub(crate) fn len(&self) -> usize {
        self.pieces_bytes + self.tail.len() - self.done
    }

    /// Whether a buffer for lines would be of use.
    pub(crate) fn wants_buffer(&self) -> bool {
        self.tail.capacity() == 0
    }

    /// Gives it a buffer for lines: an empty one, or one that begins with whole lines.
    pub(crate) fn use_buffer(&mut self, buffer: Vec<u8>) {
        debug_assert!(self.wants_buffer(), "nothing is lost with the old one");
        self.tail = buffer;
    }

    /// Takes the buffer back, when everything is written.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.done = 0;
        let mut buffer = std::mem::take(&mut self.tail);
        buffer.clear();
        buffer
    }

    /// Adds whole lines, with their breaks.
    pub(crate) fn push_lines(&mut self, lines: &[u8]) {
        self.tail.extend_from_slice(lines);
    }

    /// Adds a message.
    #[inline]
    pub(crate) fn push(&mut self, message: &Envelope) {
        let line = message.line();
        if line.len() >= SHARED_BYTES_MIN {
            self.share(message);
        } else {
            // Room for the break, too: or a new buffer would grow twice for its first line.
            self.tail.reserve(line.len() + 1);
            self.tail.extend_from_slice(line.as_bytes());
        }
        self.tail.push(b'\n');
    }

    #[cold]
    fn share(&mut self, message: &Envelope) {
        if !self.tail.is_empty() {
            self.pieces_bytes += self.tail.len();
            self.pieces.push_back(Piece::Lines(std::mem::take(&mut self.tail)));
        }
        self.pieces_bytes += message.line().len();
        self.pieces.push_back(Piece::Message(message.clone()));
    }

    /// Gives `write` what is to be written, until that is all or `write` takes no more for now.
    ///
    /// # Errors
    /// What `write` says, if that is neither that it was interrupted nor that there is no room.
    #[inline]
    pub(crate) fn drain(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Result<usize, Errno>,
    ) -> Result<Drained, Errno> {
        while !self.is_empty() {
            match write(self.next()) {
                Ok(count) => self.advance(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Drained::NoRoom),
                Err(error) => return Err(error),
            }
        }
        Ok(Drained::Everything)
    }

    /// The bytes to write next; none when everything is written.
    #[inline]
    fn next(&self) -> &[u8] {
        match self.pieces.front() {
            None => &self.tail[self.done..],
            Some(piece) => &piece.bytes()[self.done..],
        }
    }

    /// So many of them are written.
    #[inline]
    fn advance(&mut self, count: usize) {
        self.done += count;
        if let Some(piece) = self.pieces.front()
            && self.done == piece.bytes().len()
        {
            self.pieces_bytes -= self.done;
            self.pieces.pop_front();
            self.done = 0;
        }
    }

    /// Forgets what is written, once that is most of the buffer. Of a buffer with nothing left in
    /// it, `spare` bytes are kept.
    pub(crate) fn trim(&mut self, spare: usize) {
        if self.pieces.is_empty() && self.done > self.tail.len() / 2 {
            self.tail.drain(..self.done);
            self.done = 0;
        }
        if self.is_empty() {
            self.tail.shrink_to(spare);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Outgoing::default();
    }

    /// Forgets everything but the rest of a line that has begun.
    pub(crate) fn keep_begun_line(&mut self) {
        let next = self.next();
        let begun = match (self.done, self.pieces.front(), next.first()) {
            (_, _, None) => false,
            // A break at the beginning is that of the message before.
            (0, _, Some(first)) => *first == b'\n',
            (_, Some(Piece::Message(_)), _) => true,
            (done, Some(Piece::Lines(lines)), _) => lines[done - 1] != b'\n',
            (done, None, _) => self.tail[done - 1] != b'\n',
        };
        if !begun {
            return self.clear();
        }
        let rest = match next.iter().position(|byte| *byte == b'\n') {
            Some(at) => next[..=at].to_vec(),
            // A message: its break is the first of what follows it.
            None => [next, b"\n"].concat(),
        };
        *self = Outgoing { tail: rest, ..Outgoing::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Envelope {
        let data = "x".repeat(bytes);
        let line = format!(
            r#"{{"kind":"event","type":"Test.Big","data":"{data}","metadata":{{"id":"e","timestamp":0}}}}"#
        );
        Envelope::parse(line.as_bytes()).expect("a message")
    }

    /// Writes `count` bytes.
    fn write(out: &mut Outgoing, mut count: usize) -> Vec<u8> {
        let mut written = Vec::new();
        while count > 0 && !out.is_empty() {
            let part = out.next().len().min(count);
            written.extend_from_slice(&out.next()[..part]);
            out.advance(part);
            count -= part;
        }
        written
    }

    #[test]
    fn however_much_is_written_at_a_time_the_stream_is_the_same() {
        let (small, big) = (message(10), message(SHARED_BYTES_MIN));
        let order = [&small, &small, &big, &big, &small, &big];
        let whole: String = order.iter().map(|message| format!("{}\n", message.line())).collect();
        for step in [1, 7, 1000, SHARED_BYTES_MIN, usize::MAX] {
            let mut out = Outgoing::default();
            order.iter().for_each(|message| out.push(message));
            assert_eq!(out.len(), whole.len());
            let mut written = Vec::new();
            while !out.is_empty() {
                written.extend(write(&mut out, step));
                out.trim(0);
                assert_eq!(out.len(), whole.len() - written.len());
            }
            assert!(written == whole.as_bytes(), "{step} bytes at a time");
        }
    }

    #[test]
    fn writing_goes_on_where_there_was_no_room_and_ends_at_an_error() {
        let mut out = Outgoing::default();
        out.push_lines(b"one\ntwo\n");
        let (mut written, mut calls) = (Vec::new(), 0);
        let mut small_pipe = |bytes: &[u8]| {
            calls += 1;
            match calls {
                1 => Err(Errno::INTR),
                3 => Err(Errno::AGAIN),
                _ => {
                    let count = bytes.len().min(3);
                    written.extend_from_slice(&bytes[..count]);
                    Ok(count)
                }
            }
        };
        assert_eq!(out.drain(&mut small_pipe), Ok(Drained::NoRoom));
        assert_eq!(out.len(), 5);
        assert_eq!(out.drain(&mut small_pipe), Ok(Drained::Everything));
        assert_eq!(written, b"one\ntwo\n");
        out.push_lines(b"three\n");
        assert_eq!(out.drain(|_| Err(Errno::PIPE)), Err(Errno::PIPE));
    }

    #[test]
    fn what_is_left_of_a_begun_line_is_kept_and_nothing_else() {
        let (small, big) = (message(10), message(SHARED_BYTES_MIN));
        for first in [&small, &big] {
            let length = first.line().len();
            for done in [0, 1, length - 1, length, length + 1] {
                let mut out = Outgoing::default();
                [first, &big, &small].into_iter().for_each(|message| out.push(message));
                let mut stream = write(&mut out, done);
                out.keep_begun_line();
                stream.extend(write(&mut out, usize::MAX));
                let expected = if done == 0 { String::new() } else { format!("{}\n", first.line()) };
                assert!(stream == expected.as_bytes(), "{done} of {length} bytes were written");
            }
        }
    }
}
