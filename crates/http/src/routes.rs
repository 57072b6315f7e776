//! Which request asks for what.

use crate::problem::Problem;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, StatusCode};
use mainspring_console::Asset;
use mainspring_message::Kind;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// One command, query or event of this type, with the data as body.
    Message(Kind, Cow<'a, str>),
    /// A query with its data in the address.
    QueryByAddress(Cow<'a, str>),
    /// A CloudEvent, structured or binary: the type is in it.
    CloudEvent,
    /// Events as they happen.
    EventStream,
    /// Messages both ways.
    Messages,
    OpenApi,
    AsyncApi,
    Schema(Cow<'a, str>),
    Metrics,
    Alive,
    Ready,
    /// A file of the console.
    Asset(&'static Asset),
    /// A session of the console for a one-time token.
    Session,
}

/// Why there is no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoute {
    NotFound,
    /// What is there takes other methods.
    Method(&'static str),
}

impl NoRoute {
    pub(crate) fn into_response(self, path: &str) -> hyper::Response<crate::wire::body::Body> {
        match self {
            NoRoute::NotFound => {
                let text = format!("there is nothing at {path}; GET /openapi.json lists what there is");
                Problem::new(StatusCode::NOT_FOUND, text).into_response()
            }
            NoRoute::Method(allowed) => {
                let text = format!("{path} takes {allowed}");
                let mut response = Problem::new(StatusCode::METHOD_NOT_ALLOWED, text).into_response();
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
                response
            }
        }
    }
}

/// What a method and a path ask for.
pub(crate) fn route<'a>(method: &Method, path: &'a str) -> Result<Route<'a>, NoRoute> {
    let get = |route: Route<'a>| match *method {
        Method::GET | Method::HEAD => Ok(route),
        _ => Err(NoRoute::Method("GET, HEAD")),
    };
    let post = |route: Route<'a>| match *method {
        Method::POST => Ok(route),
        _ => Err(NoRoute::Method("POST")),
    };
    if let Some(name) = path.strip_prefix("/v1/commands/") {
        return post(Route::Message(Kind::Command, type_name(name)?));
    }
    if let Some(name) = path.strip_prefix("/v1/queries/") {
        let name = type_name(name)?;
        return match *method {
            Method::POST => Ok(Route::Message(Kind::Query, name)),
            Method::GET | Method::HEAD => Ok(Route::QueryByAddress(name)),
            _ => Err(NoRoute::Method("GET, HEAD, POST")),
        };
    }
    if let Some(name) = path.strip_prefix("/v1/events/") {
        return post(Route::Message(Kind::Event, type_name(name)?));
    }
    if let Some(name) = path.strip_prefix("/schemas/") {
        let name = name.strip_suffix(".json").ok_or(NoRoute::NotFound)?;
        return get(Route::Schema(type_name(name)?));
    }
    match path {
        "/v1/events" => match *method {
            Method::GET => Ok(Route::EventStream),
            Method::POST => Ok(Route::CloudEvent),
            _ => Err(NoRoute::Method("GET, POST")),
        },
        "/v1/messages" => post(Route::Messages),
        "/v1/console/session" => post(Route::Session),
        "/openapi.json" => get(Route::OpenApi),
        "/asyncapi.json" => get(Route::AsyncApi),
        "/metrics" => get(Route::Metrics),
        "/livez" => get(Route::Alive),
        "/readyz" => get(Route::Ready),
        _ => match mainspring_console::asset(path) {
            Some(asset) => get(Route::Asset(asset)),
            None => Err(NoRoute::NotFound),
        },
    }
}

/// One segment of a path as a type. What it may look like is the bus's to say.
fn type_name(segment: &str) -> Result<Cow<'_, str>, NoRoute> {
    if segment.is_empty() || segment.contains('/') {
        return Err(NoRoute::NotFound);
    }
    percent_decode_str(segment).decode_utf8().map_err(|_| NoRoute::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_methods() {
        let ask =
            |method: &str, path: &'static str| route(&Method::from_bytes(method.as_bytes()).unwrap(), path);
        let message = |kind| Ok(Route::Message(kind, Cow::Borrowed("A.B")));
        assert_eq!(ask("POST", "/v1/commands/A.B"), message(Kind::Command));
        assert_eq!(ask("POST", "/v1/queries/A.B"), message(Kind::Query));
        assert_eq!(ask("POST", "/v1/events/A%2EB"), message(Kind::Event));
        assert_eq!(ask("GET", "/v1/queries/A.B"), Ok(Route::QueryByAddress(Cow::Borrowed("A.B"))));
        assert_eq!(ask("GET", "/v1/events"), Ok(Route::EventStream));
        assert_eq!(ask("POST", "/v1/events"), Ok(Route::CloudEvent));
        assert_eq!(ask("GET", "/schemas/A.B.json"), Ok(Route::Schema(Cow::Borrowed("A.B"))));
        assert!(
            matches!(ask("GET", "/"), Ok(Route::Asset(asset)) if asset.media_type.starts_with("text/html"))
        );
        assert_eq!(ask("POST", "/"), Err(NoRoute::Method("GET, HEAD")));
        assert_eq!(ask("POST", "/v1/console/session"), Ok(Route::Session));
        assert_eq!(ask("DELETE", "/v1/commands/A.B"), Err(NoRoute::Method("POST")));
        assert_eq!(ask("OPTIONS", "/metrics"), Err(NoRoute::Method("GET, HEAD")));
        for nothing in
            ["/index", "", "/v1", "/v1/commands/", "/v1/commands/a/b", "/schemas/A.B", "/v1/queries/%ff"]
        {
            assert_eq!(ask("POST", nothing), Err(NoRoute::NotFound), "{nothing}");
        }
    }
}
