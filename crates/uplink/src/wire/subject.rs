//! Subjects: who sends, what it is, and for whom. The sender's name is a part of each, so that the
//! permissions of a NATS account prove it: a node may publish below its own name alone.

use crate::wire::names::check_name;
use mainspring_message::Kind;

/// What a message between nodes is, by its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A node tells that it is there.
    Hello,
    /// A request for whichever node shares this.
    Request(RequestSubject<'a>),
    /// Something for one node alone.
    To(&'a str, Direct<'a>),
    /// An answer for a node.
    Reply(&'a str),
    /// An event for whoever wants it.
    Event(&'a str),
    /// Nobody took the request of this number: the server says so itself.
    NoResponders(u64),
}

/// Which request a subject is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSubject<'a> {
    /// The hash of what is shared.
    pub hash: &'a str,
    /// A command or a query.
    pub kind: Kind,
    /// Its type.
    pub type_name: &'a str,
}

/// What is for one node alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct<'a> {
    /// A request.
    Request(RequestSubject<'a>),
    /// Whether requests are still worked on.
    Ask,
    /// A request is not wanted any more.
    Cancel,
    /// What is shared?
    Catalogue,
    /// What is behind this hash?
    Manifest,
    /// An answer at once, to measure the way.
    Ping,
    /// What is remembered of a request?
    Trace,
    /// Durable events are wanted, by cursor.
    Follow,
    /// A durable event.
    Event(&'a str),
    /// Durable events up to this one have arrived.
    Acknowledge,
}

/// The subjects of one node on one bus.
#[derive(Clone, Debug)]
pub struct Subjects {
    /// `ms.<bus>.`
    bus: String,
    node: String,
}

fn kind_of(word: &str) -> Option<Kind> {
    match word {
        "command" => Some(Kind::Command),
        "query" => Some(Kind::Query),
        _ => None,
    }
}

impl<'a> RequestSubject<'a> {
    fn parse(rest: &'a str) -> Option<RequestSubject<'a>> {
        let (hash, rest) = rest.split_once('.')?;
        let (kind, type_name) = rest.split_once('.')?;
        Some(RequestSubject { hash, kind: kind_of(kind)?, type_name })
    }

    fn tail(&self) -> String {
        ["req.", self.hash, ".", self.kind.as_str(), ".", self.type_name].concat()
    }
}

impl Subjects {
    /// Those of this node on this bus.
    #[must_use]
    pub fn new(bus: &str, node: &str) -> Subjects {
        Subjects { bus: format!("ms.{bus}."), node: node.to_owned() }
    }

    /// A subject below this node's own name, of these parts.
    fn own<const N: usize>(&self, rest: [&str; N]) -> String {
        let bytes = rest.iter().map(|part| part.len()).sum::<usize>();
        let mut subject = String::with_capacity(self.bus.len() + self.node.len() + 1 + bytes);
        subject.push_str(&self.bus);
        subject.push_str(&self.node);
        subject.push('.');
        rest.iter().for_each(|part| subject.push_str(part));
        subject
    }

    fn anybodys(&self, rest: &str) -> String {
        format!("{}*.{rest}", self.bus)
    }

    /// Where this node tells that it is there.
    #[must_use]
    pub fn hello(&self) -> String {
        self.own(["node"])
    }

    /// Where it sends a request: to one node, or to whichever takes it.
    #[must_use]
    pub fn request(&self, to: Option<&str>, what: RequestSubject<'_>) -> String {
        let RequestSubject { hash, kind, type_name } = what;
        match to {
            Some(node) => self.own(["to.", node, ".req.", hash, ".", kind.as_str(), ".", type_name]),
            None => self.own(["req.", hash, ".", kind.as_str(), ".", type_name]),
        }
    }

    /// Where it sends something to one node.
    #[must_use]
    pub fn direct(&self, to: &str, what: Direct<'_>) -> String {
        let tail = match what {
            Direct::Request(request) => request.tail(),
            Direct::Ask => "ask".into(),
            Direct::Cancel => "cancel".into(),
            Direct::Catalogue => "catalogue".into(),
            Direct::Manifest => "manifest".into(),
            Direct::Ping => "ping".into(),
            Direct::Trace => "trace".into(),
            Direct::Follow => "follow".into(),
            Direct::Event(type_name) => format!("evt.{type_name}"),
            Direct::Acknowledge => "ack".into(),
        };
        self.own(["to.", to, ".", &tail])
    }

    /// Where it answers a node.
    #[must_use]
    pub fn reply(&self, to: &str) -> String {
        self.own(["rep.", to])
    }

    /// Where it tells an event.
    #[must_use]
    pub fn event(&self, type_name: &str) -> String {
        self.own(["evt.", type_name])
    }

    /// Where the server says that nobody took a request.
    #[must_use]
    pub fn no_responders(&self, number: u64) -> String {
        self.own(["none.", itoa::Buffer::new().format(number)])
    }

    /// What every node listens to.
    #[must_use]
    pub fn always(&self) -> Vec<String> {
        vec![
            self.anybodys("node"),
            self.anybodys(&format!("to.{}.>", self.node)),
            self.anybodys(&format!("rep.{}", self.node)),
            self.own(["none.*"]),
        ]
    }

    /// What a node listens to that shares this, together with others.
    #[must_use]
    pub fn shared(&self, what: RequestSubject<'_>) -> String {
        self.anybodys(&what.tail())
    }

    /// What a node listens to that wants events of this pattern.
    #[must_use]
    pub fn events(&self, pattern: &str) -> String {
        match pattern.strip_suffix('*') {
            Some(prefix) => self.anybodys(&format!("evt.{prefix}>")),
            None => self.anybodys(&format!("evt.{pattern}")),
        }
    }

    /// Who sent a message, and what it is; nothing if it is none of this bus, or if no node can be
    /// called so: an answer is sent to that name.
    #[must_use]
    pub fn parse<'a>(&self, subject: &'a str) -> Option<(&'a str, Subject<'a>)> {
        let (from, rest) = subject.strip_prefix(self.bus.as_str())?.split_once('.')?;
        check_name(from).ok()?;
        let (word, rest) = rest.split_once('.').unwrap_or((rest, ""));
        let what = match word {
            "node" if rest.is_empty() => Subject::Hello,
            "req" => Subject::Request(RequestSubject::parse(rest)?),
            "rep" if !rest.is_empty() => Subject::Reply(rest),
            "evt" if !rest.is_empty() => Subject::Event(rest),
            "none" => Subject::NoResponders(rest.parse().ok()?),
            "to" => {
                let (to, rest) = rest.split_once('.')?;
                Subject::To(to, Direct::parse(rest)?)
            }
            _ => return None,
        };
        Some((from, what))
    }
}

impl<'a> Direct<'a> {
    fn parse(rest: &'a str) -> Option<Direct<'a>> {
        let (word, rest) = rest.split_once('.').unwrap_or((rest, ""));
        Some(match word {
            "req" => Direct::Request(RequestSubject::parse(rest)?),
            "ask" => Direct::Ask,
            "cancel" => Direct::Cancel,
            "catalogue" => Direct::Catalogue,
            "manifest" => Direct::Manifest,
            "ping" => Direct::Ping,
            "trace" => Direct::Trace,
            "follow" => Direct::Follow,
            "evt" if !rest.is_empty() => Direct::Event(rest),
            "ack" => Direct::Acknowledge,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_sender_is_part_of_it() {
        let subjects = Subjects::new("shop", "a");
        let request = RequestSubject { hash: "00ff", kind: Kind::Command, type_name: "Order.Line.Add" };
        let read =
            |text: &str| subjects.parse(text).map(|(from, what)| (from.to_owned(), format!("{what:?}")));
        let cases = [
            (subjects.hello(), Subject::Hello),
            (subjects.request(None, request), Subject::Request(request)),
            (subjects.request(Some("b"), request), Subject::To("b", Direct::Request(request))),
            (subjects.reply("b"), Subject::Reply("b")),
            (subjects.event("Order.Placed"), Subject::Event("Order.Placed")),
            (subjects.no_responders(17), Subject::NoResponders(17)),
            (subjects.direct("b", Direct::Ask), Subject::To("b", Direct::Ask)),
            (subjects.direct("b", Direct::Event("A.B")), Subject::To("b", Direct::Event("A.B"))),
        ];
        for (text, what) in cases {
            assert_eq!(read(&text), Some(("a".into(), format!("{what:?}"))), "{text}");
            assert!(text.starts_with("ms.shop.a."), "a node publishes below its own name alone: {text}");
        }
    }

    #[test]
    fn what_is_none_of_this_bus_is_nothing() {
        let subjects = Subjects::new("shop", "a");
        for other in [
            "",
            "ms.shop",
            "ms.other.a.node",
            "ms.shop.a",
            "ms.shop.a.req.x",
            "ms.shop.a.req.h.event.A.B",
            "ms.shop.a.none.x",
            "ms.shop.a.to.b",
            "ms.shop.a.to.b.unknown",
            "ms.shop.a.node.b",
            // No node is called so, and an answer to it would be a subject of another form.
            "ms.shop.a\u{1}b.node",
            "ms.shop.*.node",
        ] {
            assert_eq!(subjects.parse(other), None, "{other}");
        }
    }

    #[test]
    fn patterns_of_events_become_subjects() {
        let subjects = Subjects::new("shop", "a");
        assert_eq!(subjects.events("Order.*"), "ms.shop.*.evt.Order.>");
        assert_eq!(subjects.events("Order.Placed"), "ms.shop.*.evt.Order.Placed");
    }
}
