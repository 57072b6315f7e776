//! What a model can read: the latest events, what capabilities say of themselves, documents.

use super::{Document, Shared};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mainspring_client::Error;
use rmcp::ErrorData;
use rmcp::model::{CacheScope, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde::Deserialize;
use serde_json::json;

const EVENTS: &str = "mainspring://events/";
const CAPABILITIES: &str = "mainspring://capabilities/";
const JSON: &str = "application/json";

pub(super) async fn list(shared: &Shared) -> Vec<Resource> {
    let mut listed = vec![events_resource("*")];
    listed.extend(
        shared
            .events
            .patterns()
            .iter()
            .filter(|pattern| *pattern != "*")
            .map(|pattern| events_resource(pattern)),
    );
    for (id, description) in capabilities(shared).await.unwrap_or_default() {
        listed.push(
            Resource::new(format!("{CAPABILITIES}{id}"), id)
                .with_description(description)
                .with_mime_type(JSON),
        );
    }
    for document in &shared.settings.documents {
        let size = u64::try_from(document.contents.len()).unwrap_or(u64::MAX);
        listed.push(
            Resource::new(document.uri.clone(), document.title.clone())
                .with_title(document.title.clone())
                .with_mime_type(document.media_type.clone())
                .with_size(size),
        );
    }
    listed
}

fn events_resource(pattern: &str) -> Resource {
    Resource::new(format!("{EVENTS}{pattern}"), format!("events {pattern}"))
        .with_description("The latest events, since they were first asked for.")
        .with_mime_type(JSON)
}

async fn capabilities(shared: &Shared) -> Result<Vec<(String, String)>, Error> {
    #[derive(Deserialize)]
    struct All {
        capabilities: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        id: String,
        description: Option<String>,
    }
    let all: All = shared.client.query("Syscall.Describe", &json!({})).await?.data()?;
    Ok(all.capabilities.into_iter().map(|one| (one.id, one.description.unwrap_or_default())).collect())
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{EVENTS}{{pattern}}"), "events")
            .with_description("The latest events of a type (Order.Shipped), of everything below a name (Order.*), or of all (*), since they were first asked for.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{CAPABILITIES}{{id}}"), "capability")
            .with_description("What a capability handles and tells, with schemas.")
            .with_mime_type(JSON),
    ]
}

pub(super) async fn read(shared: &Shared, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = |why: String| {
        ErrorData::resource_not_found(format!("there is no resource {uri}{why}"), Some(json!({ "uri": uri })))
    };
    let failed = |error: Error| match error.code() {
        Some(403 | 404) => unknown(format!(": {error}")),
        _ if matches!(error, Error::Invalid(_)) => unknown(format!(": {error}")),
        _ => ErrorData::internal_error(error.to_string(), None),
    };
    let contents = if let Some(document) =
        shared.settings.documents.iter().find(|document| document.uri == uri)
    {
        of_document(document)
    } else if let Some(pattern) = uri.strip_prefix(EVENTS) {
        let latest = shared.events.latest(pattern).await.map_err(failed)?;
        ResourceContents::text(latest.to_string(), uri).with_mime_type(JSON)
    } else if let Some(id) = uri.strip_prefix(CAPABILITIES) {
        let reply =
            shared.client.query("Syscall.Describe", &json!({ "capability": id })).await.map_err(failed)?;
        ResourceContents::text(reply.text(), uri).with_mime_type(JSON)
    } else {
        return Err(unknown(String::new()));
    };
    let mut result = ReadResourceResult::new(vec![contents]);
    result.ttl_ms = Some(0);
    result.cache_scope = Some(CacheScope::Private);
    Ok(result)
}

fn of_document(document: &Document) -> ResourceContents {
    let contents = match std::str::from_utf8(&document.contents) {
        Ok(text) => ResourceContents::text(text, &document.uri),
        Err(_) => ResourceContents::blob(BASE64_STANDARD.encode(&document.contents), &document.uri),
    };
    contents.with_mime_type(&document.media_type)
}
