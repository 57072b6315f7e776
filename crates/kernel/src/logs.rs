//! What capabilities wrote to standard error lately: a bounded ring for each, beside the daemon's
//! own log.
//!
//! Lines keep their numbers, which count all lines of the run, so that whoever reads on knows what
//! is missing. Only the flow of messages adds lines; only `Sys.Logs` reads them.

use crate::api::ids::CapabilityId;
use std::collections::VecDeque;

/// Lines of one capability that are kept. Beyond: its oldest goes.
const LINES_MAX: usize = 200;
/// Bytes of one capability's lines that are kept; same policy.
const BYTES_MAX: usize = 64 << 10;
/// Bytes that are kept in all. Beyond: the oldest of whoever has most goes.
const TOTAL_BYTES_MAX: usize = 4 << 20;
/// The longest line.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLine {
    /// Counts all lines of the run, from 1.
    pub(crate) number: u64,
    pub(crate) unix_ms: u64,
    pub(crate) incarnation: u32,
    pub(crate) text: Box<str>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// The number of the newest line that is not kept any more.
    forgotten_to: u64,
    forgotten: u64,
}

impl Ring {
    fn forget_oldest(&mut self) -> usize {
        let Some(line) = self.lines.pop_front() else { return 0 };
        self.bytes -= line.text.len();
        self.forgotten_to = line.number;
        self.forgotten += 1;
        line.text.len()
    }
}

/// The rings of all capabilities.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    rings: Vec<Ring>,
    last_number: u64,
    bytes: usize,
}

impl Logs {
    /// Keeps a line.
    pub(crate) fn add(
        &mut self,
        capability: CapabilityId,
        incarnation: u32,
        line: &[u8],
        unix_ms: u64,
    ) -> &LogLine {
        let line = &line[..line.len().min(LINE_BYTES_MAX)];
        let text: Box<str> = String::from_utf8_lossy(line.trim_ascii_end()).into();
        self.last_number += 1;
        if self.rings.len() <= capability.index() {
            self.rings.resize_with(capability.index() + 1, Ring::default);
        }
        let ring = &mut self.rings[capability.index()];
        ring.bytes += text.len();
        self.bytes += text.len();
        ring.lines.push_back(LogLine { number: self.last_number, unix_ms, incarnation, text });
        while ring.lines.len() > LINES_MAX || (ring.bytes > BYTES_MAX && ring.lines.len() > 1) {
            self.bytes -= ring.forget_oldest();
        }
        while self.bytes > TOTAL_BYTES_MAX {
            let Some(heaviest) = self.rings.iter_mut().max_by_key(|ring| ring.bytes) else { break };
            self.bytes -= heaviest.forget_oldest();
        }
        let ring = &self.rings[capability.index()];
        // It is longer than all that is kept in all only if nothing is.
        &ring.lines[ring.lines.len() - 1]
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The last `lines` lines behind the number `after`, oldest first, of one capability or of all;
    /// and how many behind that number are not kept any more.
    pub(crate) fn last(
        &self,
        capability: Option<CapabilityId>,
        after: u64,
        lines: usize,
    ) -> (Vec<(CapabilityId, &LogLine)>, u64) {
        let rings = self.rings.iter().enumerate().map(|(at, ring)| (CapabilityId(at as u32), ring));
        let rings = rings.filter(|(id, _)| capability.is_none_or(|wanted| wanted == *id));
        let (mut found, mut forgotten) = (Vec::new(), 0);
        for (id, ring) in rings {
            forgotten += if ring.forgotten_to > after { ring.forgotten } else { 0 };
            found.extend(ring.lines.iter().filter(|line| line.number > after).map(|line| (id, line)));
        }
        found.sort_unstable_by_key(|(_, line)| line.number);
        let beyond = found.len().saturating_sub(lines);
        (found.split_off(beyond), forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_within_bounds_and_what_is_missing_is_counted() {
        let (mut logs, one, other) = (Logs::default(), CapabilityId(0), CapabilityId(2));
        for number in 0..LINES_MAX + 5 {
            logs.add(one, 1, format!("{number}\n").as_bytes(), 7);
        }
        logs.add(other, 3, b"other", 8);
        let (lines, forgotten) = logs.last(Some(one), 0, 1000);
        assert_eq!((lines.len(), forgotten, &*lines[0].1.text), (LINES_MAX, 5, "5"));
        let (lines, _) = logs.last(None, 0, 2);
        assert_eq!(
            lines.iter().map(|(id, line)| (*id, &*line.text)).collect::<Vec<_>>(),
            [(one, "204"), (other, "other")]
        );
        let (lines, forgotten) = logs.last(None, lines[0].1.number, 100);
        assert_eq!((lines.len(), forgotten), (1, 0));
        for _ in 0..100 {
            logs.add(one, 1, &[b'x'; 2 * LINE_BYTES_MAX], 9);
        }
        assert!(
            logs.rings[0].bytes <= BYTES_MAX
                && logs.last(Some(one), 0, 1000).0.len() == BYTES_MAX / LINE_BYTES_MAX
        );
    }

    #[test]
    fn all_capabilities_together_are_bounded() {
        let mut logs = Logs::default();
        for capability in 0..100 {
            for _ in 0..20 {
                logs.add(CapabilityId(capability), 1, &[b'x'; LINE_BYTES_MAX], 0);
            }
        }
        let sum: usize = logs.rings.iter().map(|ring| ring.bytes).sum();
        assert_eq!(sum, logs.bytes());
        assert!(sum <= TOTAL_BYTES_MAX);
    }
}
