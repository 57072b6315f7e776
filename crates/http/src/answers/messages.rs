//! `POST /v1/messages`: the protocol itself, a message a line, both ways.

use super::Asked;
use super::streams::StreamPlace;
use crate::bus::exchange::Exchange;
use crate::problem::Problem;
use crate::wire::body::{Body, Chunks};
use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use mainspring_message::{ErrorData, Failure, Kind, Parts, Started};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Begins the exchange: lines of the body go to the bus as they come, what comes back is the
/// response.
pub(super) fn stream(asked: &Asked<'_>, body: Incoming) -> Result<Response<Body>, Problem> {
    let shared = asked.connection.shared();
    match asked.media_type().as_deref() {
        None | Some("application/x-ndjson" | "application/jsonl" | "application/x-www-form-urlencoded") => {}
        Some(other) => {
            let text = format!("the body is {other}; send one message a line (application/x-ndjson)");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
    }
    let place = StreamPlace::take(asked.connection)?;
    let exchange = Exchange::open(&shared.bus, &asked.peer).ok_or_else(super::crowded)?;
    let messages = Messages {
        exchange,
        body: Some(body),
        line: BytesMut::new(),
        line_bytes_max: shared.options.limits.body_bytes_max,
        _place: place,
    };
    let mut response = Response::new(Body::stream(messages));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

struct Messages {
    exchange: Rc<Exchange>,
    /// What the client sends; gone when it has ended.
    body: Option<Incoming>,
    /// The line that has begun.
    line: BytesMut,
    line_bytes_max: usize,
    _place: StreamPlace,
}

impl Messages {
    /// Reads what there is, unless the bus takes no more for now. Ready when the body has ended, or
    /// with an error to tell.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            ready!(self.exchange.inbox().poll_open(context));
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if !self.take(data) {
                        self.body = None;
                        return Poll::Ready(Some(self.too_long()));
                    }
                }
                // A body that broke off ends like one that ended: what was sent whole was sent.
                Some(Err(_)) => self.body = None,
                None => {
                    self.body = None;
                    let rest = self.line.split();
                    if !rest.trim_ascii().is_empty() {
                        self.exchange.send_line(&rest);
                    }
                }
            }
        }
    }

    /// Sends the lines that are whole. False when one is too long.
    fn take(&mut self, mut data: Bytes) -> bool {
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            if self.line.len() + end > self.line_bytes_max {
                return false;
            }
            let piece = data.split_to(end);
            data.advance(1);
            if self.line.is_empty() {
                self.send(&piece);
            } else {
                self.line.extend_from_slice(&piece);
                let line = self.line.split();
                self.send(&line);
            }
        }
        self.line.extend_from_slice(&data);
        self.line.len() <= self.line_bytes_max
    }

    fn send(&self, line: &[u8]) {
        if !line.trim_ascii().is_empty() {
            self.exchange.send_line(line);
        }
    }

    /// The error that ends the exchange after a line that is too long.
    fn too_long(&self) -> Bytes {
        let text = format!("a line is longer than {} bytes; nothing after it is read", self.line_bytes_max);
        let (mut data, mut line) = (String::new(), String::new());
        let error = ErrorData {
            failure: Failure::TooLarge,
            message: &text,
            original_id: None,
            original_type: None,
            started: Started::No,
        };
        error.write(&mut data);
        let parts = Parts {
            kind: Kind::Error,
            type_name: Failure::TooLarge.type_name(),
            data: &data,
            id: "too-long",
            timestamp_ms: 0,
            causation: Some("connection"),
            correlation: None,
            traceparent: None,
            timeout_ms: None,
            extra: "",
        };
        parts.append_to(&mut line);
        line.push('\n');
        Bytes::from(line)
    }
}

impl Chunks for Messages {
    fn poll_chunk(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let ended = match this.poll_body(context) {
            Poll::Ready(Some(error)) => return Poll::Ready(Some(error)),
            Poll::Ready(None) => true,
            Poll::Pending => false,
        };
        match this.exchange.inbox().poll_next(context) {
            Poll::Ready(Ok(message)) => {
                let mut line = Vec::with_capacity(message.line().len() + 1);
                line.extend_from_slice(message.line().as_bytes());
                line.push(b'\n');
                this.exchange.written(line.len());
                Poll::Ready(Some(Bytes::from(line)))
            }
            Poll::Ready(Err(_)) => Poll::Ready(None),
            // Everything was sent and answered.
            Poll::Pending if ended && !this.exchange.owes() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
