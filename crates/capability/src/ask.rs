//! Requests that a capability makes itself.

use mainspring_message::{Envelope, Json, Kind, Started};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A command or query for another capability.
#[derive(Clone, Debug)]
pub struct Ask {
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    pub(crate) data: Result<Json, String>,
    pub(crate) timeout: Option<Duration>,
}

impl Ask {
    /// A command.
    pub fn command(type_name: impl Into<String>, data: &impl Serialize) -> Ask {
        Ask::new(Kind::Command, type_name, data)
    }

    /// A query.
    pub fn query(type_name: impl Into<String>, data: &impl Serialize) -> Ask {
        Ask::new(Kind::Query, type_name, data)
    }

    fn new(kind: Kind, type_name: impl Into<String>, data: &impl Serialize) -> Ask {
        let data = Json::from_value(data).map_err(|error| error.to_string());
        Ask { kind, type_name: type_name.into(), data, timeout: None }
    }

    /// The type of the request.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// With so much time; without, the daemon decides.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Ask {
        self.timeout = Some(timeout);
        self
    }
}

/// The reply to an [`Ask`].
#[derive(Clone, Debug)]
pub struct Reply(pub(crate) Envelope);

impl Reply {
    /// The data, as a type of one's own.
    ///
    /// # Errors
    /// It does not fit.
    pub fn data<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        self.0.data_as()
    }

    /// The data, as the other one wrote it.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.data()
    }
}

/// Why an [`Ask`] has no reply.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct AskError {
    pub(crate) code: Option<u16>,
    /// The type of the request.
    pub type_name: String,
    /// The type of the error: `Sys.*` if it is the daemon's own. Empty if nobody answered.
    pub error_type: String,
    /// One sentence that a person can act on.
    pub message: String,
    /// Whether another capability had it; `None` if nobody says.
    pub started: Option<Started>,
}

impl AskError {
    /// The code; `None` if there was no answer at all.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.code
    }

    pub(crate) fn of(error: &Envelope, type_name: &str) -> AskError {
        let data: serde_json::Value = serde_json::from_str(error.data()).unwrap_or_default();
        let code = data["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        AskError {
            code: Some(code.unwrap_or(500)),
            type_name: type_name.to_owned(),
            error_type: error.type_name().to_owned(),
            message: data["message"].as_str().unwrap_or("it does not say why").to_owned(),
            started: match data["started"].as_str() {
                Some("yes") => Some(Started::Yes),
                Some("no") => Some(Started::No),
                _ => None,
            },
        }
    }

    pub(crate) fn unanswered(type_name: &str, message: String, started: Option<Started>) -> AskError {
        AskError { code: None, type_name: type_name.to_owned(), error_type: String::new(), message, started }
    }
}
