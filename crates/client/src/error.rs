//! Why there is no answer.

use mainspring_message::{Envelope, Json, Started};
use serde::Deserialize;

/// Why a request, an event or a connection failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request ended in an error message, of a capability or of the daemon.
    #[error("{0}")]
    Outcome(Box<Outcome>),
    /// The daemon's word did not come, though the time of the request is over.
    #[error("the daemon has not answered {type_name} in its time, nor {grace_secs}s later")]
    NoAnswer {
        /// The type of the request.
        type_name: String,
        /// How much longer than the daemon the client waited.
        grace_secs: u64,
    },
    /// Whoever asked cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// The connection was lost or closed, and the request was not repeated.
    #[error("{reason}")]
    Closed {
        /// What happened.
        reason: String,
        /// `No` if the request was never written; `None` if nobody knows whether it was started.
        started: Option<Started>,
    },
    /// There is no connection to be had.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The message breaks the rules of messages, and was not sent.
    #[error("{0}")]
    Invalid(String),
    /// The data of a message is not what the program expects.
    #[error("the data of {type_name} is not what was expected: {reason}")]
    Unexpected {
        /// The type of the message.
        type_name: String,
        /// What does not fit, and where.
        reason: String,
    },
}

impl Error {
    /// The code, as the daemon has it or would have it: 400 to 599. `None` if nothing of the kind
    /// was said.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Outcome(outcome) => Some(outcome.code),
            Error::NoAnswer { .. } => Some(504),
            Error::Cancelled => Some(499),
            _ => None,
        }
    }

    /// Whether a capability had the request. `No`: sending it again is safe. `None`: unknown.
    #[must_use]
    pub fn started(&self) -> Option<Started> {
        match self {
            Error::Outcome(outcome) => outcome.started,
            Error::Closed { started, .. } => *started,
            Error::Invalid(_) | Error::Connect(_) => Some(Started::No),
            _ => None,
        }
    }

    pub(crate) fn closed(reason: impl Into<String>) -> Error {
        Error::Closed { reason: reason.into(), started: None }
    }
}

/// The error message in which a request ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Outcome {
    /// The code: 400 to 599.
    pub code: u16,
    /// The type of the error: `Sys.*` if it is the daemon's own, else that of the request.
    pub type_name: String,
    /// One sentence that a person can act on.
    pub message: String,
    /// Whether a capability had the request; errors of a capability's own do not say.
    pub started: Option<Started>,
    /// The id of the request.
    pub original_id: String,
    /// The type of the request.
    pub original_type: String,
    /// All that the error says.
    pub data: Json,
}

/// The members of an error's data that are understood.
#[derive(Default, Deserialize)]
struct Members {
    code: Option<u16>,
    message: Option<String>,
    started: Option<String>,
}

impl Outcome {
    /// What an error message says about a request.
    pub(crate) fn of(error: &Envelope, id: &str, type_name: &str) -> Outcome {
        let members: Members = serde_json::from_str(error.data()).unwrap_or_default();
        Outcome {
            code: members.code.unwrap_or(500),
            type_name: error.type_name().to_owned(),
            message: members.message.unwrap_or_else(|| "it does not say why".to_owned()),
            started: match members.started.as_deref() {
                Some("yes") => Some(Started::Yes),
                Some("no") => Some(Started::No),
                _ => None,
            },
            original_id: id.to_owned(),
            original_type: type_name.to_owned(),
            data: error.data_json(),
        }
    }

    /// Whether it is about a message that the daemon could not name.
    pub(crate) fn names_no_message(error: &Envelope) -> bool {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Original {
            original_id: Option<serde::de::IgnoredAny>,
        }
        let read = serde_json::from_str::<Original>(error.data());
        error.type_name().starts_with("Sys.") && read.is_ok_and(|found| found.original_id.is_none())
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("no daemon listens at {place} ({reason}); start one with `mainspring up`")]
    NoDaemon {
        /// The socket, or the host and port.
        place: String,
        /// What the operating system says.
        reason: String,
    },
    /// The daemon, or the way to it, is another user's.
    #[error("{0}")]
    Denied(String),
    /// What should say where the daemon is has a fault.
    #[error("{0}")]
    BadAddress(String),
    /// There is no token for a TCP listener, or the daemon does not take it.
    #[error("{0}")]
    Token(String),
    /// The daemon refused the connection as a whole, and said why.
    #[error("the daemon refused the connection ({code}): {message}")]
    TurnedAway {
        /// The code of its error.
        code: u16,
        /// Its words.
        message: String,
    },
    /// Whoever listens there does not speak like a daemon.
    #[error("{0}")]
    NotADaemon(String),
    /// The operating system has no thread, socket or random number for us.
    #[error("{0}")]
    System(String),
}

impl ConnectError {
    /// Whether the next attempt would fail in the same way.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, ConnectError::NoDaemon { .. } | ConnectError::TurnedAway { .. })
    }
}
