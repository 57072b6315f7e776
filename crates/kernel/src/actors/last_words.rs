//! What a capability wrote before it failed: the line that it is blamed for, and the last lines of
//! its standard error.

use std::collections::VecDeque;

/// Bytes of an offending line that are quoted.
const QUOTE_BYTES_MAX: usize = 80;
/// Lines of standard error that are kept. Beyond: the oldest goes.
const LINES_MAX: usize = 3;
/// Bytes of such a line that are kept. Beyond: the rest of it is left out.
const LINE_BYTES_MAX: usize = 160;

/// How a capability failed last.
#[derive(Clone, Debug)]
pub(super) struct LastFault {
    pub(super) unix_ms: u64,
    pub(super) message: String,
    /// Its last lines on standard error before that.
    pub(super) words: Vec<String>,
}

/// The last words of one incarnation of a capability.
///
/// They may hold what others asked it, so they are for the log and for the operator, and for nobody
/// else.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    offending: Option<String>,
    lines: VecDeque<String>,
}

impl LastWords {
    /// The capability wrote a line to standard error.
    pub(super) fn hear(&mut self, line: &[u8]) {
        if self.lines.len() >= LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(quoted(line.trim_ascii_end(), LINE_BYTES_MAX));
    }

    /// The capability is at fault for this line.
    pub(super) fn blame(&mut self, line: &[u8]) {
        self.offending = Some(quoted(line.trim_ascii_end(), QUOTE_BYTES_MAX));
    }

    /// The next incarnation begins.
    pub(super) fn forget(&mut self) {
        *self = LastWords::default();
    }

    /// The line that it is blamed for, to be put behind the reason; nothing if it is blamed for
    /// none.
    pub(super) fn quote(&self) -> String {
        self.offending.as_ref().map_or(String::new(), |line| format!("; the line was {line}"))
    }

    /// The last lines of standard error, as they were written.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }

    /// Everything, to be put behind the reason.
    pub(super) fn told(&self) -> String {
        let mut text = self.quote();
        for (at, line) in self.lines.iter().enumerate() {
            text.push_str(if at == 0 { "; its last words on standard error: " } else { " / " });
            text.push_str(line);
        }
        text
    }
}

/// The beginning of a line in quotation marks, with nothing in it that a terminal would obey.
fn quoted(line: &[u8], bytes_max: usize) -> String {
    let mut end = line.len().min(bytes_max);
    // Characters stay whole, where there are any.
    while end < line.len() && end + 4 > bytes_max && line[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    let more = if end < line.len() { "..." } else { "" };
    format!("{:?}{more}", String::from_utf8_lossy(&line[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_short_escaped_and_of_whole_characters() {
        assert_eq!(quoted(b"hello\x1b[31m \"you\"", 80), r#""hello\u{1b}[31m \"you\"""#);
        assert_eq!(quoted("ééé".as_bytes(), 3), "\"é\"...");
        assert_eq!(quoted(&[0xBF; 200], 8).matches('\u{fffd}').count(), 4, "bytes that are no text");
        assert_eq!(quoted(&[b'x'; 1000], QUOTE_BYTES_MAX).len(), QUOTE_BYTES_MAX + 5);
        assert_eq!(quoted(b"", 80), "\"\"");
    }

    #[test]
    fn the_last_lines_are_kept_and_no_others() {
        let mut words = LastWords::default();
        assert_eq!(words.told(), "");
        for number in 0..1000 {
            words.hear(format!("{number}{}\r", "x".repeat(number)).as_bytes());
        }
        assert_eq!(words.lines.len(), LINES_MAX);
        assert!(words.lines.iter().all(|line| line.len() <= LINE_BYTES_MAX + 5));
        words.forget();
        words.hear(b"one");
        words.hear(b"two");
        words.blame(b"oops\n");
        assert_eq!(
            words.told(),
            "; the line was \"oops\"; its last words on standard error: \"one\" / \"two\""
        );
    }
}
