//! `/livez`, `/readyz` and `/metrics`.

use super::{Asked, respond, respond_json};
use crate::metrics;
use crate::problem::Problem;
use crate::routes::Route;
use crate::server::Shared;
use crate::wire::body::Body;
use bytes::Bytes;
use hyper::header::ACCEPT;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

/// Whether the daemon lives, or can do its work. With `?verbose`, each check by name.
pub(super) fn answer(shared: &Shared, route: &Route<'_>, query: Option<&str>) -> Response<Body> {
    // That this is answered at all is the proof that the loop turns.
    if *route == Route::Alive {
        return respond(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"ok\n"));
    }
    let health = shared.bus.health();
    let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let wants_all = query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    if !wants_all {
        let text: &'static [u8] = if health.is_ready() { b"ok\n" } else { b"not ready\n" };
        return respond(status, "text/plain; charset=utf-8", Bytes::from_static(text));
    }
    let checks: Vec<Value> = health
        .checks
        .iter()
        .map(|(name, check)| match check {
            Ok(()) => json!({ "name": name, "ok": true }),
            Err(reason) => json!({ "name": name, "ok": false, "reason": reason }),
        })
        .collect();
    respond_json(status, &json!({ "ok": health.is_ready(), "checks": checks }))
}

/// The daemon's numbers, as OpenMetrics.
pub(super) async fn metrics(asked: &Asked<'_>) -> Result<Response<Body>, Problem> {
    let exchange = asked.exchange()?;
    let failed = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon does not tell its numbers now");
    let stats: Value = exchange.ask_for("Sys.Stats", "{}").await.ok_or_else(failed)?;
    let actors: Value = exchange.ask_for("Sys.Actors", "{}").await.ok_or_else(failed)?;
    let text = metrics::encode(stats, actors).map_err(|_| failed())?;
    // Whoever knows the older form alone says so; everybody else gets the standard.
    let accept = asked.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (text, media_type) = match accept.contains("text/plain") && !accept.contains("openmetrics-text") {
        true => (metrics::as_plain_text(&text), "text/plain; version=0.0.4; charset=utf-8"),
        false => (text, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    };
    Ok(respond(StatusCode::OK, media_type, Bytes::from(text)))
}
