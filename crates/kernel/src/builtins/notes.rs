//! What is said about a type, for people and language models: from the table in its manifest, from
//! the branch of the schema that admits it, and where both are silent as careful as can be.

use crate::api::manifest::{Manifest, TypeNotes};
use mainspring_message::Kind;
use serde_json::{Value, json};

/// Unions within unions that are searched for the branch of a type.
const DEPTH_MAX: usize = 8;

/// Everything that is said about one type.
#[derive(Debug)]
pub(super) struct Notes<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) description: &'a str,
    pub(super) examples: Vec<&'a Value>,
    pub(super) deprecated: bool,
    pub(super) hints: Hints,
}

/// What a client may expect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hints {
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
}

impl Hints {
    /// A query changes nothing; whatever else is not said is as bad as it may be.
    pub(super) fn of(kind: Kind, notes: Option<&TypeNotes>) -> Hints {
        let said = |get: fn(&TypeNotes) -> Option<bool>| notes.and_then(get);
        let read_only = said(|notes| notes.read_only).unwrap_or(kind == Kind::Query);
        Hints {
            read_only,
            destructive: said(|notes| notes.destructive).unwrap_or(!read_only),
            idempotent: said(|notes| notes.idempotent).unwrap_or(read_only),
            open_world: said(|notes| notes.open_world).unwrap_or(true),
        }
    }

    pub(super) fn told(self) -> Value {
        json!({
            "readOnly": self.read_only,
            "destructive": self.destructive,
            "idempotent": self.idempotent,
            "openWorld": self.open_world,
        })
    }
}

impl<'a> Notes<'a> {
    /// What a manifest says about a type that its capability takes.
    pub(super) fn of(manifest: &'a Manifest, kind: Kind, name: &str) -> Notes<'a> {
        let own = manifest.types.get(name);
        let branch = branch_of(&manifest.inbound, kind, name, 0);
        let text = |key: &str| branch.and_then(|branch| branch.get(key)?.as_str());
        let data = branch.and_then(|branch| branch.pointer("/properties/data"));
        let listed = data.and_then(|data| data.get("examples")?.as_array());
        let examples = match own.map(|own| &own.examples).filter(|examples| !examples.is_empty()) {
            Some(examples) => examples.iter().collect(),
            None => listed.into_iter().flatten().collect(),
        };
        let is_deprecated = branch.and_then(|branch| branch.get("deprecated")?.as_bool());
        Notes {
            title: own.and_then(|own| own.title.as_deref()).or_else(|| text("title")),
            description: manifest.type_description(kind, name).unwrap_or(&manifest.description),
            examples,
            deprecated: own.and_then(|own| own.deprecated).or(is_deprecated).unwrap_or(false),
            hints: Hints::of(kind, own),
        }
    }

    /// Adds what is said to the description of a handler.
    pub(super) fn add_to(&self, handle: &mut Value) {
        handle["title"] = json!(self.title);
        handle["description"] = json!(self.description);
        handle["examples"] = json!(self.examples);
        handle["deprecated"] = json!(self.deprecated);
        handle["hints"] = self.hints.told();
    }
}

impl Manifest {
    /// What is said about a type of its own: by the table `types`, by the branch of the inbound
    /// schema that admits it, or by the schema of its data there. Nothing if only the capability as
    /// a whole is described.
    #[must_use]
    pub fn type_description(&self, kind: Kind, name: &str) -> Option<&str> {
        let own = self.types.get(name).and_then(|own| own.description.as_deref());
        own.or_else(|| {
            let branch = branch_of(&self.inbound, kind, name, 0)?;
            let data = branch.pointer("/properties/data");
            [Some(branch), data].into_iter().flatten().find_map(|part| part.get("description")?.as_str())
        })
    }
}

/// The branch of a schema that admits this kind and type.
fn branch_of<'a>(schema: &'a Value, kind: Kind, name: &str, depth: usize) -> Option<&'a Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    for union in ["oneOf", "anyOf", "allOf"] {
        let branches = schema.get(union).and_then(Value::as_array).into_iter().flatten();
        if let Some(found) = branches.into_iter().find_map(|branch| branch_of(branch, kind, name, depth + 1))
        {
            return Some(found);
        }
    }
    let names = |key: &str, wanted: &str| {
        let part = schema.pointer(&format!("/properties/{key}"))?;
        let is_it = |value: &Value| value.as_str() == Some(wanted);
        let listed = part.get("enum").and_then(Value::as_array);
        Some(part.get("const").is_some_and(is_it) || listed.is_some_and(|list| list.iter().any(is_it)))
    };
    // The kind may be said outside of the union.
    let is_kind = names("kind", kind.as_str()).unwrap_or(depth > 0);
    (is_kind && names("type", name) == Some(true)).then_some(schema)
}

/// The events that a capability may say, with their schemas, from its outbound schema.
pub(super) fn emitted(manifest: &Manifest) -> Vec<Value> {
    let Some(outbound) = &manifest.outbound else { return Vec::new() };
    let Ok(pairs) = crate::schema::discover(outbound) else { return Vec::new() };
    let events = pairs.into_iter().filter(|pair| pair.kind == Kind::Event);
    events
        .map(|pair| {
            let branch = branch_of(outbound, Kind::Event, &pair.type_name, 0);
            let own = manifest.types.get(&pair.type_name).and_then(|own| own.description.as_deref());
            let description = own.or_else(|| branch?.get("description")?.as_str());
            let data = crate::schema::TypeSchema::find(outbound, Kind::Event, &pair.type_name);
            json!({ "type": pair.type_name, "description": description, "data": data.map(|found| found.data) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        serde_json::from_value(json!({
            "id": "notes", "description": "Keeps notes.",
            "inbound": { "oneOf": [
                { "description": "Keeps a note.", "properties": { "kind": { "const": "command" }, "type": { "const": "Notes.Add" },
                    "data": { "examples": [{ "text": "milk" }] } } },
                { "properties": { "kind": { "const": "query" }, "type": { "enum": ["Notes.List", "Notes.Count"] } } },
                { "title": "Drop", "deprecated": true, "properties": { "kind": { "const": "command" }, "type": { "const": "Notes.Drop" } } },
            ] },
            "outbound": { "oneOf": [
                { "properties": { "kind": { "const": "reply" }, "type": { "const": "Notes.Add" } } },
                { "description": "A note was kept.", "properties": { "kind": { "const": "event" }, "type": { "const": "Notes.Added" },
                    "data": { "type": "object" } } },
            ] },
            "types": { "Notes.Drop": { "description": "Throws a note away.", "idempotent": true, "open_world": false } },
        }))
        .unwrap()
    }

    #[test]
    fn each_type_has_the_words_of_its_own_branch_or_table() {
        let manifest = manifest();
        let words = |kind, name| Notes::of(&manifest, kind, name).description.to_owned();
        assert_eq!(words(Kind::Command, "Notes.Add"), "Keeps a note.");
        assert_eq!(words(Kind::Query, "Notes.Count"), "Keeps notes.");
        assert_eq!(words(Kind::Command, "Notes.Drop"), "Throws a note away.");
        let add = Notes::of(&manifest, Kind::Command, "Notes.Add");
        assert_eq!(add.examples, [&json!({ "text": "milk" })]);
        assert_eq!(
            add.hints.told(),
            json!({ "readOnly": false, "destructive": true, "idempotent": false, "openWorld": true })
        );
        let drop = Notes::of(&manifest, Kind::Command, "Notes.Drop");
        assert_eq!((drop.title, drop.deprecated), (Some("Drop"), true));
        assert_eq!(
            drop.hints.told(),
            json!({ "readOnly": false, "destructive": true, "idempotent": true, "openWorld": false })
        );
        let list = Notes::of(&manifest, Kind::Query, "Notes.List");
        assert_eq!(
            list.hints.told(),
            json!({ "readOnly": true, "destructive": false, "idempotent": true, "openWorld": true })
        );
    }

    #[test]
    fn the_events_of_a_capability_are_those_of_its_outbound_schema() {
        let told = emitted(&manifest());
        assert_eq!(
            (told.len(), &told[0]["type"], &told[0]["description"]),
            (1, &json!("Notes.Added"), &json!("A note was kept."))
        );
        assert_eq!(told[0]["data"], json!({ "type": "object" }));
    }
}
