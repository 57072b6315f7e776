//! What a server of NATS sends besides messages: little. The client keeps a line until it ends and
//! a message until it is whole, so what never ends would be kept for as long as it comes.

use std::cell::Cell;

/// Bytes besides messages that may come before the server is given up, and besides the largest
/// message that it says to carry.
const BESIDES_MAX: u64 = 4 << 20;
/// So many of them in a second are not counted: answers to pings.
const BESIDES_PER_SECOND: u64 = 64;
/// The largest message that a server of NATS can be set up for, whatever it says.
const PAYLOAD_MAX: u64 = 64 << 20;
/// What stands around a message on its way, at most and besides its subjects.
const AROUND_MESSAGE: u64 = 64;
const SECOND_NS: i64 = 1_000_000_000;

/// The account of one connection, or of several one after the other.
#[derive(Debug, Default)]
pub(super) struct Intake {
    payload_max: Cell<u64>,
    /// Bytes of messages, in all and as of the last look.
    of_messages: Cell<u64>,
    seen_of_messages: Cell<u64>,
    /// Bytes that were read, as of the last look.
    seen_read: Cell<u64>,
    besides: Cell<u64>,
    /// When bytes were last taken off the count.
    lowered_ns: Cell<i64>,
}

impl Intake {
    /// There is a connection, which says to carry so many bytes in one message.
    pub(super) fn note_connection(&self, max_payload: usize) {
        self.payload_max.set(PAYLOAD_MAX.min(max_payload as u64));
    }

    /// A message came.
    pub(super) fn note_message(&self, subject_bytes: usize, payload_bytes: usize) {
        let bytes = 2 * subject_bytes as u64 + payload_bytes as u64 + AROUND_MESSAGE;
        self.of_messages.set(self.of_messages.get() + bytes);
    }

    /// So many bytes were read by now. Whether more of them are no messages than a server of NATS
    /// sends.
    pub(super) fn has_excess(&self, read: u64, now_ns: i64) -> bool {
        let came = read.saturating_sub(self.seen_read.replace(read));
        let of_messages = self.of_messages.get();
        let whole = of_messages - self.seen_of_messages.replace(of_messages);
        let seconds = (now_ns - self.lowered_ns.get()) / SECOND_NS;
        let mut besides = (self.besides.get() + came).saturating_sub(whole);
        if seconds > 0 {
            self.lowered_ns.set(now_ns);
            besides = besides.saturating_sub(BESIDES_PER_SECOND.saturating_mul(seconds.unsigned_abs()));
        }
        self.besides.set(besides);
        besides > BESIDES_MAX + self.payload_max.get()
    }

    /// A new client has an account of its own.
    pub(super) fn start_over(&self) {
        self.payload_max.take();
        self.seen_read.take();
        self.besides.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n8_5_messages_and_answers_to_pings_are_no_excess_however_long_they_come() {
        let intake = Intake::default();
        intake.note_connection(1 << 20);
        let (mut read, mut now_ns) = (0, 0);
        for _ in 0..100_000 {
            // A message of 1 MiB that takes a while, and an answer to a ping.
            read += (1 << 19) + 6;
            now_ns += SECOND_NS / 4;
            assert!(!intake.has_excess(read, now_ns));
            read += (1 << 19) + 40;
            intake.note_message(20, 1 << 20);
            now_ns += SECOND_NS * 3 / 4;
            assert!(!intake.has_excess(read, now_ns));
        }
        for _ in 0..10_000_000 {
            read += 6;
            now_ns += SECOND_NS;
            assert!(!intake.has_excess(read, now_ns));
        }
    }

    #[test]
    fn n8_5_what_is_no_message_is_an_excess_also_between_messages() {
        let intake = Intake::default();
        intake.note_connection(usize::MAX);
        assert!(!intake.has_excess(PAYLOAD_MAX + BESIDES_MAX, 1));
        assert!(intake.has_excess(PAYLOAD_MAX + BESIDES_MAX + 1, 2));
        intake.start_over();
        assert!(!intake.has_excess(BESIDES_MAX, 3));
        let mut read = BESIDES_MAX;
        let found = (0..1000).any(|turn| {
            read += 100_000;
            intake.note_message(20, 100);
            intake.has_excess(read, turn)
        });
        assert!(found);
    }
}
