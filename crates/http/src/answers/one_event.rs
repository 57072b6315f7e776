//! `GET /v1/events?one=true`: the next event alone, for whoever asks again and again. As a message,
//! or as a CloudEvent, structured or binary.

use super::events::Wanted;
use super::respond;
use crate::bus::exchange::Exchange;
use crate::cloud_events;
use crate::problem::Problem;
use crate::wire::body::Body;
use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use mainspring_message::{Envelope, Kind};
use mainspring_reactor::Handle;
use std::rc::Rc;
use std::time::Duration;

/// How long an event is waited for if nobody says so.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// How long it is waited for at most: proxies give up sooner or later.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Waits for an event; 204 if none comes in time.
pub(super) async fn next(
    reactor: &Handle,
    exchange: &Rc<Exchange>,
    wanted: &Wanted,
    wait: Option<u64>,
) -> Result<Response<Body>, Problem> {
    let wait = wait.map_or(WAIT, Duration::from_millis).min(WAIT_MAX);
    let event = async {
        loop {
            let message = exchange.next().await?;
            exchange.written(message.line().len() + 1);
            if message.kind() == Kind::Event {
                return Ok(message);
            }
        }
    };
    match reactor.timeout(wait, event).await {
        Ok(Ok(event)) => Ok(answer(&event, wanted)),
        Ok(Err(crate::bus::Closed(reason))) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason)),
        Err(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok(response)
        }
    }
}

fn answer(event: &Envelope, wanted: &Wanted) -> Response<Body> {
    let text = |text: &str| Bytes::from(text.to_owned());
    let mut response = match (wanted.as_cloud_events, wanted.is_structured) {
        (false, _) => respond(StatusCode::OK, "application/json", text(event.line())),
        (true, true) => {
            let body = Bytes::from(cloud_events::write(event));
            respond(StatusCode::OK, "application/cloudevents+json", body)
        }
        (true, false) => {
            let mut response = respond(StatusCode::OK, "application/json", text(event.data()));
            for (name, value) in cloud_events::attributes(event) {
                set(&mut response, &format!("ce-{name}"), &cloud_events::header_value(&value));
            }
            response
        }
    };
    // What the next request sends back, where there is a cursor.
    match super::events::number_of(event).filter(|_| wanted.by_cursor) {
        Some(number) => set(&mut response, "last-event-id", &number.to_string()),
        None => set(&mut response, "last-event-id", event.id()),
    }
    response
}

fn set(response: &mut Response<Body>, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
        response.headers_mut().insert(name, value);
    }
}
