//! `/openapi.json`, `/asyncapi.json` and `/schemas/{Type}.json`: the catalogue as it is now.

use super::{Asked, respond_json};
use crate::bus::exchange::Exchange;
use crate::documents::catalogue::Catalogue;
use crate::documents::{asyncapi, openapi};
use crate::problem::Problem;
use crate::wire::body::Body;
use hyper::{Response, StatusCode};

pub(super) async fn openapi(asked: &Asked<'_>) -> Result<Response<Body>, Problem> {
    let version = &asked.connection.shared().options.version;
    Ok(respond_json(StatusCode::OK, &openapi::document(&read(asked).await?, version)))
}

pub(super) async fn asyncapi(asked: &Asked<'_>) -> Result<Response<Body>, Problem> {
    let version = &asked.connection.shared().options.version;
    Ok(respond_json(StatusCode::OK, &asyncapi::document(&read(asked).await?, version)))
}

pub(super) async fn schema(asked: &Asked<'_>, type_name: &str) -> Result<Response<Body>, Problem> {
    let catalogue = read(asked).await?;
    let named = catalogue.entries.values().filter(|entry| entry.name == type_name);
    let entries: Vec<_> = named.cloned().collect();
    if entries.is_empty() {
        let text = format!("nothing here is called {type_name:?}");
        return Err(Problem::new(StatusCode::NOT_FOUND, text));
    }
    Ok(respond_json(StatusCode::OK, &openapi::schema(&entries)))
}

/// Reads the catalogue over a connection of its own: a whole catalogue is many answers.
async fn read(asked: &Asked<'_>) -> Result<Catalogue, Problem> {
    let bus = &asked.connection.shared().bus;
    let exchange = Exchange::open(bus, &asked.peer).ok_or_else(super::crowded)?;
    let catalogue = Catalogue::read(&exchange, || bus.new_id()).await;
    catalogue.ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon does not tell its catalogue now")
    })
}
