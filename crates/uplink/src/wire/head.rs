//! A message between nodes: a head, which is one line of words, and behind it the payload: the line
//! of a message as it is, a list of numbers, or JSON.
//!
//! The head is no header of NATS. Those are a table of texts to whoever writes and reads them, and
//! that took a fifth of all the work of passing a request on.

use crate::sharing::nodes::Boot;
use crate::wire::text::{push_hex, push_number, read_number};
use mainspring_message::{Failure, Started};

/// Bytes of the longest head that is read; those that are written are far shorter.
const HEAD_BYTES_READ: usize = 1024;
/// Room for a usual head.
const HEAD_ROOM: usize = 128;

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

/// Appends a name as one word: whatever is no plain character is written as `%` and two digits for
/// each byte.
fn push_word(name: &str, text: &mut String) {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    if name.bytes().all(is_plain) {
        return text.push_str(name);
    }
    for byte in name.bytes() {
        if is_plain(byte) {
            text.push(byte as char);
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
}

/// Appends a run of a node as a word, and the space before it.
fn push_boot(boot: Boot, text: &mut String) {
    text.push(' ');
    push_hex(boot.at_ms, text);
    text.push('-');
    push_hex(boot.nonce, text);
}

fn push_tag(tag: Tag, text: &mut String) {
    push_boot(tag.boot, text);
    text.push(' ');
    push_number(tag.number, text);
}

/// Appends the head of a request.
fn write_request(tag: Tag, left_ms: u64, is_durable: bool, peer: &str, text: &mut String) {
    text.push_str("req");
    push_tag(tag, text);
    text.push(' ');
    push_number(left_ms, text);
    text.push_str(if is_durable { " 1 " } else { " 0 " });
    push_word(peer, text);
}

/// A message: a line of words, and the payload behind it.
pub(crate) fn with_payload(head: String, payload: &[u8]) -> Vec<u8> {
    let mut message = head.into_bytes();
    message.reserve_exact(1 + payload.len());
    message.push(b'\n');
    message.extend_from_slice(payload);
    message
}

/// The head of a message, nothing if it has none that can be read, and its payload.
#[must_use]
pub(crate) fn split(message: &[u8]) -> (Option<&str>, &[u8]) {
    let bound = message.len().min(HEAD_BYTES_READ);
    match memchr::memchr(b'\n', &message[..bound]) {
        Some(at) => (str::from_utf8(&message[..at]).ok(), &message[at + 1..]),
        None => (None, message),
    }
}

fn from_one_word(word: &str) -> Option<String> {
    if !word.contains('%') {
        return Some(word.to_owned());
    }
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
    /// The message of this head and payload.
    pub(crate) fn message(&self, payload: &[u8]) -> Vec<u8> {
        let mut text = String::with_capacity(HEAD_ROOM + payload.len());
        self.write(&mut text);
        with_payload(text, payload)
    }

    /// The message of a request.
    pub(crate) fn request(tag: Tag, left_ms: u64, is_durable: bool, peer: &str, payload: &[u8]) -> Vec<u8> {
        let mut text = String::with_capacity(HEAD_ROOM + payload.len());
        write_request(tag, left_ms, is_durable, peer, &mut text);
        with_payload(text, payload)
    }

    fn write(&self, text: &mut String) {
        match self {
            Head::Request { tag, left_ms, is_durable, peer } => {
                write_request(*tag, *left_ms, *is_durable, peer, text);
            }
            Head::Outcome { by, tag } => {
                text.push_str("out");
                push_boot(*by, text);
                push_tag(*tag, text);
            }
            Head::Trace { number, peer } => {
                text.push_str("trace ");
                push_number(*number, text);
                text.push(' ');
                push_word(peer, text);
            }
            rare => text.push_str(&rare.write_rare()),
        }
    }

    /// Heads that do not come with each request.
    #[cold]
    fn write_rare(&self) -> String {
        match self {
            Head::Taken { by, of } => format!("taken {by} {of}"),
            Head::Gone { by, of } => format!("gone {by} {of}"),
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
            Head::Traced { number } => format!("traced {number}"),
            Head::Event { is_durable } => format!("event {}", u8::from(*is_durable)),
            Head::Durable { epoch, number, before } => format!("durable {epoch} {number} {before}"),
            Head::Request { .. } | Head::Outcome { .. } | Head::Trace { .. } => String::new(),
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
        let number = |words: &mut dyn Iterator<Item = &'a str>| read_number(words.next()?);
        Some(match name {
            "req" => {
                let tag = Tag { boot: boot(words)?, number: number(words)? };
                let left_ms = number(words)?;
                let is_durable = words.next()? == "1";
                let peer = read_peer(words.next()?)?;
                Head::Request { tag, left_ms, is_durable, peer }
            }
            "taken" => Head::Taken { by: boot(words)?, of: boot(words)? },
            "gone" => Head::Gone { by: boot(words)?, of: boot(words)? },
            "out" => {
                let by = boot(words)?;
                Head::Outcome { by, tag: Tag { boot: boot(words)?, number: number(words)? } }
            }
            "progress" => {
                let by = boot(words)?;
                Head::Progress { by, tag: Tag { boot: boot(words)?, number: number(words)? } }
            }
            "failed" => {
                let by = boot(words)?;
                let tag = Tag { boot: boot(words)?, number: number(words)? };
                let failure = Failure::from_type_name(words.next()?)?;
                let started = match words.next()? {
                    "no" => Started::No,
                    _ => Started::Yes,
                };
                Head::Failed { by, tag, failure, started }
            }
            "ask" => Head::Ask { of: boot(words)? },
            "cancel" => Head::Cancel { tag: Tag { boot: boot(words)?, number: number(words)? } },
            "catalogue" => Head::Catalogue {
                digest: words.next()?.to_owned(),
                from: words.next()?.parse().ok()?,
                is_last: words.next()? == "1",
            },
            "manifest" => Head::Manifest { hash: words.next()?.to_owned() },
            "ping" => Head::Ping { at_ns: words.next()?.parse().ok()? },
            "pong" => Head::Pong { at_ns: words.next()?.parse().ok()? },
            "trace" => Head::Trace { number: number(words)?, peer: read_peer(words.next()?)? },
            "traced" => Head::Traced { number: number(words)? },
            "event" => Head::Event { is_durable: words.next()? == "1" },
            "durable" => Head::Durable {
                epoch: words.next()?.parse().ok()?,
                number: number(words)?,
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
            let mut text = String::new();
            head.write(&mut text);
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
    fn a_message_is_its_head_and_its_payload() {
        let ask = Head::Ask { of: Boot { at_ms: 1, nonce: 2 } };
        assert_eq!(ask.message(b"3 4"), b"ask 1-2\n3 4");
        assert_eq!(split(b"ask 1-2\n3\n4"), (Some("ask 1-2"), &b"3\n4"[..]));
        assert_eq!(split(b"\n"), (Some(""), &b""[..]));
        assert_eq!(split(b""), (None, &b""[..]));
        assert_eq!(split(b"no end"), (None, &b"no end"[..]));
        assert_eq!(split(b"\xff\nx"), (None, &b"x"[..]));
        let far = [vec![b'x'; HEAD_BYTES_READ], b"\n".to_vec()].concat();
        assert_eq!(split(&far), (None, &far[..]), "a head that does not end soon is none");
    }

    #[test]
    fn numbers_are_read_whatever_stands_between() {
        assert_eq!(read_numbers(b"1 x 2  3 \xff").collect::<Vec<_>>(), Vec::<u64>::new());
        assert_eq!(read_numbers(b"1 x 2  3 ").collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(write_numbers([1, 22]), b"1 22");
    }
}
