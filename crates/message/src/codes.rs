//! THE registry of error codes and of the daemon's own error types.
//!
//! Every error that Mainspring itself writes has one of these types and codes. Numbers follow HTTP
//! where a person would expect it; the type is the finer distinction.

use std::fmt;

/// A failure that the daemon reports: its type on the wire, its code and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// 400: the line is not JSON, not UTF-8, or not an object.
    Malformed,
    /// 403: the sender may not send this (a reserved type, a kind that only actors use).
    Forbidden,
    /// 404: nobody handles this kind and type, or the named thing does not exist.
    Routing,
    /// 409: the same id came before, with a different body or with an answer that is no longer
    /// remembered.
    Conflict,
    /// 413: the line is longer than the limit.
    TooLarge,
    /// 422: the envelope or its data breaks a schema; the message names the field.
    Schema,
    /// 429: the sender is over a limit of its own.
    LimitExceeded,
    /// 499: whoever asked cancelled it; `started` says whether the actor had the request.
    Cancelled,
    /// 422: the sender demands that the message survives the daemon, and it cannot.
    NotDurable,
    /// 500: a fault inside Mainspring.
    Internal,
    /// 502: the actor answered with something invalid and was restarted.
    ActorFault,
    /// 502: the actor ended while it worked on the request.
    ActorCrash,
    /// 502: the daemon ended while an actor worked on the request.
    Interrupted,
    /// 502: the node that had the request is silent, or was started anew.
    NodeLost,
    /// 503: the actor's mailbox is full.
    Overloaded,
    /// 503: the actor failed too often and is not being used until a probe or a reset succeeds.
    Unhealthy,
    /// 503: no node that serves the type can be reached.
    Unreachable,
    /// 503: the daemon is shutting down.
    ShuttingDown,
    /// 503: the journal's disk failed: what became of the request may not survive, and no durable
    /// one is taken.
    StorageFailed,
    /// 504: no outcome before the deadline; `started` says whether the actor had the request.
    Timeout,
    /// 507: the journal's disk is full, so no durable request is taken.
    StorageFull,
    /// 508: the request would wait for an actor that is waiting for this very request.
    Deadlock,
    /// 500: the boot failed.
    Boot,
}

impl Failure {
    /// Every failure, in the order of the registry.
    pub const ALL: [Failure; 23] = [
        Failure::Malformed,
        Failure::Forbidden,
        Failure::Routing,
        Failure::Conflict,
        Failure::TooLarge,
        Failure::Schema,
        Failure::LimitExceeded,
        Failure::Cancelled,
        Failure::NotDurable,
        Failure::Internal,
        Failure::ActorFault,
        Failure::ActorCrash,
        Failure::Interrupted,
        Failure::NodeLost,
        Failure::Overloaded,
        Failure::Unhealthy,
        Failure::Unreachable,
        Failure::ShuttingDown,
        Failure::StorageFailed,
        Failure::Timeout,
        Failure::StorageFull,
        Failure::Deadlock,
        Failure::Boot,
    ];

    /// The number in `data.code`.
    pub const fn code(self) -> u16 {
        match self {
            Failure::Malformed => 400,
            Failure::Forbidden => 403,
            Failure::Routing => 404,
            Failure::Conflict => 409,
            Failure::TooLarge => 413,
            Failure::Schema | Failure::NotDurable => 422,
            Failure::LimitExceeded => 429,
            Failure::Cancelled => 499,
            Failure::Internal | Failure::Boot => 500,
            Failure::ActorFault | Failure::ActorCrash | Failure::Interrupted | Failure::NodeLost => 502,
            Failure::Overloaded
            | Failure::Unhealthy
            | Failure::Unreachable
            | Failure::ShuttingDown
            | Failure::StorageFailed => 503,
            Failure::Timeout => 504,
            Failure::StorageFull => 507,
            Failure::Deadlock => 508,
        }
    }

    /// The message's `type`.
    pub const fn type_name(self) -> &'static str {
        match self {
            Failure::Malformed => "Sys.MalformedError",
            Failure::Forbidden => "Sys.ForbiddenError",
            Failure::Routing => "Sys.RoutingError",
            Failure::Conflict => "Sys.ConflictError",
            Failure::TooLarge => "Sys.TooLargeError",
            Failure::Schema => "Sys.SchemaError",
            Failure::LimitExceeded => "Sys.LimitExceeded",
            Failure::Cancelled => "Sys.Cancelled",
            Failure::NotDurable => "Sys.NotDurable",
            Failure::Internal => "Sys.InternalError",
            Failure::ActorFault => "Sys.ActorFault",
            Failure::ActorCrash => "Sys.ActorCrash",
            Failure::Interrupted => "Sys.Interrupted",
            Failure::NodeLost => "Sys.NodeLost",
            Failure::Overloaded => "Sys.Overloaded",
            Failure::Unhealthy => "Sys.Unhealthy",
            Failure::Unreachable => "Sys.Unreachable",
            Failure::ShuttingDown => "Sys.ShuttingDown",
            Failure::StorageFailed => "Sys.StorageFailed",
            Failure::Timeout => "Sys.Timeout",
            Failure::StorageFull => "Sys.StorageFull",
            Failure::Deadlock => "Sys.Deadlock",
            Failure::Boot => "Sys.BootFailed",
        }
    }

    /// What it means, and what to do about it, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Failure::Malformed => "The line is not JSON, not UTF-8, or not an object.",
            Failure::Forbidden => {
                "The sender may not send this: a reserved type, or a kind that only capabilities use."
            }
            Failure::Routing => "Nobody handles this kind and type, or what is named does not exist.",
            Failure::Conflict => {
                "The same id came before, with a different body or with an answer that is no longer remembered (`started`)."
            }
            Failure::TooLarge => "The line is longer than the limit.",
            Failure::Schema => "The envelope or its data breaks a schema; the message names the field.",
            Failure::LimitExceeded => {
                "The sender is over a limit of its own; wait for answers before sending more."
            }
            Failure::Cancelled => {
                "Its requester cancelled it; `started` says whether the capability had the request."
            }
            Failure::NotDurable => {
                "The sender demands with `metadata.durable` that the message survives the daemon, and it cannot."
            }
            Failure::Internal => "A fault inside Mainspring.",
            Failure::ActorFault => "The capability broke its contract over the request and was restarted.",
            Failure::ActorCrash => "The capability ended while it worked on the request.",
            Failure::Interrupted => {
                "The daemon ended while the capability worked on the request; it is a dead letter."
            }
            Failure::NodeLost => {
                "The node that had the request is silent or was started anew: what it did is not known (`started: yes`)."
            }
            Failure::Overloaded => "The capability's mailbox, or the daemon, is full; try again later.",
            Failure::Unhealthy => {
                "The capability failed too often and rests until a probe or `Sys.ResetActor` succeeds."
            }
            Failure::Unreachable => {
                "No node that serves this type can be reached: the request was not sent (`started: no`)."
            }
            Failure::ShuttingDown => "The daemon is shutting down.",
            Failure::StorageFailed => {
                "The journal's disk failed: what became of the request may not survive (`started`), and no durable one is taken."
            }
            Failure::StorageFull => {
                "The journal's disk is full, so no durable request is taken; what was accepted can end."
            }
            Failure::Timeout => {
                "There was no outcome before the deadline; `started` says whether the capability had the request."
            }
            Failure::Deadlock => {
                "The request would wait for a capability that waits for this very request, or causes form too long a chain."
            }
            Failure::Boot => "The boot failed; the message names the phase.",
        }
    }

    /// The failure that has this type on the wire.
    pub fn from_type_name(name: &str) -> Option<Failure> {
        Failure::ALL.into_iter().find(|failure| failure.type_name() == name)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.type_name(), self.code())
    }
}

/// Whether the actor had the request when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It had: effects may have happened.
    Yes,
    /// It had not: sending the request again is safe.
    No,
}

impl Started {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Started::Yes => "yes",
            Started::No => "no",
        }
    }
}

/// The data of an error that the daemon writes.
#[derive(Clone, Copy, Debug)]
pub struct ErrorData<'a> {
    /// What failed.
    pub failure: Failure,
    /// One sentence that a person can act on.
    pub message: &'a str,
    /// The id of the message that the error is about, when it could be read.
    pub original_id: Option<&'a str>,
    /// The type of the message that the error is about, when it could be read.
    pub original_type: Option<&'a str>,
    /// Whether an actor had the message.
    pub started: Started,
}

impl ErrorData<'_> {
    /// Appends the data as JSON: `{code, message, originalId, originalType, started}`.
    pub fn write(&self, out: &mut String) {
        use crate::write::{write_number, write_string};
        out.push_str("{\"code\":");
        write_number(u64::from(self.failure.code()), out);
        out.push_str(",\"message\":");
        write_string(self.message, out);
        for (name, value) in
            [(",\"originalId\":", self.original_id), (",\"originalType\":", self.original_type)]
        {
            out.push_str(name);
            match value {
                Some(value) => write_string(value, out),
                None => out.push_str("null"),
            }
        }
        out.push_str(",\"started\":\"");
        out.push_str(self.started.as_str());
        out.push_str("\"}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_own_type_and_a_code_of_an_error() {
        for (index, failure) in Failure::ALL.into_iter().enumerate() {
            assert!((400..600).contains(&failure.code()));
            assert_eq!(Failure::from_type_name(failure.type_name()), Some(failure));
            assert_eq!(Failure::ALL.iter().position(|f| f.type_name() == failure.type_name()), Some(index));
            assert!(crate::check_type_name(failure.type_name()).is_ok());
            assert!(failure.meaning().ends_with('.'));
        }
    }

    #[test]
    fn error_data_is_json_with_the_five_members_in_order() {
        let mut out = String::new();
        let data = ErrorData {
            failure: Failure::Timeout,
            message: "no outcome \"in\" time",
            original_id: Some("a"),
            original_type: None,
            started: Started::Yes,
        };
        data.write(&mut out);
        assert_eq!(
            out,
            r#"{"code":504,"message":"no outcome \"in\" time","originalId":"a","originalType":null,"started":"yes"}"#
        );
    }
}
