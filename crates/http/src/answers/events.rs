//! `GET /v1/events?types=&tap=`: events as they happen, as server-sent events or as lines; with
//! `tap`, records of the messages that pass as well, or alone. With `cursor=`: durable events, for
//! whoever comes back; the `Last-Event-ID` of a browser that does so acknowledges what it has.

use super::streams::StreamPlace;
use super::{Asked, message, one_event};
use crate::bus::exchange::{Ask, Exchange};
use crate::cloud_events;
use crate::problem::Problem;
use crate::wire::body::{Body, Chunks};
use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use mainspring_message::{Envelope, Kind};
use mainspring_reactor::{Handle, Sleep};
use serde_json::json;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How an event is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    ServerSent,
    Lines,
}

/// How one event is to be written.
pub(super) struct Wanted {
    pub(super) as_cloud_events: bool,
    /// All of it in the body, instead of attributes in headers.
    pub(super) is_structured: bool,
    pub(super) by_cursor: bool,
}

/// Begins a stream. It has a connection of its own on the bus, so that its subscription ends with
/// it.
pub(super) async fn stream(asked: &Asked<'_>) -> Result<Response<Body>, Problem> {
    let shared = asked.connection.shared();
    let place = StreamPlace::take(asked.connection)?;
    let tap = tap(asked)?;
    // Whoever only taps need not subscribe to anything.
    let types = match (&tap, asked.parameter("types")) {
        (Some(_), None) if asked.parameter("cursor").is_none() => None,
        (_, given) => Some(types(asked, given)?),
    };
    let is_one = asked.parameter("one").is_some_and(|value| value != "false");
    let form = if is_one { Form::Lines } else { form(asked)? };
    let as_cloud_events = match asked.parameter("format").as_deref() {
        None | Some("message") => false,
        Some("cloudevents") => true,
        Some(other) => {
            let text = format!("format={other}: it is message or cloudevents");
            return Err(Problem::new(StatusCode::BAD_REQUEST, text));
        }
    };
    let exchange = Exchange::open(&shared.bus, &asked.peer).ok_or_else(super::crowded)?;
    let cursor = asked.parameter("cursor");
    let by_cursor = cursor.is_some();
    let wait = message::wait(asked.headers)?;
    if let Some(types) = types {
        let data = subscription(asked, &types, cursor)?;
        begin(asked, &exchange, "Sys.Subscribe", &data).await?;
    }
    if let Some(data) = tap {
        begin(asked, &exchange, "Sys.Tap", &data).await?;
    }
    if is_one {
        let accept = asked.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_structured = accept.contains("application/cloudevents+json");
        let wanted = Wanted { as_cloud_events, is_structured, by_cursor };
        return one_event::next(&shared.reactor, &exchange, &wanted, wait).await;
    }
    let events = Events {
        exchange,
        form,
        as_cloud_events,
        by_cursor,
        reactor: shared.reactor.clone(),
        keep_alive: shared.options.limits.keep_alive,
        silence: None,
        begun: false,
        _place: place,
    };
    let mut response = Response::new(Body::stream(events));
    let media_type = match form {
        Form::ServerSent => "text/event-stream",
        Form::Lines => "application/x-ndjson",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    // nginx holds streams back unless it is told not to.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// What is subscribed to.
fn subscription(asked: &Asked<'_>, types: &[String], cursor: Option<String>) -> Result<String, Problem> {
    let Some(cursor) = cursor else {
        return Ok(json!({ "types": types, "slow": "drop_oldest" }).to_string());
    };
    let Some(last) = asked.headers.get("last-event-id").filter(|value| !value.is_empty()) else {
        return Ok(json!({ "types": types, "cursor": cursor }).to_string());
    };
    let after: Option<u64> = last.to_str().ok().and_then(|text| text.parse().ok());
    let after = after.ok_or_else(|| {
        let text = "Last-Event-ID: is the number of an event where a stream has a cursor, such as 17";
        Problem::new(StatusCode::BAD_REQUEST, text)
    })?;
    Ok(json!({ "types": types, "cursor": cursor, "after": after }).to_string())
}

/// The number of a durable event, by which its reader comes back.
pub(super) fn number_of(event: &Envelope) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        event: Option<u64>,
    }
    serde_json::from_str::<Numbered>(event.metadata()).ok()?.event
}

/// Asks for what is to come on a stream.
async fn begin(
    asked: &Asked<'_>,
    exchange: &Rc<Exchange>,
    type_name: &str,
    data: &str,
) -> Result<(), Problem> {
    let id = asked.connection.shared().bus.new_id();
    let ask = Ask::new(Kind::Command, type_name, data, &id);
    let outcome =
        exchange.ask(&ask).await.map_err(|closed| Problem::new(StatusCode::SERVICE_UNAVAILABLE, closed.0))?;
    match outcome.message.kind() {
        Kind::Error => Err(Problem::of_error(&outcome.message)),
        _ => Ok(()),
    }
}

/// The data of `Sys.Tap`, if it is asked for.
fn tap(asked: &Asked<'_>) -> Result<Option<String>, Problem> {
    let Some(text) = asked.parameter("tap") else { return Ok(None) };
    match serde_json::from_str::<&serde_json::value::RawValue>(&text) {
        Ok(data) => Ok(Some(data.get().to_owned())),
        Err(error) => {
            let text = format!("tap= is the data of Sys.Tap, such as {{}} or {{\"failed\":true}}: {error}");
            Err(Problem::new(StatusCode::BAD_REQUEST, text))
        }
    }
}

fn types(asked: &Asked<'_>, given: Option<String>) -> Result<Vec<String>, Problem> {
    let given = given.unwrap_or_else(|| "*".to_owned());
    let types: Vec<String> =
        given.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect();
    let max = asked.connection.shared().options.limits.stream_types_max;
    if types.is_empty() || types.len() > max {
        let text = format!("types= names 1 to {max} types, such as Order.*,Sys.ActorCrash");
        return Err(Problem::new(StatusCode::BAD_REQUEST, text));
    }
    Ok(types)
}

/// Lines for whoever asks for them, server-sent events for everybody else.
fn form(asked: &Asked<'_>) -> Result<Form, Problem> {
    let Some(accept) = asked.headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
        return Ok(Form::ServerSent);
    };
    for media in accept.split(',') {
        match media.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" | "*/*" | "text/*" => return Ok(Form::ServerSent),
            "application/x-ndjson" | "application/*" => return Ok(Form::Lines),
            _ => {}
        }
    }
    let text = "events come as text/event-stream or application/x-ndjson";
    Err(Problem::new(StatusCode::NOT_ACCEPTABLE, text))
}

/// The body of a stream of events. How much may wait is the bus's own bound: it drops the oldest
/// and says how many (`Sys.EventsDropped`).
struct Events {
    exchange: Rc<Exchange>,
    form: Form,
    as_cloud_events: bool,
    /// Whether events have numbers by which a client comes back.
    by_cursor: bool,
    reactor: Handle,
    keep_alive: Duration,
    /// Rings when nothing has passed for a while.
    silence: Option<Pin<Box<Sleep>>>,
    begun: bool,
    _place: StreamPlace,
}

impl Events {
    fn write(&self, event: &Envelope) -> Bytes {
        let converted = self.as_cloud_events.then(|| cloud_events::write(event));
        let line = converted.as_deref().unwrap_or(event.line());
        let mut text = String::with_capacity(line.len() + 96);
        match self.form {
            Form::Lines => text.push_str(line),
            Form::ServerSent => {
                // A line break in an id would begin a field of its own. What a cursor's reader has
                // no number for, it cannot come back to.
                if self.by_cursor {
                    if let Some(number) = number_of(event) {
                        text.push_str(&format!("id: {number}\n"));
                    }
                } else if !event.id().contains(['\n', '\r', '\0']) {
                    text.push_str("id: ");
                    text.push_str(event.id());
                    text.push('\n');
                }
                text.push_str("event: ");
                text.push_str(event.type_name());
                text.push_str("\ndata: ");
                text.push_str(line);
                text.push('\n');
            }
        }
        text.push('\n');
        Bytes::from(text)
    }

    /// A comment, when nothing has passed for a while.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.form == Form::Lines {
            return Poll::Pending;
        }
        let silence = self.silence.get_or_insert_with(|| Box::pin(self.reactor.sleep(self.keep_alive)));
        if silence.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.silence = None;
        Poll::Ready(Some(Bytes::from_static(b": still here\n\n")))
    }
}

impl Chunks for Events {
    fn poll_chunk(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        // Browsers say that a stream is open when its first byte has come.
        if !std::mem::replace(&mut this.begun, true) && this.form == Form::ServerSent {
            return Poll::Ready(Some(Bytes::from_static(b": events\n\n")));
        }
        match this.exchange.inbox().poll_next(context) {
            Poll::Ready(Ok(message)) => {
                this.silence = None;
                let chunk = this.write(&message);
                this.exchange.written(message.line().len() + 1);
                Poll::Ready(Some(chunk))
            }
            Poll::Ready(Err(_)) => Poll::Ready(None),
            Poll::Pending => this.poll_silence(context),
        }
    }
}
