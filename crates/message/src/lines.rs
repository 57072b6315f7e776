//! Lines out of bytes, whatever pieces these come in.
//!
//! A message is a line, so everything that reads messages reads lines: the daemon from clients,
//! processes and guests, the client from the daemon, a guest from its host. All of them use
//! [`LineSplitter`], which holds bytes only of a line that has begun and not ended. [`LineBuffer`]
//! is one with a buffer of its own to read into.
//!
//! A line ends with `\n` or `\r\n`, which is not part of it; the last one may end with the stream.
//! A line beyond a limit is told as soon as it is too long, once, and the rest of it is skipped
//! without being kept.

use memchr::memchr;

/// What a stream has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its end.
    Whole(&'a [u8]),
    /// A line that is longer than the limit. What came of it is forgotten and the rest is skipped.
    TooLong,
}

impl Line<'_> {
    /// Whether it is a line of nothing but white space. Most lines begin with a brace, so this
    /// looks at one byte.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        matches!(self, Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace))
    }
}

/// Splits one stream into lines.
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// A line that has begun and not ended.
    begun: Vec<u8>,
    /// `begun` was handed out as a whole line; it is dropped with the next call.
    is_handed_out: bool,
    /// Within a line that was too long.
    is_skipping: bool,
}

impl LineSplitter {
    /// Takes the next line from the front of `bytes`, the bytes of the stream that were not split
    /// yet. `None`: all of them are taken and no line ends in them.
    ///
    /// A line of up to `line_bytes_max` bytes is [`Line::Whole`]. A line that lies in `bytes` whole
    /// is not copied.
    #[inline]
    pub fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8], line_bytes_max: usize) -> Option<Line<'a>> {
        self.forget_handed_out();
        if bytes.is_empty() {
            return None;
        }
        while let Some(at) = memchr(b'\n', bytes) {
            let line = &bytes[..at];
            *bytes = &bytes[at + 1..];
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if self.begun.len() + line.len() > line_bytes_max {
                self.begun = Vec::new();
                return Some(Line::TooLong);
            }
            if self.begun.is_empty() {
                return Some(Line::Whole(without_return(line)));
            }
            self.begun.extend_from_slice(line);
            self.is_handed_out = true;
            return Some(Line::Whole(without_return(&self.begun)));
        }
        self.keep(std::mem::take(bytes), line_bytes_max)
    }

    /// Keeps the beginning of a line.
    fn keep(&mut self, beginning: &[u8], line_bytes_max: usize) -> Option<Line<'static>> {
        if self.is_skipping || beginning.is_empty() {
            return None;
        }
        if self.begun.len() + beginning.len() > line_bytes_max {
            self.is_skipping = true;
            self.begun = Vec::new();
            return Some(Line::TooLong);
        }
        self.begun.extend_from_slice(beginning);
        None
    }

    /// Hands on every line that ends in `bytes`, the next ones of the stream. Blank lines are left
    /// out.
    #[inline]
    pub fn split(&mut self, mut bytes: &[u8], line_bytes_max: usize, mut take: impl FnMut(Line<'_>)) {
        while let Some(line) = self.next(&mut bytes, line_bytes_max) {
            if !line.is_blank() {
                take(line);
            }
        }
    }

    /// The stream has ended: what there is of a last line without an end is a line, too.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        self.forget_handed_out();
        self.is_skipping = false;
        if self.begun.is_empty() {
            return None;
        }
        self.is_handed_out = true;
        Some(Line::Whole(without_return(&self.begun)))
    }

    /// Bytes held of a line that has not ended.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        if self.is_handed_out { 0 } else { self.begun.len() }
    }

    /// Its memory goes with it: ten thousand clients between two lines hold nothing.
    #[inline]
    fn forget_handed_out(&mut self) {
        if self.is_handed_out {
            self.is_handed_out = false;
            self.begun = Vec::new();
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A splitter with a buffer to read into. Read into [`room`](LineBuffer::room), tell how much by
/// [`filled`](LineBuffer::filled), take lines by [`next_line`](LineBuffer::next_line) until there
/// is none, and begin again.
#[derive(Debug)]
pub struct LineBuffer {
    splitter: LineSplitter,
    /// All of it is initialised, so that reading into it clears nothing.
    bytes: Vec<u8>,
    /// What was read and not split yet.
    unsplit: std::ops::Range<usize>,
    /// How much room there is for one read.
    read_bytes: usize,
    line_bytes_max: usize,
}

impl LineBuffer {
    /// A buffer for reads of `read_bytes` and lines of up to `line_bytes_max`.
    #[must_use]
    pub fn new(read_bytes: usize, line_bytes_max: usize) -> LineBuffer {
        LineBuffer {
            splitter: LineSplitter::default(),
            bytes: Vec::new(),
            unsplit: 0..0,
            read_bytes,
            line_bytes_max,
        }
    }

    /// The longest line that is taken.
    #[must_use]
    pub fn line_bytes_max(&self) -> usize {
        self.line_bytes_max
    }

    /// Takes lines of up to this many bytes from now on.
    pub fn set_line_bytes_max(&mut self, bytes: usize) {
        self.line_bytes_max = bytes;
    }

    /// Where the next bytes of the stream go.
    pub fn room(&mut self) -> &mut [u8] {
        // Whoever has taken every line has nothing left here.
        self.bytes.copy_within(self.unsplit.clone(), 0);
        self.unsplit = 0..self.unsplit.len();
        self.bytes.resize(self.unsplit.end + self.read_bytes, 0);
        &mut self.bytes[self.unsplit.end..]
    }

    /// The stream has put so many bytes there.
    ///
    /// # Panics
    /// If there was no room for so many.
    pub fn filled(&mut self, count: usize) {
        let end = self.unsplit.end + count;
        assert!(end <= self.bytes.len(), "more bytes than there was room for");
        self.unsplit.end = end;
    }

    /// The next line of what was read.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let mut bytes = &self.bytes[self.unsplit.clone()];
        let line = self.splitter.next(&mut bytes, self.line_bytes_max);
        self.unsplit.start = self.unsplit.end - bytes.len();
        line
    }

    /// The stream has ended: what there is of a last line without an end is a line, too.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        self.splitter.finish()
    }
}
