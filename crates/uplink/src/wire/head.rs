//! The head of a message between nodes: one header, `Ms`, with words. What follows is the payload:
//! the line of a message as it is, or a list of numbers.

use crate::sharing::nodes::Boot;
use mainspring_message::{Failure, Started};

/// Which request, of which run of which node: answers repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tag {
    pub(crate) boot: Boot,
    pub(crate) number: u64,
}

/// The head of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A request, with how long there is and who asks.
    Request {
        tag: Tag,
        left_ms: u64,
        is_durable: bool,
        peer: String,
    },
    /// These requests of that run are being worked on. The payload has their numbers.
    Taken {
        by: Boot,
        of: Boot,
    },
    /// These requests of that run are not known. The payload has their numbers.
    Gone {
        by: Boot,
        of: Boot,
    },
    /// The outcome of a request. The payload is its line.
    Outcome {
        by: Boot,
        tag: Tag,
    },
    /// How far a request is. The payload is the line of an event.
    Progress {
        by: Boot,
        tag: Tag,
    },
    /// A request ended in an error of that node's own. The payload is its text.
    Failed {
        by: Boot,
        tag: Tag,
        failure: Failure,
        started: Started,
    },
    /// Are these requests of that run being worked on? The payload has their numbers.
    Ask {
        of: Boot,
    },
    /// This request is not wanted any more.
    Cancel {
        tag: Tag,
    },
    /// What is shared, a part of it. The payload is JSON.
    Catalogue {
        digest: String,
        from: usize,
        is_last: bool,
    },
    /// What is behind a hash. The payload is JSON; empty if that is not known.
    Manifest {
        hash: String,
    },
    /// A ping, or its answer.
    Ping {
        at_ns: i64,
    },
    Pong {
        at_ns: i64,
    },
    /// What is remembered of a request of this peer? The payload is its id.
    Trace {
        number: u64,
        peer: String,
    },
    /// What is remembered, as JSON; empty if nothing is.
    Traced {
        number: u64,
    },
    /// An event as it happens; one that is durable comes by the journal of its node as well.
    Event {
        is_durable: bool,
    },
    /// A durable event, or that it has arrived: its number, and the one before it of the same
    /// reading.
    Durable {
        epoch: u64,
        number: u64,
        before: u64,
    },
}

fn yes_or_no(started: Started) -> &'static str {
    started.as_str()
}

/// A name in one word: whatever is no plain character is written as `%` and two digits for each
/// byte.
fn in_one_word(name: &str) -> String {
    let mut word = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            word.push(byte as char);
        } else {
            word.push_str(&format!("%{byte:02x}"));
        }
    }
    word
}

fn from_one_word(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Bytes of the name of a remote peer.
const PEER_BYTES_MAX: usize = 256;

/// The name of a remote peer.
fn read_peer(word: &str) -> Option<String> {
    let is_name = |peer: &String| peer.len() <= PEER_BYTES_MAX && !peer.chars().any(char::is_control);
    from_one_word(word).filter(is_name)
}

impl Head {
    pub(crate) fn write(&self) -> String {
        match self {
            Head::Request { tag, left_ms, is_durable, peer } => {
                let durable = u8::from(*is_durable);
                format!("req {} {} {left_ms} {durable} {}", tag.boot, tag.number, in_one_word(peer))
            }
            Head::Taken { by, of } => format!("taken {by} {of}"),
            Head::Gone { by, of } => format!("gone {by} {of}"),
            Head::Outcome { by, tag } => format!("out {by} {} {}", tag.boot, tag.number),
            Head::Progress { by, tag } => format!("progress {by} {} {}", tag.boot, tag.number),
            Head::Failed { by, tag, failure, started } => {
                let (name, started) = (failure.type_name(), yes_or_no(*started));
                format!("failed {by} {} {} {name} {started}", tag.boot, tag.number)
            }
            Head::Ask { of } => format!("ask {of}"),
            Head::Cancel { tag } => format!("cancel {} {}", tag.boot, tag.number),
            Head::Catalogue { digest, from, is_last } => {
                format!("catalogue {digest} {from} {}", u8::from(*is_last))
            }
            Head::Manifest { hash } => format!("manifest {hash}"),
            Head::Ping { at_ns } => format!("ping {at_ns}"),
            Head::Pong { at_ns } => format!("pong {at_ns}"),
            Head::Trace { number, peer } => format!("trace {number} {}", in_one_word(peer)),
            Head::Traced { number } => format!("traced {number}"),
            Head::Event { is_durable } => format!("event {}", u8::from(*is_durable)),
            Head::Durable { epoch, number, before } => format!("durable {epoch} {number} {before}"),
        }
    }

    /// Reads a head; nothing if it is none.
    pub(crate) fn parse(text: &str) -> Option<Head> {
        let mut words = text.split(' ');
        let head = Head::parse_words(&mut words)?;
        words.next().is_none().then_some(head)
    }

    fn parse_words<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Head> {
        let name = words.next()?;
        let boot = |words: &mut dyn Iterator<Item = &'a str>| Boot::parse(words.next()?);
        Some(match name {
            "req" => {
                let tag = Tag { boot: boot(words)?, number: words.next()?.parse().ok()? };
                let left_ms = words.next()?.parse().ok()?;
                let is_durable = words.next()? == "1";
                let peer = read_peer(words.next()?)?;
                Head::Request { tag, left_ms, is_durable, peer }
            }
            "taken" => Head::Taken { by: boot(words)?, of: boot(words)? },
            "gone" => Head::Gone { by: boot(words)?, of: boot(words)? },
            "out" => {
                let by = boot(words)?;
                Head::Outcome { by, tag: Tag { boot: boot(words)?, number: words.next()?.parse().ok()? } }
            }
            "progress" => {
                let by = boot(words)?;
                Head::Progress { by, tag: Tag { boot: boot(words)?, number: words.next()?.parse().ok()? } }
            }
            "failed" => {
                let by = boot(words)?;
                let tag = Tag { boot: boot(words)?, number: words.next()?.parse().ok()? };
                let failure = Failure::from_type_name(words.next()?)?;
                let started = match words.next()? {
                    "no" => Started::No,
                    _ => Started::Yes,
                };
                Head::Failed { by, tag, failure, started }
            }
            "ask" => Head::Ask { of: boot(words)? },
            "cancel" => Head::Cancel { tag: Tag { boot: boot(words)?, number: words.next()?.parse().ok()? } },
            "catalogue" => Head::Catalogue {
                digest: words.next()?.to_owned(),
                from: words.next()?.parse().ok()?,
                is_last: words.next()? == "1",
            },
            "manifest" => Head::Manifest { hash: words.next()?.to_owned() },
            "ping" => Head::Ping { at_ns: words.next()?.parse().ok()? },
            "pong" => Head::Pong { at_ns: words.next()?.parse().ok()? },
            "trace" => Head::Trace { number: words.next()?.parse().ok()?, peer: read_peer(words.next()?)? },
            "traced" => Head::Traced { number: words.next()?.parse().ok()? },
            "event" => Head::Event { is_durable: words.next()? == "1" },
            "durable" => Head::Durable {
                epoch: words.next()?.parse().ok()?,
                number: words.next()?.parse().ok()?,
                before: words.next()?.parse().ok()?,
            },
            _ => return None,
        })
    }
}

/// Numbers as a payload.
pub(crate) fn write_numbers(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let words: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    words.join(" ").into_bytes()
}

/// The numbers of a payload; what is none is left out.
pub(crate) fn read_numbers(payload: &[u8]) -> impl Iterator<Item = u64> + '_ {
    std::str::from_utf8(payload).unwrap_or("").split(' ').filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (by, of) = (Boot { at_ms: 5, nonce: 7 }, Boot { at_ms: u64::MAX, nonce: u64::MAX });
        let tag = Tag { boot: of, number: 12 };
        let heads = [
            Head::Request { tag, left_ms: 30_000, is_durable: true, peer: "user:1000".into() },
            Head::Request { tag, left_ms: 0, is_durable: false, peer: "a b%\u{e4}".into() },
            Head::Request { tag, left_ms: 0, is_durable: false, peer: String::new() },
            Head::Taken { by, of },
            Head::Gone { by, of },
            Head::Outcome { by, tag },
            Head::Progress { by, tag },
            Head::Failed { by, tag, failure: Failure::Overloaded, started: Started::No },
            Head::Failed { by, tag, failure: Failure::ActorCrash, started: Started::Yes },
            Head::Ask { of },
            Head::Cancel { tag },
            Head::Catalogue { digest: "ff".into(), from: 3, is_last: true },
            Head::Manifest { hash: "ff".into() },
            Head::Trace { number: 7, peer: "user:1000".into() },
            Head::Traced { number: 7 },
            Head::Ping { at_ns: -1 },
            Head::Pong { at_ns: 1 },
            Head::Event { is_durable: true },
            Head::Durable { epoch: 1, number: 9, before: 8 },
        ];
        for head in heads {
            let text = head.write();
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{text}");
            assert_eq!(Head::parse(&text), Some(head), "{text}");
        }
    }

    #[test]
    fn what_is_no_head_is_nothing() {
        for text in [
            "",
            "req",
            "req x 1 2 0 p",
            "taken 1-2",
            "out 1-2 1-2 x",
            "durable -1 1 1",
            "event 1 2",
            "nonsense 1",
            "failed 1-2 1-2 3 Sys.Nothing no",
            "req 1-2 3 4 0 %zz",
            "req 1-2 3 4 0 %00",
        ] {
            assert_eq!(Head::parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_whatever_stands_between() {
        assert_eq!(read_numbers(b"1 x 2  3 \xff").collect::<Vec<_>>(), Vec::<u64>::new());
        assert_eq!(read_numbers(b"1 x 2  3 ").collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(write_numbers([1, 22]), b"1 22");
    }
}
