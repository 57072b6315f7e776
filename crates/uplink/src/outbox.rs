//! What is to be done on the network since it was last asked for, in order. Answers to the same
//! node, and requests that go to the same place, become one message.

use crate::command::Command;
use crate::wire::bundle::{BUNDLE_BYTES_MAX, LENGTH_BYTES_MAX, PARTS_MAX, append, begin};
use mainspring_kernel::ConnectionId;

/// Messages that more can be joined to at once.
const OPEN_MAX: usize = 8;
/// How far apart the numbers of requests in one bundle may be.
pub(crate) const SPAN_MAX: u64 = 256;

/// A message that more can be joined to.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Which of the commands.
    at: usize,
    /// Messages in it so far.
    parts: usize,
    /// The number of the request that it began with.
    first: u64,
}

/// The commands of one turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    commands: Vec<Command>,
    open: Vec<Open>,
}

impl Outbox {
    /// Adds a command. Nothing that comes later overtakes it.
    pub(crate) fn push(&mut self, command: Command) {
        self.open.clear();
        self.commands.push(command);
    }

    /// Adds an answer. `written` is what the kernel is told when it has left.
    pub(crate) fn answer(
        &mut self,
        subject: String,
        message: Vec<u8>,
        written: Option<(ConnectionId, usize)>,
        bytes_max: usize,
    ) {
        if let Some((_, told)) = self.join(&subject, &message, 0, bytes_max) {
            match (told.last_mut(), written) {
                (Some((last, bytes)), Some((connection, more))) if *last == connection => *bytes += more,
                (_, written) => told.extend(written),
            }
            return;
        }
        let written = written.into_iter().collect();
        self.begin(Command::Publish { subject, reply: None, message, written }, 0);
    }

    /// Adds a request of this number. Gives the number of the one that it is joined to, which is
    /// its own if it goes by itself: the server says of that one that nobody takes it.
    pub(crate) fn request(
        &mut self,
        subject: String,
        reply: impl FnOnce() -> String,
        message: Vec<u8>,
        number: u64,
        bytes_max: usize,
    ) -> u64 {
        if let Some((first, _)) = self.join(&subject, &message, number, bytes_max) {
            return first;
        }
        let reply = Some(reply());
        self.begin(Command::Publish { subject, reply, message, written: Vec::new() }, number);
        number
    }

    /// What was added since this was last asked.
    pub(crate) fn drain(&mut self, into: &mut Vec<Command>) {
        self.open.clear();
        into.append(&mut self.commands);
    }

    /// Adds a message that more can be joined to.
    fn begin(&mut self, command: Command, first: u64) {
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(Open { at: self.commands.len(), parts: 1, first });
        self.commands.push(command);
    }

    /// Joins a message to the open one on this subject, if there is one and it fits. Gives the
    /// number that one began with, and what the kernel is told when it has left.
    fn join(
        &mut self,
        on: &str,
        more: &[u8],
        number: u64,
        bytes_max: usize,
    ) -> Option<(u64, &mut Vec<(ConnectionId, usize)>)> {
        let commands = &self.commands;
        let is_there = |open: &&mut Open| matches!(&commands[open.at], Command::Publish { subject, .. } if subject == on);
        let Open { at, parts, first } = self.open.iter_mut().rev().find(is_there)?;
        let Command::Publish { message, written, .. } = &mut self.commands[*at] else { return None };
        let bytes = message.len() + more.len() + 3 * LENGTH_BYTES_MAX;
        let fits = *parts < PARTS_MAX
            && bytes <= bytes_max.min(BUNDLE_BYTES_MAX)
            && number.wrapping_sub(*first) < SPAN_MAX;
        if !fits {
            return None;
        }
        if *parts == 1 {
            *message = begin(message);
        }
        append(message, more);
        *parts += 1;
        Some((*first, written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 1 << 20;

    fn drain(outbox: &mut Outbox) -> Vec<(String, Option<String>, String, usize)> {
        let mut commands = Vec::new();
        outbox.drain(&mut commands);
        let told = commands.into_iter().map(|command| match command {
            Command::Publish { subject, reply, message, written } => {
                let bytes = written.iter().map(|(_, bytes)| bytes).sum();
                (subject, reply, String::from_utf8(message).unwrap(), bytes)
            }
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    fn event(subject: &str) -> Command {
        Command::Publish { subject: subject.into(), reply: None, message: b"e".to_vec(), written: Vec::new() }
    }

    #[test]
    fn n3_10_answers_to_one_node_are_one_message_and_all_that_left_is_told() {
        let mut outbox = Outbox::default();
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        outbox.answer("rep.a".into(), b"1".to_vec(), Some((one, 10)), ROOM);
        outbox.answer("rep.b".into(), b"x".to_vec(), Some((two, 1)), ROOM);
        outbox.answer("rep.a".into(), b"2".to_vec(), Some((one, 20)), ROOM);
        outbox.answer("rep.a".into(), b"3".to_vec(), None, ROOM);
        outbox.answer("rep.a".into(), b"4".to_vec(), Some((two, 40)), ROOM);
        let sent = drain(&mut outbox);
        assert_eq!(sent.len(), 2, "{sent:?}");
        assert_eq!(sent[0], ("rep.a".into(), None, "many\n1\n11\n21\n31\n4".into(), 70));
        assert_eq!(sent[1], ("rep.b".into(), None, "x".into(), 1));
        outbox.answer("rep.a".into(), b"5".to_vec(), None, ROOM);
        assert_eq!(drain(&mut outbox)[0].2, "5", "the next turn begins anew");
    }

    #[test]
    fn n3_10_requests_to_one_place_are_one_message_with_the_number_of_the_first() {
        let mut outbox = Outbox::default();
        let mut send = |number: u64, to: &str| {
            let reply = move || format!("none.{number}");
            outbox.request(to.to_owned(), reply, number.to_string().into_bytes(), number, ROOM)
        };
        assert_eq!([send(7, "x"), send(8, "y"), send(9, "x")], [7, 8, 7]);
        assert_eq!(send(7 + SPAN_MAX, "x"), 7 + SPAN_MAX, "too far from the first");
        assert_eq!(send(6, "y"), 6, "one that is sent again, and is older");
        let sent = drain(&mut outbox);
        assert_eq!(sent[0], ("x".into(), Some("none.7".into()), "many\n1\n71\n9".into(), 0));
        assert_eq!(sent.len(), 4, "{sent:?}");
    }

    #[test]
    fn n3_10_nothing_overtakes_what_is_in_order() {
        let mut outbox = Outbox::default();
        outbox.answer("rep.a".into(), b"1".to_vec(), None, ROOM);
        outbox.push(event("evt"));
        outbox.answer("rep.a".into(), b"2".to_vec(), None, ROOM);
        let sent: Vec<String> = drain(&mut outbox).into_iter().map(|(subject, ..)| subject).collect();
        assert_eq!(sent, ["rep.a", "evt", "rep.a"]);
    }

    #[test]
    fn n3_10_bundles_are_bounded_in_bytes_and_number() {
        let mut outbox = Outbox::default();
        for _ in 0..1000 {
            outbox.answer("rep.a".into(), vec![b'x'; 10], None, ROOM);
        }
        assert_eq!(drain(&mut outbox).len(), 1000_usize.div_ceil(PARTS_MAX));
        for _ in 0..100 {
            outbox.answer("rep.a".into(), vec![b'x'; 10_000], None, ROOM);
        }
        let sent = drain(&mut outbox);
        assert!(sent.len() < 20 && sent.iter().all(|(_, _, text, _)| text.len() <= BUNDLE_BYTES_MAX));
        for _ in 0..100 {
            outbox.answer("rep.a".into(), vec![b'x'; 500], None, 2000);
        }
        assert!(drain(&mut outbox).iter().all(|(_, _, text, _)| text.len() <= 2000));
        outbox.answer("rep.a".into(), vec![b'x'; ROOM], None, ROOM);
        outbox.answer("rep.a".into(), vec![b'x'; ROOM], None, ROOM);
        assert_eq!(drain(&mut outbox).len(), 2, "what is large goes by itself");
    }
}
