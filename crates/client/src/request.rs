//! What is asked, and what is answered.

use crate::error::Error;
use mainspring_message::{Envelope, Json, Kind, NAME_BYTES_MAX, Parts, check_type_name, write_json_string};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, SystemTime};

/// A command, query or event to be sent.
///
/// ```
/// use mainspring_client::Request;
/// use std::time::Duration;
///
/// let request = Request::command("Memory.Set", &serde_json::json!({ "key": "a", "value": 1 }))
///     .timeout(Duration::from_secs(2))
///     .correlation("import-7");
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    data: Result<Json, String>,
    pub(crate) id: Option<String>,
    correlation: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) progress: bool,
    extra: String,
}

impl Request {
    /// A command.
    pub fn command(type_name: impl Into<String>, data: &impl Serialize) -> Request {
        Request::new(Kind::Command, type_name, data)
    }

    /// A query.
    pub fn query(type_name: impl Into<String>, data: &impl Serialize) -> Request {
        Request::new(Kind::Query, type_name, data)
    }

    /// An event.
    pub fn event(type_name: impl Into<String>, data: &impl Serialize) -> Request {
        Request::new(Kind::Event, type_name, data)
    }

    /// A message of a kind that clients send. Data that cannot be written as JSON is refused when
    /// it is sent.
    pub fn new(kind: Kind, type_name: impl Into<String>, data: &impl Serialize) -> Request {
        let data = Json::from_value(data).map_err(|error| error.to_string());
        Request { data, ..Request::of_json(kind, type_name, Json::null()) }
    }

    /// A message whose data is JSON already.
    pub fn of_json(kind: Kind, type_name: impl Into<String>, data: Json) -> Request {
        Request {
            kind,
            type_name: type_name.into(),
            data: Ok(data),
            id: None,
            correlation: None,
            timeout: None,
            progress: false,
            extra: String::new(),
        }
    }

    /// Under an id of one's own: the daemon answers a command that it knows by its id with the
    /// same answer, and does not do it twice.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Request {
        self.id = Some(id.into());
        self
    }

    /// As part of a workflow.
    #[must_use]
    pub fn correlation(mut self, correlation: impl Into<String>) -> Request {
        self.correlation = Some(correlation.into());
        self
    }

    /// With so much time; without, the daemon decides.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.timeout = Some(timeout);
        self
    }

    /// With the progress that the capability tells.
    #[must_use]
    pub fn progress(mut self) -> Request {
        self.progress = true;
        self
    }

    /// With another member of the metadata (`traceparent`, say), which travels unchanged.
    #[must_use]
    pub fn metadata(mut self, name: &str, value: &str) -> Request {
        self.extra.push(',');
        write_json_string(name, &mut self.extra);
        self.extra.push(':');
        write_json_string(value, &mut self.extra);
        self
    }

    /// The line of the message, with its end.
    pub(crate) fn line(&self, id: &str) -> Result<String, Error> {
        let invalid = |field: &str, reason: &str| Error::Invalid(format!("{field}: {reason}"));
        let data = self.data.as_ref().map_err(|reason| invalid("data", reason))?;
        check_type_name(&self.type_name).map_err(|reason| invalid("type", reason))?;
        if data.is_too_deep() {
            return Err(invalid("data", "nests more than 128 levels deep with the message around it"));
        }
        for (field, text) in [("id", Some(id)), ("correlation", self.correlation.as_deref())] {
            if text.is_some_and(|text| !(1..=NAME_BYTES_MAX).contains(&text.len())) {
                return Err(invalid(field, "must be 1 to 256 bytes long"));
            }
        }
        let parts = Parts {
            kind: self.kind,
            type_name: &self.type_name,
            data: data.as_str(),
            id,
            timestamp_ms: now_ms(),
            causation: None,
            correlation: self.correlation.as_deref(),
            traceparent: None,
            timeout_ms: self.timeout.map(timeout_ms).transpose()?,
            extra: &if self.progress {
                format!("{},\"progress\":true", self.extra)
            } else {
                self.extra.clone()
            },
        };
        let mut line = String::with_capacity(data.as_str().len() + 256);
        parts.append_to(&mut line);
        line.push('\n');
        Ok(line)
    }
}

fn timeout_ms(timeout: Duration) -> Result<u64, Error> {
    // What is asked for in microseconds is given a whole millisecond.
    let ms = u64::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    match ms {
        1..=mainspring_message::INTEGER_MAX => Ok(ms),
        _ => Err(Error::Invalid("timeout: must be between 1 and 2^53 milliseconds".to_owned())),
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The reply to a command or query.
#[derive(Clone, Debug)]
pub struct Reply(pub(crate) Envelope);

impl Reply {
    /// The data, as a type of one's own.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if it does not fit.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.0.data_as().map_err(|error| Error::Unexpected {
            type_name: self.0.type_name().to_owned(),
            reason: error.to_string(),
        })
    }

    /// The data, as the capability wrote it.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.data()
    }

    /// The whole message.
    #[must_use]
    pub fn message(&self) -> &Envelope {
        &self.0
    }
}
