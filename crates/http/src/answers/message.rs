//! One command, query or event: the data is the body, the outcome is the response.

use super::{Asked, respond};
use crate::bus::exchange::{Ask, Exchange, Outcome};
use crate::cloud_events;
use crate::problem::Problem;
use crate::wire::body::{self, Body};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use mainspring_message::{Json, Kind, NAME_BYTES_MAX, write_json_string};
use std::rc::Rc;

const JSON: &str = "application/json";
// Known once, so that no request pays for reading their names.
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
static PREFER: HeaderName = HeaderName::from_static("prefer");
static MESSAGE_ID: HeaderName = HeaderName::from_static("x-message-id");
/// As W3C has it.
const TRACESTATE_BYTES_MAX: usize = 512;

/// `POST /v1/commands/{Type}`, `/v1/queries/{Type}`, `/v1/events/{Type}`.
pub(super) async fn send(
    asked: &Asked<'_>,
    kind: Kind,
    type_name: &str,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    let shared = asked.connection.shared();
    check_media_type(asked)?;
    let bytes = body::read(&shared.reactor, &shared.options.limits, body).await?;
    send_data(asked, kind, type_name, &bytes).await
}

/// `GET /v1/queries/{Type}?data=`.
pub(super) async fn query_by_address(asked: &Asked<'_>, type_name: &str) -> Result<Response<Body>, Problem> {
    let data = asked.parameter("data").unwrap_or_default();
    send_data(asked, Kind::Query, type_name, data.as_bytes()).await
}

/// `POST /v1/events` with a CloudEvent.
pub(super) async fn cloud_event(asked: &Asked<'_>, body: Incoming) -> Result<Response<Body>, Problem> {
    let shared = asked.connection.shared();
    let bytes = body::read(&shared.reactor, &shared.options.limits, body).await?;
    let is_structured = asked.media_type().as_deref() == Some("application/cloudevents+json");
    let event = if is_structured {
        cloud_events::read_structured(&bytes)?
    } else {
        cloud_events::read_binary(asked.headers, &bytes)?
    };
    let mut metadata = Metadata::read(asked)?;
    metadata.id = event.id;
    metadata.correlation = event.correlation.or(metadata.correlation);
    if event.traceparent.is_some() {
        (metadata.traceparent, metadata.extra) = (event.traceparent, String::new());
    }
    metadata.extra.push_str(&event.extra);
    emit(asked, &event.type_name, &event.data, &metadata).await
}

async fn send_data(
    asked: &Asked<'_>,
    kind: Kind,
    type_name: &str,
    bytes: &[u8],
) -> Result<Response<Body>, Problem> {
    let data = json(bytes)?;
    let metadata = Metadata::read(asked)?;
    if kind == Kind::Event {
        return emit(asked, type_name, data.as_str(), &metadata).await;
    }
    let exchange = asked.exchange()?;
    let ask = Ask {
        kind,
        type_name,
        data: data.as_str(),
        id: &metadata.id,
        timeout_ms: metadata.timeout_ms,
        correlation: metadata.correlation.as_deref(),
        traceparent: metadata.traceparent.as_deref(),
        extra: &metadata.extra,
        goes_on: kind == Kind::Command && metadata.is_repeatable,
    };
    let outcome = exchange.ask(&ask).await.map_err(gone)?;
    Ok(respond_outcome(outcome, &metadata.id))
}

/// Sends an event. It has no answer; a refusal comes before the answer to whatever is sent after
/// it.
async fn emit(
    asked: &Asked<'_>,
    type_name: &str,
    data: &str,
    metadata: &Metadata,
) -> Result<Response<Body>, Problem> {
    let exchange: Rc<Exchange> = asked.exchange()?;
    let event = Ask {
        correlation: metadata.correlation.as_deref(),
        traceparent: metadata.traceparent.as_deref(),
        extra: &metadata.extra,
        ..Ask::new(Kind::Event, type_name, data, &metadata.id)
    };
    exchange.send(&event);
    let ping = asked.connection.shared().bus.new_id();
    exchange.send(&Ask::new(Kind::Query, "Syscall.Ping", "null", &ping));
    loop {
        let message = exchange.next().await.map_err(gone)?;
        exchange.written(message.line().len() + 1);
        // What was refused before its id could be read is refused under another name, and nothing
        // else is under way here.
        if message.kind() == Kind::Error && message.causation() != Some(&ping) {
            let refusal = Problem::of_error(&message);
            exchange.outcome_of(&ping).await.map_err(gone)?;
            return Err(refusal);
        }
        if message.causation() == Some(&ping) {
            let mut response = respond(StatusCode::ACCEPTED, JSON, Bytes::new());
            set_id(response.headers_mut(), &metadata.id);
            return Ok(response);
        }
    }
}

fn respond_outcome(outcome: Outcome, id: &str) -> Response<Body> {
    let mut response = match outcome.message.kind() {
        Kind::Error => Problem::of_error(&outcome.message).into_response(),
        _ => respond(StatusCode::OK, JSON, outcome.into_data()),
    };
    set_id(response.headers_mut(), id);
    response
}

fn set_id(headers: &mut HeaderMap, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(&MESSAGE_ID, value);
    }
}

fn gone(closed: crate::bus::Closed) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, closed.0).and_close()
}

fn check_media_type(asked: &Asked<'_>) -> Result<(), Problem> {
    match asked.media_type().as_deref() {
        None | Some(JSON) => Ok(()),
        Some(other) if other.starts_with("application/") && other.ends_with("+json") => Ok(()),
        // What curl says when nobody tells it what it sends.
        Some("application/x-www-form-urlencoded") => Ok(()),
        Some(other) => {
            let text = format!("the body is {other}; send JSON (Content-Type: application/json)");
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
        }
    }
}

/// The data of a message. No body is no data: `null`.
fn json(bytes: &[u8]) -> Result<Json, Problem> {
    let bad = |text: String| Problem::new(StatusCode::BAD_REQUEST, text);
    let text = std::str::from_utf8(bytes).map_err(|error| bad(format!("the body is not UTF-8: {error}")))?;
    if text.trim_ascii().is_empty() {
        return Ok(Json::null());
    }
    Json::parse(text).map_err(|error| bad(format!("the body is {error}")))
}

/// What headers say about a message.
struct Metadata {
    id: String,
    /// The client chose the id, so it can repeat the request and get the same answer.
    is_repeatable: bool,
    timeout_ms: Option<u64>,
    correlation: Option<String>,
    traceparent: Option<String>,
    extra: String,
}

impl Metadata {
    fn read(asked: &Asked<'_>) -> Result<Metadata, Problem> {
        let key = name(asked.headers, &IDEMPOTENCY_KEY)?;
        let correlation = name(asked.headers, &CORRELATION)?;
        let header = |name: &HeaderName, bytes_max: usize| {
            let value = asked.headers.get(name)?.to_str().ok()?;
            (1..=bytes_max).contains(&value.len()).then_some(value)
        };
        // As W3C has it: what cannot be read is left out, and the rest without it.
        let traceparent = header(&TRACEPARENT, NAME_BYTES_MAX).filter(|text| is_traceparent(text));
        let mut extra = String::new();
        if let (Some(_), Some(state)) = (traceparent, header(&TRACESTATE, TRACESTATE_BYTES_MAX)) {
            extra.push_str(",\"tracestate\":");
            write_json_string(state, &mut extra);
        }
        Ok(Metadata {
            is_repeatable: key.is_some(),
            id: key.unwrap_or_else(|| asked.connection.shared().bus.new_id()),
            timeout_ms: wait(asked.headers)?,
            correlation,
            traceparent: traceparent.map(str::to_owned),
            extra,
        })
    }
}

/// Whether a `traceparent` is as W3C writes it: `00-{32 digits}-{16 digits}-{2 digits}`, or of a
/// later version.
fn is_traceparent(text: &str) -> bool {
    let lengths = [2, 32, 16, 2];
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = text.split('-');
    let is_shaped =
        lengths.iter().all(|length| parts.next().is_some_and(|part| part.len() == *length && is_hex(part)));
    is_shaped && !text.starts_with("ff") && (!text.starts_with("00") || parts.next().is_none())
}

/// A header that names something: an id or a workflow. Drafts of `Idempotency-Key` put it in
/// quotes.
fn name(headers: &HeaderMap, header: &HeaderName) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header) else { return Ok(None) };
    let bad = |what: &str| Problem::new(StatusCode::BAD_REQUEST, format!("{header}: {what}"));
    let text = value.to_str().map_err(|_| bad("is not plain text"))?;
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    match text.len() {
        0 => Err(bad("is empty")),
        1..=NAME_BYTES_MAX => Ok(Some(text.to_owned())),
        _ => Err(bad("must be at most 256 bytes long")),
    }
}

/// `Prefer: wait=SECONDS`, as milliseconds.
pub(super) fn wait(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    for value in headers.get_all(&PREFER) {
        let Ok(text) = value.to_str() else { continue };
        for preference in text.split(',') {
            let Some((name, value)) = preference.split_once('=') else { continue };
            if !name.trim().eq_ignore_ascii_case("wait") {
                continue;
            }
            let seconds = value.split(';').next().unwrap_or_default().trim().trim_matches('"');
            let milliseconds = seconds.parse::<f64>().ok().map(|seconds| seconds * 1000.0);
            return match milliseconds {
                Some(ms) if (1.0..9e15).contains(&ms) => Ok(Some(ms as u64)),
                _ => {
                    let text = format!("Prefer: wait={seconds} is no number of seconds");
                    Err(Problem::new(StatusCode::BAD_REQUEST, text))
                }
            };
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_as_w3c_writes_it() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_traceparent(good) && is_traceparent(&format!("01{}-more", &good[2..])));
        for bad in
            ["", "00", &good[..54], &format!("{good}-x"), &good.to_uppercase(), &format!("ff{}", &good[2..])]
        {
            assert!(!is_traceparent(bad), "{bad}");
        }
    }

    #[test]
    fn wait_is_seconds_and_nothing_else_counts() {
        let ask = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_str(text).unwrap());
            wait(&headers).map_err(|problem| problem.status().as_u16())
        };
        assert_eq!(ask("wait=10"), Ok(Some(10_000)));
        assert_eq!(ask("respond-async, Wait=\"2\"; x=1"), Ok(Some(2_000)));
        assert_eq!(ask("wait=0.5"), Ok(Some(500)));
        assert_eq!(ask("return=minimal"), Ok(None));
        for bad in ["wait=x", "wait=0", "wait=-1", "wait=", "wait=1e300", "wait=NaN", "wait=inf"] {
            assert_eq!(ask(bad), Err(400), "{bad}");
        }
    }
}
