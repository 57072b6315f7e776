//! The number that every message of the simulation carries in its data, and what is known of it.

use std::collections::BTreeMap;

use mainspring_message::Envelope;

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sender {
    Connection(u64),
    Capability(usize),
    /// The loop: a schedule.
    Schedule,
}

/// A message and its fate.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) sender: Sender,
    /// The identity behind the connection that sent it.
    pub(crate) peer: Option<usize>,
    pub(crate) id: String,
    pub(crate) correlation: Option<String>,
    /// It may not be delivered before this.
    pub(crate) due_ns: i64,
    /// How long between two firings of the schedule that sends it.
    pub(crate) period_ns: Option<i64>,
    /// How often it was sent.
    pub(crate) sends: u32,
    /// For an event that the kernel accepted: its type.
    pub(crate) accepted_event: Option<String>,
    /// How often each capability got it.
    pub(crate) deliveries: BTreeMap<usize, u32>,
    /// When an actor last answered it.
    pub(crate) answered_ns: i64,
    /// For a command whose reply came to its client: when it was given, and how many commands had
    /// been forgotten early when it came.
    pub(crate) replied: Option<(i64, u64)>,
}

/// All tokens, by their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    all: Vec<Token>,
    /// The last token that each capability got from each sender.
    last: BTreeMap<(Sender, usize), u64>,
}

impl Tokens {
    /// The number of the next token.
    pub(crate) fn next(&self) -> u64 {
        self.all.len() as u64
    }

    pub(crate) fn add(&mut self, token: Token) {
        self.all.push(token);
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Token> {
        self.all.get(usize::try_from(number).ok()?)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Token> {
        self.all.get_mut(usize::try_from(number).ok()?)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Token> {
        self.all.iter()
    }

    /// Notes that a capability got a token, and returns the one it got before from the same sender.
    pub(crate) fn follow(&mut self, sender: Sender, capability: usize, number: u64) -> Option<u64> {
        self.last.insert((sender, capability), number)
    }
}

/// The token in a message's data.
pub(crate) fn token_of(message: &Envelope) -> Option<u64> {
    let data = message.data();
    let digits = &data[data.find("\"token\":")? + 8..];
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}
