//! What a node offers to others: a capability with its types, and a hash by which two nodes know
//! that they mean the same.

use crate::wire::names::is_reserved;
use mainspring_kernel::schema::discover;
use mainspring_kernel::{Manifest, TypeNotes};
use mainspring_message::Kind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A capability that a node shares, without its schemas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The capability's id there.
    pub id: String,
    /// What its schemas and its partitioning come to.
    pub hash: String,
    /// Its commands and queries: kind and type.
    pub types: Vec<(String, String)>,
    /// Where the key stands that decides on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_by: Option<String>,
    /// Whether its commands survive that node.
    #[serde(default)]
    pub durable: bool,
}

/// A kind of request by its word.
pub(crate) fn request_kind(word: &str) -> Option<Kind> {
    match word {
        "command" => Some(Kind::Command),
        "query" => Some(Kind::Query),
        _ => None,
    }
}

/// What other nodes need of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedManifest {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) inbound: Value,
    #[serde(default)]
    pub(crate) outbound: Option<Value>,
    #[serde(default)]
    pub(crate) partition_by: Option<String>,
    #[serde(default)]
    pub(crate) types: BTreeMap<String, Value>,
}

/// The JSON text of a value, the same for equal values whatever the order of members.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (at, (name, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

/// Sixteen digits that are the same for equal values.
#[must_use]
pub fn content_hash(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    let digest = Sha256::digest(text.as_bytes());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn notes(notes: &TypeNotes) -> Value {
    json!({
        "title": notes.title, "description": notes.description, "examples": notes.examples,
        "deprecated": notes.deprecated, "read_only": notes.read_only, "destructive": notes.destructive,
        "idempotent": notes.idempotent, "open_world": notes.open_world,
    })
}

/// What this node shares of a capability, and what others need to know to use it; nothing if it is
/// not shared.
pub(crate) fn share_of(manifest: &Manifest, has_journal: bool) -> Option<(Share, SharedManifest)> {
    if !manifest.share {
        return None;
    }
    let pairs = discover(&manifest.inbound).ok()?;
    let types: Vec<(String, String)> = pairs
        .iter()
        .filter(|pair| pair.kind.is_request() && !is_reserved(&pair.type_name))
        .map(|pair| (pair.kind.as_str().to_owned(), pair.type_name.clone()))
        .collect();
    let whole = json!({
        "id": manifest.id, "inbound": manifest.inbound, "outbound": manifest.outbound,
        "partition_by": manifest.partition_by,
    });
    let share = Share {
        id: manifest.id.clone(),
        hash: content_hash(&whole),
        types,
        partition_by: manifest.partition_by.clone(),
        durable: manifest.durable && has_journal,
    };
    let shared = SharedManifest {
        id: manifest.id.clone(),
        description: manifest.description.clone(),
        inbound: manifest.inbound.clone(),
        outbound: manifest.outbound.clone(),
        partition_by: manifest.partition_by.clone(),
        types: manifest.types.iter().map(|(name, of)| (name.clone(), notes(of))).collect(),
    };
    Some((share, shared))
}

impl SharedManifest {
    /// Whether it is what its hash says: a node cannot pass another schema off under a known hash.
    pub(crate) fn fits(&self, hash: &str) -> bool {
        let whole = json!({
            "id": self.id, "inbound": self.inbound, "outbound": self.outbound, "partition_by": self.partition_by,
        });
        content_hash(&whole) == hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let inbound = json!({ "oneOf": [
            { "properties": { "kind": { "const": "command" }, "type": { "const": "Order.Place" } } },
            { "properties": { "kind": { "const": "event" }, "type": { "const": "Order.Seen" } } },
        ] });
        let mut manifest = Manifest::new("orders", "Takes orders.", inbound);
        manifest.share = true;
        manifest
    }

    #[test]
    fn only_requests_of_what_says_so_are_shared() {
        let (share, shared) = share_of(&manifest(), true).unwrap();
        assert_eq!(share.types, [("command".to_owned(), "Order.Place".to_owned())]);
        assert!(share.durable && shared.fits(&share.hash));
        assert!(!share_of(&manifest(), false).unwrap().0.durable);
        let mut silent = manifest();
        silent.share = false;
        assert!(share_of(&silent, true).is_none());
    }

    #[test]
    fn the_hash_tells_schemas_and_partitioning_apart_and_nothing_else() {
        let of = |change: fn(&mut Manifest)| {
            let mut changed = manifest();
            change(&mut changed);
            share_of(&changed, false).unwrap().0.hash
        };
        let same = of(|_| {});
        assert_eq!(same, of(|it| it.description = "Other words.".into()));
        assert_ne!(same, of(|it| it.partition_by = Some("/data/key".into())));
        assert_ne!(same, of(|it| it.inbound["oneOf"][0]["properties"]["data"] = json!({ "type": "string" })));
        let a: Value = serde_json::from_str(r#"{"a":1,"b":{"c":[1,2],"d":2}}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"b":{"d":2,"c":[1,2]},"a":1}"#).unwrap();
        assert_eq!(content_hash(&a), content_hash(&b));
        assert_ne!(content_hash(&a), content_hash(&json!({ "a": 1 })));
    }
}
