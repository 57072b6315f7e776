//! The page of the console, and the sessions that it opens.

use super::respond_json;
use crate::console::Sessions;
use crate::problem::Problem;
use crate::server::Shared;
use crate::wire::body::{self, Body};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode};
use mainspring_console::{Asset, CONTENT_SECURITY_POLICY as POLICY};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionData {
    token: String,
}

/// A file of the page.
pub(super) fn page(
    shared: &Shared,
    asset: &'static Asset,
    headers: &HeaderMap,
    path: &str,
) -> Result<Response<Body>, Problem> {
    sessions(shared, path)?;
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == asset.tag.as_bytes());
    let is_packed = accepts_gzip(headers);
    let bytes = match (is_known, is_packed) {
        (true, _) => &[][..],
        (false, true) => asset.gzip,
        (false, false) => asset.plain,
    };
    let mut response = Response::new(Body::full(Bytes::from_static(bytes)));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fixed = [
        (CONTENT_TYPE, asset.media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (VARY, "accept-encoding"),
        // Asked again each time, and answered with nothing while it is the same: another daemon may
        // be here tomorrow.
        (CACHE_CONTROL, "no-cache"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    if let Ok(tag) = HeaderValue::from_str(asset.tag) {
        headers.insert(ETAG, tag);
    }
    if is_packed && !is_known {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

/// Swaps a one-time token for a session.
pub(super) async fn session(shared: &Shared, body: Incoming) -> Result<Response<Body>, Problem> {
    let sessions = sessions(shared, "/v1/console/session")?;
    let text = body::read(&shared.reactor, &shared.options.limits, body).await?;
    let data: SessionData = serde_json::from_slice(&text).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is {{\"token\": \"...\"}}: {error}"))
    })?;
    let session = sessions.redeem(&data.token).ok_or_else(|| {
        let text =
            "this token was used, is older than a minute, or never was; run `mainspring console` again";
        Problem::new(StatusCode::UNAUTHORIZED, text)
    })?;
    Ok(respond_json(StatusCode::OK, &json!({ "session": session.token, "expiresAt": session.expires_at })))
}

fn sessions<'a>(shared: &'a Shared, path: &str) -> Result<&'a dyn Sessions, Problem> {
    shared.options.sessions.as_deref().ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at {path}: this server has no console"))
    })
}

/// Whether the client takes gzip and did not say that it takes it never.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|coding| {
            let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
            let quality = quality.trim().strip_prefix("q=").map_or(1.0, |q| q.trim().parse().unwrap_or(0.0));
            name.trim().eq_ignore_ascii_case("gzip") && quality > 0.0
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_whoever_takes_it() {
        let takes = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        assert!(takes("gzip, deflate, br") && takes("br;q=1, GZIP;q=0.5"));
        assert!(
            !takes("gzip;q=0") && !takes("identity") && !takes("xgzip") && !accepts_gzip(&HeaderMap::new())
        );
    }
}
