//! What both conformance clients share: operations as they are read, answers as they are written.

use mainspring_client::{Address, Error, Json, Kind, Request};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// One line of the suite.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation {
    pub(crate) n: u64,
    pub(crate) op: String,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) tcp: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) reconnect: Option<bool>,
    pub(crate) kind: Option<String>,
    #[serde(rename = "type")]
    pub(crate) type_name: Option<String>,
    pub(crate) data: Option<Box<RawValue>>,
    /// In milliseconds.
    pub(crate) timeout: Option<u64>,
    pub(crate) id: Option<String>,
    pub(crate) correlation: Option<String>,
    pub(crate) progress: Option<bool>,
    pub(crate) of: Option<u64>,
    pub(crate) types: Option<Vec<String>>,
    pub(crate) buffer: Option<usize>,
    pub(crate) count: Option<u64>,
    pub(crate) in_flight: Option<usize>,
    pub(crate) bytes: Option<usize>,
}

impl Operation {
    pub(crate) fn data_text(&self) -> String {
        match self.bytes {
            Some(bytes) => json!("x".repeat(bytes)).to_string(),
            None => self.data.as_ref().map_or_else(|| "null".to_owned(), |data| data.get().to_owned()),
        }
    }

    pub(crate) fn request(&self) -> Result<Request, Error> {
        let kind = match (self.op.as_str(), self.kind.as_deref()) {
            ("query", _) | ("flood", Some("query")) => Kind::Query,
            ("emit", _) => Kind::Event,
            _ => Kind::Command,
        };
        let data = Json::parse(&self.data_text()).map_err(|fault| Error::Invalid(fault.to_string()))?;
        let mut request = Request::of_json(kind, self.type_name.clone().unwrap_or_default(), data);
        if let Some(timeout) = self.timeout {
            request = request.timeout(Duration::from_millis(timeout));
        }
        if let Some(id) = &self.id {
            request = request.id(id);
        }
        if let Some(correlation) = &self.correlation {
            request = request.correlation(correlation);
        }
        Ok(if self.progress == Some(true) { request.progress() } else { request })
    }
}

/// Where an operation wants to connect to.
pub(crate) fn address(operation: &Operation) -> Result<Address, Error> {
    if let Some(path) = &operation.socket {
        return Ok(Address::Unix(path.clone()));
    }
    let Some(place) = &operation.tcp else { return Ok(Address::find()?) };
    if let Some(token) = &operation.token {
        return Ok(Address::Tcp { place: place.clone(), token: token.clone() });
    }
    Ok(match &operation.token_file {
        Some(path) => Address::tcp_with_token_file(place, path)?,
        None => Address::tcp(place)?,
    })
}

/// Writes one line.
pub(crate) fn say(n: u64, member: &str, value: &str) {
    let line = format!("{{\"n\":{n},\"{member}\":{value}}}\n");
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).expect("somebody reads");
}

pub(crate) fn say_ok(n: u64, value: &str) {
    say(n, "ok", value);
}

pub(crate) fn error(n: u64, failure: &Error) {
    let kind = match failure {
        Error::Outcome(_) => "outcome",
        Error::NoAnswer { .. } => "timeout",
        Error::Cancelled => "cancelled",
        Error::Closed { .. } => "closed",
        Error::Connect(_) => "connect",
        _ => "invalid",
    };
    let (mut message, mut name, mut original) = (failure.to_string(), None, None);
    if let Error::Outcome(outcome) = failure {
        message.clone_from(&outcome.message);
        name = Some(outcome.type_name.clone());
        original = Some(outcome.original_id.clone());
    }
    let started = failure.started().map(|started| started.as_str());
    let told = json!({
        "kind": kind, "code": failure.code(), "type": name, "message": message, "started": started,
        "originalId": original,
    });
    say(n, "error", &told.to_string());
}
