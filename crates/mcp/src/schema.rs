//! Schemas as models' clients take them: an object at the top, without unions there.
//!
//! Since 2026-07-28 the protocol allows any JSON Schema; older clients and the interfaces of the
//! models themselves do not. What is loosened here the daemon still checks.

use serde_json::{Map, Value, json};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// A schema for the arguments of a tool, and whether the data is their member `value`.
pub(crate) fn input(schema: &Value) -> (Object, bool) {
    match as_object(schema) {
        Some(object) => (object, false),
        None => (wrapped(schema, "value"), true),
    }
}

/// A schema for the result of a tool, and whether the data is its member `result`. `None`: the
/// catalogue does not say.
pub(crate) fn output(schema: &Value) -> Option<(Object, bool)> {
    let said = schema.as_object().is_some_and(|object| !object.is_empty());
    said.then(|| match as_object(schema) {
        Some(object) => (object, false),
        None => (wrapped(schema, "result"), true),
    })
}

/// Whether a result is the protocol's own blocks, and nothing else: an object with `content` alone.
pub(crate) fn is_of_blocks(schema: &Object) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.is_some_and(|properties| properties.len() == 1 && properties.contains_key("content"))
}

/// How many references lead to a schema at most: one may lead to itself.
const REFERENCES_MAX: usize = 8;

/// The schema as one of an object, if all that it takes are objects, or anything at all.
fn as_object(schema: &Value) -> Option<Object> {
    let mut object = match schema {
        Value::Bool(true) | Value::Null => Object::new(),
        Value::Object(object) => object.clone(),
        _ => return None,
    };
    for _ in 0..REFERENCES_MAX {
        object = match only_part(&object) {
            Some(part) => part,
            None if object.contains_key("$ref") => referred(&object)?,
            None => break,
        };
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(branches) = object.get(union).and_then(Value::as_array) {
            return merge(&object, union, branches);
        }
    }
    match object.get("type") {
        Some(Value::String(name)) if name == "object" => Some(object),
        Some(_) => None,
        None if object.keys().all(|name| OF_OBJECTS.contains(&name.as_str())) => {
            let mut made = object;
            made.insert("type".to_owned(), json!("object"));
            Some(made)
        }
        None => None,
    }
}

/// What a schema means that says nothing of its own but that one other must hold. The daemon's
/// catalogue writes a reference with its definitions so.
fn only_part(object: &Object) -> Option<Object> {
    let [Value::Object(part)] = object.get("allOf")?.as_array()?.as_slice() else { return None };
    let says_more = object.keys().any(|name| !BESIDE_A_PART.contains(&name.as_str()));
    let mut made = object.clone();
    made.remove("allOf");
    for (name, value) in part {
        made.entry(name.clone()).or_insert_with(|| value.clone());
    }
    (!says_more).then_some(made)
}

const BESIDE_A_PART: [&str; 5] = ["allOf", "$defs", "description", "title", "examples"];

/// What a schema that is a reference into its own document means; what it says beside that holds as
/// well. SDKs write the types of handlers so.
fn referred(object: &Object) -> Option<Object> {
    let name = object.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
    let found = object.get("$defs")?.get(name)?.as_object()?.clone();
    let mut made = object.clone();
    made.remove("$ref");
    for (name, value) in found {
        made.entry(name).or_insert(value);
    }
    Some(made)
}

/// What a schema without a type may say and still be one of objects.
const OF_OBJECTS: [&str; 10] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "description",
    "title",
    "examples",
    "$defs",
    "minProperties",
    "maxProperties",
];

/// One object in the place of a union of objects: every member that one of them has, required if
/// all of them require it.
fn merge(around: &Object, union: &str, branches: &[Value]) -> Option<Object> {
    let definitions = around.get("$defs");
    let mut properties = Object::new();
    let mut required: Option<Vec<Value>> = None;
    for branch in branches {
        let branch = as_object(resolve(branch, definitions))?;
        for (name, value) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let place = properties.entry(name.clone()).or_insert_with(|| value.clone());
            if place != value {
                *place = either(place, value);
            }
        }
        let own = branch.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        required = Some(match required {
            None => own,
            Some(all) => all.into_iter().filter(|name| own.contains(name)).collect(),
        });
    }
    let mut made = around.clone();
    made.remove(union);
    made.insert("type".to_owned(), json!("object"));
    made.insert("properties".to_owned(), Value::Object(properties));
    made.insert("required".to_owned(), Value::Array(required.unwrap_or_default()));
    Some(made)
}

/// A schema that takes what one of two does.
fn either(one: &Value, other: &Value) -> Value {
    match one.get("anyOf").and_then(Value::as_array) {
        Some(branches) if branches.contains(other) => one.clone(),
        Some(branches) => {
            let all: Vec<&Value> = branches.iter().chain([other]).collect();
            json!({ "anyOf": all })
        }
        None => json!({ "anyOf": [one, other] }),
    }
}

/// What a reference within the same document means.
fn resolve<'a>(schema: &'a Value, definitions: Option<&'a Value>) -> &'a Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
    name.and_then(|name| definitions?.get(name)).unwrap_or(schema)
}

/// A schema of anything as a member of an object.
fn wrapped(schema: &Value, member: &str) -> Object {
    let mut inner = schema.clone();
    // References begin at the top of the document.
    let definitions = inner.as_object_mut().and_then(|inner| inner.remove("$defs"));
    let mut made = Object::new();
    made.insert("type".to_owned(), json!("object"));
    made.insert("properties".to_owned(), json!({ member: inner }));
    made.insert("required".to_owned(), json!([member]));
    if let Some(definitions) = definitions {
        made.insert("$defs".to_owned(), definitions);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_objects_stays_as_it_is() {
        let schema =
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
        assert_eq!(input(&schema), (schema.as_object().unwrap().clone(), false));
        let (made, is_wrapped) = input(&json!({}));
        assert!(!is_wrapped);
        assert_eq!(Value::Object(made), json!({ "type": "object" }));
    }

    #[test]
    fn what_is_no_object_becomes_a_member_of_one_and_its_references_still_lead_somewhere() {
        let schema = json!({ "type": "array", "items": { "$ref": "#/$defs/Item" }, "$defs": { "Item": { "type": "string" } } });
        let (made, is_wrapped) = input(&schema);
        assert!(is_wrapped);
        assert_eq!(made["$defs"]["Item"]["type"], "string");
        assert_eq!(made["properties"]["value"]["items"]["$ref"], "#/$defs/Item");
        assert!(output(&json!({ "type": "string" })).unwrap().1);
        assert!(output(&json!({})).is_none() && output(&Value::Null).is_none());
    }

    #[test]
    fn a_schema_that_is_a_reference_is_what_it_leads_to() {
        let note = json!({ "type": "object", "properties": { "next": { "$ref": "#/$defs/Note" } }, "required": ["next"] });
        let schema = json!({ "$ref": "#/$defs/Note", "description": "A note.", "$defs": { "Note": note } });
        let (made, is_wrapped) = input(&schema);
        assert!(!is_wrapped && !made.contains_key("$ref"), "{made:?}");
        assert_eq!((&made["required"], &made["description"]), (&json!(["next"]), &json!("A note.")));
        assert_eq!(made["$defs"]["Note"], note, "references inside of it still lead somewhere");
        assert!(!output(&schema).unwrap().1);
        let part = json!({ "allOf": [{ "$ref": "#/$defs/Note" }], "$defs": { "Note": note } });
        let (made, is_wrapped) = input(&part);
        assert!(
            !is_wrapped && made["required"] == json!(["next"]) && !made.contains_key("allOf"),
            "{made:?}"
        );
        let whole = json!({ "type": "object", "allOf": [{ "required": ["a"] }] });
        assert_eq!(Value::Object(input(&whole).0), whole, "one that says more stays as it is");
        let endless = json!({ "$ref": "#/$defs/A", "$defs": { "A": { "$ref": "#/$defs/A" } } });
        assert!(input(&endless).1 && input(&json!({ "$ref": "#/$defs/Nothing" })).1);
    }

    #[test]
    fn a_union_of_objects_becomes_one_object_that_takes_each_of_them() {
        let schema = json!({
            "oneOf": [
                { "type": "object", "properties": { "by": { "const": "id" }, "id": { "type": "string" } }, "required": ["by", "id"] },
                { "$ref": "#/$defs/ByName" },
            ],
            "$defs": { "ByName": { "type": "object", "properties": { "by": { "const": "name" }, "name": { "type": "string" } }, "required": ["by", "name"] } },
        });
        let (made, is_wrapped) = input(&schema);
        assert!(!is_wrapped && !made.contains_key("oneOf"));
        assert_eq!(made["required"], json!(["by"]));
        assert_eq!(made["properties"]["by"], json!({ "anyOf": [{ "const": "id" }, { "const": "name" }] }));
        assert!(made["properties"].get("id").is_some() && made["properties"].get("name").is_some());
        assert!(input(&json!({ "anyOf": [{ "type": "string" }, { "type": "object" }] })).1);
    }
}
