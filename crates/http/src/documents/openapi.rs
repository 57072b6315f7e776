//! OpenAPI 3.1: its schemas are JSON Schema 2020-12, so those of manifests go in as they are.

use super::catalogue::{Catalogue, Entry};
use serde_json::{Map, Value, json};

/// The document for everything that one peer may send.
pub(crate) fn document(catalogue: &Catalogue, version: &str) -> Value {
    let mut paths = Map::new();
    for entry in catalogue.entries.values() {
        let folder = match entry.kind.as_str() {
            "command" => "commands",
            "query" => "queries",
            _ => "events",
        };
        let mut item = Map::new();
        item.insert("post".to_owned(), operation(entry));
        if entry.kind == "query" {
            item.insert("get".to_owned(), query_by_address(entry));
        }
        paths.insert(format!("/v1/{folder}/{}", entry.name), Value::Object(item));
    }
    paths.insert("/v1/events".to_owned(), json!({ "get": event_stream(), "post": cloud_event() }));
    paths.insert("/v1/messages".to_owned(), json!({ "post": messages() }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Mainspring",
            "version": version,
            "description": "Commands, queries and events of this daemon, made from its catalogue.",
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Problem": problem_schema() },
            "parameters": parameters(),
        },
    })
}

/// The schema of one type, for `/schemas/{Type}.json`.
pub(crate) fn schema(entries: &[Entry]) -> Value {
    let kinds: Vec<Value> = entries
        .iter()
        .map(|entry| {
            json!({
                "kind": entry.kind,
                "description": entry.description,
                "capability": entry.capability,
                "input": or_anything(&entry.input),
                "output": or_anything(&entry.output),
            })
        })
        .collect();
    json!({ "type": entries.first().map(|entry| &entry.name), "kinds": kinds })
}

/// What nothing is said about may be anything.
fn or_anything(schema: &Value) -> Value {
    if schema.is_object() || schema.is_boolean() { schema.clone() } else { json!({}) }
}

/// Whether nothing is as good as anything else: what is left out is null.
fn takes_null(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(name) => name == "null",
        Value::Array(names) => names.iter().any(|name| name == "null"),
        _ => true,
    }
}

fn operation(entry: &Entry) -> Value {
    let is_event = entry.kind == "event";
    let mut content = json!({ "schema": or_anything(&entry.input) });
    if !entry.examples.is_empty() {
        let named = entry.examples.iter().enumerate();
        content["examples"] =
            named.map(|(at, value)| (format!("example{}", at + 1), json!({ "value": value }))).collect();
    }
    let success = if is_event {
        json!({ "202": { "description": "The event was taken." } })
    } else {
        json!({ "200": {
            "description": "The data of the reply.",
            "content": { "application/json": { "schema": or_anything(&entry.output) } },
        } })
    };
    json!({
        "operationId": format!("{}.{}", entry.kind, entry.name),
        "summary": summary(&entry.description),
        "description": entry.description,
        "tags": [entry.capability.as_deref().unwrap_or("Mainspring")],
        "parameters": common_parameters(is_event),
        "requestBody": { "required": true, "content": { "application/json": content } },
        "responses": with_problems(success),
    })
}

fn query_by_address(entry: &Entry) -> Value {
    let mut parameters = common_parameters(false);
    let data = json!({
        "name": "data",
        "in": "query",
        "required": !takes_null(&entry.input),
        "description": "The data of the query, as JSON; null without it.",
        "content": { "application/json": { "schema": or_anything(&entry.input) } },
    });
    parameters.as_array_mut().into_iter().for_each(|list| list.push(data.clone()));
    let success = json!({ "200": {
        "description": "The data of the reply.",
        "content": { "application/json": { "schema": or_anything(&entry.output) } },
    } });
    json!({
        "operationId": format!("get.{}", entry.name),
        "summary": summary(&entry.description),
        "tags": [entry.capability.as_deref().unwrap_or("Mainspring")],
        "parameters": parameters,
        "responses": with_problems(success),
    })
}

fn event_stream() -> Value {
    json!({
        "operationId": "watch",
        "summary": "Events as they happen",
        "tags": ["Mainspring"],
        "parameters": [
            {
                "name": "types", "in": "query", "schema": { "type": "string" },
                "description": "Types or patterns, separated by commas: Order.*,Sys.ActorCrash. Everything without it.",
            },
            { "name": "format", "in": "query", "schema": { "enum": ["message", "cloudevents"] } },
            {
                "name": "one", "in": "query", "schema": { "type": "boolean" },
                "description": "The next event alone; 204 if none comes within 30 s, or what Prefer: wait= says.",
            },
            {
                "name": "cursor", "in": "query", "schema": { "type": "string", "minLength": 1 },
                "description": "Durable events of this name, which go on after Last-Event-ID.",
            },
        ],
        "responses": with_problems(json!({ "200": {
            "description": "A stream that ends when the client or the daemon does.",
            "content": {
                "text/event-stream": { "schema": { "type": "string" } },
                "application/x-ndjson": { "schema": { "type": "string" } },
                "application/json": {},
                "application/cloudevents+json": {},
            },
        }, "204": { "description": "No event came in time, where one was asked for." } })),
    })
}

fn cloud_event() -> Value {
    json!({
        "operationId": "cloudEvent",
        "summary": "Send an event as a CloudEvent, structured or binary",
        "tags": ["Mainspring"],
        "requestBody": { "required": true, "content": {
            "application/cloudevents+json": { "schema": {
                "type": "object",
                "required": ["specversion", "id", "source", "type"],
                "properties": {
                    "specversion": { "const": "1.0" },
                    "id": { "type": "string", "minLength": 1, "maxLength": 256 },
                    "source": { "type": "string", "minLength": 1 },
                    "type": { "type": "string", "minLength": 1 },
                    "data": {},
                },
            } },
        } },
        "responses": with_problems(json!({ "202": { "description": "The event was taken." } })),
    })
}

fn messages() -> Value {
    json!({
        "operationId": "messages",
        "summary": "The protocol itself: one message a line, both ways",
        "tags": ["Mainspring"],
        "requestBody": { "required": true, "content": { "application/x-ndjson": { "schema": { "type": "string" } } } },
        "responses": with_problems(json!({ "200": {
            "description": "What comes back, a message a line.",
            "content": { "application/x-ndjson": { "schema": { "type": "string" } } },
        } })),
    })
}

/// The first sentence.
fn summary(description: &str) -> &str {
    description.split_inclusive(". ").next().unwrap_or_default().trim().trim_end_matches('.')
}

fn common_parameters(is_event: bool) -> Value {
    let mut names = vec!["IdempotencyKey", "CorrelationId", "TraceParent"];
    if !is_event {
        names.push("Prefer");
    }
    names.into_iter().map(|name| json!({ "$ref": format!("#/components/parameters/{name}") })).collect()
}

fn parameters() -> Value {
    let header = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "header", "required": false, "description": description, "schema": schema });
    let name = json!({ "type": "string", "minLength": 1, "maxLength": 256 });
    json!({
        "IdempotencyKey": header(
            "Idempotency-Key",
            "The id of the message: the same id again gets the same answer, and nothing is done twice.",
            name.clone(),
        ),
        "CorrelationId": header("X-Correlation-Id", "The workflow that the message belongs to.", name),
        "TraceParent": header("traceparent", "The span that asks, as W3C writes it.", json!({ "type": "string" })),
        "Prefer": header(
            "Prefer",
            "wait=SECONDS: how long the request may take, such as wait=10. Other preferences are left aside.",
            json!({ "type": "string" }),
        ),
    })
}

fn with_problems(mut responses: Value) -> Value {
    let problem = |description: &str| {
        json!({
            "description": description,
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        })
    };
    for (code, description) in [
        ("400", "The request is not JSON, or not what a header or parameter should be."),
        ("401", "There is no token, or it is not known here."),
        ("403", "The token may not do this."),
        ("404", "Nothing of this type is here."),
        ("409", "The same id came before with another body."),
        ("413", "The body is too long."),
        ("422", "The data breaks the schema; the detail names the field."),
    ] {
        responses[code] = problem(description);
    }
    responses["default"] = problem("The request ended with an error: its code is the status.");
    responses
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string" },
            "started": { "enum": ["yes", "no"], "description": "Whether a capability had the request." },
            "originalId": { "type": ["string", "null"] },
            "originalType": { "type": ["string", "null"] },
        },
    })
}
