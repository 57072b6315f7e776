//! Cutting lines out of bytes as they come, without ever holding more than one line.

use memchr::memchr;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut<'a> {
    /// A line, without its line break. Blank lines are left out.
    Line(&'a [u8]),
    /// A line began that is longer than the limit; the rest of it is skipped.
    TooLong,
}

/// Cuts one stream into lines. It keeps bytes only while a line has begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct LineCutter {
    partial: Vec<u8>,
    /// Inside a line that was too long.
    skipping: bool,
}

impl LineCutter {
    /// Takes the next bytes of the stream and hands on every line that ends in them.
    pub(crate) fn cut(&mut self, mut bytes: &[u8], line_bytes_max: usize, mut take: impl FnMut(Cut<'_>)) {
        while let Some(at) = memchr(b'\n', bytes) {
            let line = &bytes[..at];
            bytes = &bytes[at + 1..];
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.partial.len() + line.len() > line_bytes_max {
                self.partial = Vec::new();
                take(Cut::TooLong);
            } else if self.partial.is_empty() {
                take_line(line, &mut take);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                take_line(&whole, &mut take);
            }
        }
        if self.skipping || bytes.is_empty() {
            return;
        }
        if self.partial.len() + bytes.len() > line_bytes_max {
            self.skipping = true;
            self.partial = Vec::new();
            take(Cut::TooLong);
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// The stream has ended: what there is of a last line without a line break is a line too.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(Cut<'_>)) {
        let last = std::mem::take(&mut self.partial);
        self.skipping = false;
        take_line(&last, &mut take);
    }

    /// Bytes held of a line that has not ended.
    pub(crate) fn held_bytes(&self) -> usize {
        self.partial.len()
    }
}

fn take_line(line: &[u8], take: &mut impl FnMut(Cut<'_>)) {
    // Most lines begin with a brace, so this looks at one byte.
    if !line.iter().all(u8::is_ascii_whitespace) {
        take(Cut::Line(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 8;

    fn feed(cutter: &mut LineCutter, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        cutter.cut(bytes, MAX, |cut| found.push(show(&cut)));
        found
    }

    fn show(cut: &Cut<'_>) -> String {
        match cut {
            Cut::Line(line) => String::from_utf8_lossy(line).into_owned(),
            Cut::TooLong => "<too long>".to_owned(),
        }
    }

    #[test]
    fn many_lines_in_one_read_come_out_in_order() {
        assert_eq!(feed(&mut LineCutter::default(), b"a\nbb\nccc\n"), ["a", "bb", "ccc"]);
    }

    #[test]
    fn however_the_bytes_are_divided_the_lines_are_the_same() {
        let text = b"one\n\n12345678\n123456789\n  \r\ntwo\nrest";
        let whole = feed(&mut LineCutter::default(), text);
        assert_eq!(whole, ["one", "12345678", "<too long>", "two"]);
        for size in 1..text.len() {
            let mut cutter = LineCutter::default();
            let mut found: Vec<String> = text.chunks(size).flat_map(|part| feed(&mut cutter, part)).collect();
            assert_eq!(found, whole, "{size} bytes at a time");
            cutter.finish(|cut| found.push(show(&cut)));
            assert_eq!(found.last().map(String::as_str), Some("rest"));
        }
    }

    #[test]
    fn an_endless_line_is_told_once_and_holds_no_memory() {
        let mut cutter = LineCutter::default();
        let told: Vec<String> = (0..1000).flat_map(|_| feed(&mut cutter, b"xxxx")).collect();
        assert_eq!(told, ["<too long>"]);
        assert_eq!(cutter.held_bytes(), 0);
        assert_eq!(feed(&mut cutter, b"x\nnext\n"), ["next"]);
    }

    #[test]
    fn nothing_is_held_between_lines() {
        let mut cutter = LineCutter::default();
        feed(&mut cutter, b"par");
        assert_eq!(cutter.held_bytes(), 3);
        assert_eq!(feed(&mut cutter, b"tial\n"), ["partial"]);
        assert_eq!(cutter.partial.capacity(), 0);
    }
}
