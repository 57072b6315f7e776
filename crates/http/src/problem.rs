//! What went wrong, as `application/problem+json` (RFC 9457).

use crate::wire::body::Body;
use bytes::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use mainspring_message::Envelope;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A response that tells a failure: of HTTP itself, or the error that ended a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    status: StatusCode,
    body: Map<String, Value>,
    closes: bool,
}

/// What the data of an error may say; everything else it says is passed on as it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody {
    code: Option<u16>,
    message: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Problem {
    /// A failure of HTTP itself: no message was sent.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let mut body = Map::new();
        body.insert("type".to_owned(), json!("about:blank"));
        body.insert("title".to_owned(), json!(status.canonical_reason().unwrap_or("Failed")));
        body.insert("status".to_owned(), json!(status.as_u16()));
        body.insert("detail".to_owned(), json!(detail.into()));
        Problem { status, body, closes: false }
    }

    /// The error that ended a request: its code is the status, its type the problem's.
    pub(crate) fn of_error(error: &Envelope) -> Problem {
        let told = error.data_as::<ErrorBody>().ok();
        let code = told.as_ref().and_then(|told| told.code).filter(|code| (400..600).contains(code));
        let status = code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut body = Map::new();
        body.insert("type".to_owned(), json!(error.type_name()));
        body.insert("title".to_owned(), json!(status.canonical_reason().unwrap_or("Failed")));
        body.insert("status".to_owned(), json!(status.as_u16()));
        match told {
            Some(told) => {
                body.insert("detail".to_owned(), json!(told.message.unwrap_or_default()));
                // `started`, `originalId`, `originalType`, and whatever a capability adds.
                for (name, value) in told.rest {
                    body.entry(name).or_insert(value);
                }
            }
            // The data of a capability's error may be anything.
            None => {
                let data: Value = error.data_as().unwrap_or_default();
                body.insert("detail".to_owned(), json!("the capability ended the request with an error"));
                body.insert("data".to_owned(), data);
            }
        }
        Problem { status, body, closes: false }
    }

    /// The same, and the connection is closed afterwards: what else was sent on it cannot be
    /// trusted or is too much.
    pub(crate) fn and_close(mut self) -> Problem {
        self.closes = true;
        self
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let text = Value::Object(self.body).to_string();
        let mut response = Response::new(Body::full(Bytes::from(text)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"mainspring\""));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(data: &str) -> Envelope {
        let line = format!(
            r#"{{"kind":"error","type":"Sys.Timeout","data":{data},"metadata":{{"id":"e","timestamp":1,"causation":"c"}}}}"#
        );
        Envelope::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn the_code_of_an_error_is_the_status() {
        let problem =
            Problem::of_error(&error(r#"{"code":504,"message":"late","started":"no","originalId":"c"}"#));
        assert_eq!(problem.status, StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(problem.body["detail"], "late");
        assert_eq!((&problem.body["started"], &problem.body["originalId"]), (&json!("no"), &json!("c")));
        assert_eq!(problem.body["type"], "Sys.Timeout");
    }

    #[test]
    fn an_error_with_any_data_is_a_problem_all_the_same() {
        for data in
            ["null", "3", r#""text""#, r#"{"code":"x"}"#, r#"{"code":70000}"#, r#"{"code":200}"#, "[]"]
        {
            let problem = Problem::of_error(&error(data));
            assert_eq!(problem.status, StatusCode::INTERNAL_SERVER_ERROR, "{data}");
        }
    }

    #[test]
    fn what_a_capability_adds_does_not_replace_what_a_problem_is_made_of() {
        let problem =
            Problem::of_error(&error(r#"{"code":400,"message":"no","status":7,"type":"x","field":"a"}"#));
        assert_eq!((&problem.body["status"], &problem.body["type"]), (&json!(400), &json!("Sys.Timeout")));
        assert_eq!(problem.body["field"], "a");
    }
}
