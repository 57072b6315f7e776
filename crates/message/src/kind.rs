//! The five kinds of message.

use std::fmt;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A request for an operation with effects; ends in one reply or one error.
    Command,
    /// A request for data, without effects; ends in one reply or one error.
    Query,
    /// A fact, told to whoever subscribed.
    Event,
    /// The success that ends a command or query.
    Reply,
    /// The failure that ends a command or query.
    Error,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Kind; 5] = [Kind::Command, Kind::Query, Kind::Event, Kind::Reply, Kind::Error];

    /// The name on the wire.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Command => "command",
            Kind::Query => "query",
            Kind::Event => "event",
            Kind::Reply => "reply",
            Kind::Error => "error",
        }
    }

    /// The kind that has this name on the wire.
    pub fn from_wire(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether this kind asks for an outcome (a command or a query).
    #[inline]
    pub const fn is_request(self) -> bool {
        matches!(self, Kind::Command | Kind::Query)
    }

    /// Whether this kind is an outcome (a reply or an error).
    #[inline]
    pub const fn is_outcome(self) -> bool {
        matches!(self, Kind::Reply | Kind::Error)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
