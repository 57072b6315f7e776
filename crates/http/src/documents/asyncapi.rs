//! AsyncAPI 3.1: channels are types; what the daemon takes is received, what capabilities emit is
//! sent.

use super::catalogue::Catalogue;
use serde_json::{Map, Value, json};

/// The document for everything that one peer may send or hear.
pub(crate) fn document(catalogue: &Catalogue, version: &str) -> Value {
    let (mut channels, mut operations, mut messages) = (Map::new(), Map::new(), Map::new());
    for entry in catalogue.entries.values() {
        let key = format!("{}_{}", entry.kind, flat(&entry.name));
        let title = format!("{} {}", entry.kind, entry.name);
        messages.insert(key.clone(), message(&title, &entry.description, &entry.input));
        channels.insert(key.clone(), channel(&entry.name, &key));
        let mut operation = json!({
            "action": "receive",
            "channel": { "$ref": format!("#/channels/{key}") },
            "summary": entry.description,
            "messages": [{ "$ref": format!("#/channels/{key}/messages/{key}") }],
        });
        if entry.kind != "event" {
            let reply = format!("{key}_reply");
            messages.insert(reply.clone(), message(&format!("Reply of {title}"), "", &entry.output));
            channels.insert(reply.clone(), channel(&entry.name, &reply));
            operation["reply"] = json!({
                "channel": { "$ref": format!("#/channels/{reply}") },
                "messages": [{ "$ref": format!("#/channels/{reply}/messages/{reply}") }],
            });
        }
        operations.insert(key, operation);
    }
    for (name, emitted) in &catalogue.emitted {
        let key = format!("emitted_{}", flat(name));
        let description = format!("Emitted by {}", emitted.capability);
        messages.insert(key.clone(), message(name, &description, &emitted.data));
        channels.insert(key.clone(), channel(name, &key));
        operations.insert(
            key.clone(),
            json!({
                "action": "send",
                "channel": { "$ref": format!("#/channels/{key}") },
                "messages": [{ "$ref": format!("#/channels/{key}/messages/{key}") }],
            }),
        );
    }
    json!({
        "asyncapi": "3.1.0",
        "info": {
            "title": "Mainspring",
            "version": version,
            "description": "What this daemon takes and emits, made from its catalogue.",
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": { "messages": messages },
    })
}

fn channel(address: &str, key: &str) -> Value {
    json!({ "address": address, "messages": { key: { "$ref": format!("#/components/messages/{key}") } } })
}

fn message(title: &str, summary: &str, payload: &Value) -> Value {
    json!({ "name": title, "title": title, "summary": summary, "payload": as_object(payload) })
}

/// AsyncAPI has no schemas that are true or false.
fn as_object(schema: &Value) -> Value {
    match schema {
        Value::Object(_) => schema.clone(),
        Value::Bool(false) => json!({ "not": {} }),
        _ => json!({}),
    }
}

/// Keys of AsyncAPI have no dots.
fn flat(name: &str) -> String {
    name.replace('.', "_")
}
