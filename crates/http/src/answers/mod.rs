//! What each route answers. Every file is one kind of answer; all of them see a connection, its
//! peer and a request, and none sees another.

mod console;
mod documents;
mod events;
mod health;
mod message;
mod messages;
mod one_event;
mod streams;

use crate::bus::Peer;
use crate::bus::exchange::Exchange;
use crate::problem::Problem;
use crate::routes::{Route, route};
use crate::wire::body::Body;
use crate::wire::connection::Connection;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::rc::Rc;

/// A request whose sender is known.
pub(crate) struct Asked<'a> {
    connection: &'a Rc<Connection>,
    peer: Peer,
    /// Query parameters, still encoded.
    parameters: &'a str,
    headers: &'a HeaderMap,
}

impl Asked<'_> {
    /// The connection on the bus that serves this request.
    fn exchange(&self) -> Result<Rc<Exchange>, Problem> {
        self.connection.exchange(&self.peer).ok_or_else(crowded)
    }

    /// A query parameter, decoded.
    fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.parameters.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The media type that a header names, without parameters and in lower case.
    fn media_type(&self) -> Option<String> {
        let value = self.headers.get(CONTENT_TYPE)?.to_str().ok()?;
        Some(value.split(';').next()?.trim().to_ascii_lowercase())
    }
}

fn crowded() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "there are too many connections; try again later")
}

/// Answers one request.
pub(crate) async fn answer(connection: &Rc<Connection>, request: Request<Incoming>) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    let mut response = match find(connection, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if is_head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn find(connection: &Rc<Connection>, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
    let shared = connection.shared();
    let (head, body) = request.into_parts();
    shared.options.access.check_origin(&head.uri, &head.headers)?;
    let route = match route(&head.method, head.uri.path()) {
        Ok(route) => route,
        Err(no_route) => return Ok(no_route.into_response(head.uri.path())),
    };
    match route {
        Route::Alive | Route::Ready => return Ok(health::answer(shared, &route, head.uri.query())),
        Route::Asset(asset) => return console::page(shared, asset, &head.headers, head.uri.path()),
        Route::Session => return console::session(shared, body).await,
        _ => {}
    }
    let peer = connection.admit(&head.headers)?;
    connection.is_known();
    let asked =
        Asked { connection, peer, parameters: head.uri.query().unwrap_or_default(), headers: &head.headers };
    match route {
        Route::Message(kind, type_name) => message::send(&asked, kind, &type_name, body).await,
        Route::QueryByAddress(type_name) => message::query_by_address(&asked, &type_name).await,
        Route::CloudEvent => message::cloud_event(&asked, body).await,
        Route::EventStream => events::stream(&asked).await,
        Route::Messages => messages::stream(&asked, body),
        Route::OpenApi => documents::openapi(&asked).await,
        Route::AsyncApi => documents::asyncapi(&asked).await,
        Route::Schema(type_name) => documents::schema(&asked, &type_name).await,
        Route::Metrics => health::metrics(&asked).await,
        // Answered above: whoever asks need not be known.
        Route::Alive | Route::Ready | Route::Asset(_) | Route::Session => {
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a public route was not answered"))
        }
    }
}

/// A response with a whole body.
fn respond(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// A document as JSON.
fn respond_json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    respond(status, "application/json", Bytes::from(value.to_string()))
}
