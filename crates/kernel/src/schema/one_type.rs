//! What a schema of many messages says about one kind and type.

use mainspring_message::{Kind, NAME_BYTES_MAX};
use serde_json::{Value, json};

use super::document::Document;
use super::residual::{Evaluator, Residual};

/// JSON Schemas of one kind and type; each stands alone.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeSchema {
    /// What `data` must look like.
    pub data: Value,
    /// What the whole message must look like.
    pub message: Value,
}

impl TypeSchema {
    /// Messages whose `data` has this schema, which refers to nothing outside itself.
    #[must_use]
    pub fn of_data(kind: Kind, type_name: &str, data: Value) -> TypeSchema {
        let message = message(kind, type_name, &data);
        TypeSchema { data, message }
    }

    /// What `schema` asks of messages of this kind and type; nothing if it admits none.
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring_kernel::schema::TypeSchema;
    /// use mainspring_message::Kind;
    /// use serde_json::json;
    ///
    /// let schema = json!({ "properties": {
    ///     "kind": { "const": "query" },
    ///     "type": { "enum": ["Memory.Get", "Memory.List"] },
    ///     "data": { "$ref": "#/$defs/key" },
    /// }, "$defs": { "key": { "type": "string" }, "other": {} } });
    /// let get = TypeSchema::find(&schema, Kind::Query, "Memory.Get").unwrap();
    /// assert_eq!(get.data["$defs"], json!({ "key": { "type": "string" } }));
    /// assert!(TypeSchema::find(&schema, Kind::Query, "Memory.Set").is_none());
    /// ```
    #[must_use]
    pub fn find(schema: &Value, kind: Kind, type_name: &str) -> Option<TypeSchema> {
        let document = Document::new(schema).ok()?;
        let (data, whole) = match Evaluator::new(&document).residual(kind, type_name).ok()? {
            Residual::Never => return None,
            Residual::Always => (json!({}), None),
            Residual::Data(data) => (data, None),
            Residual::Envelope(whole) => (data_of(&whole), Some(whole)),
        };
        let mut message = message(kind, type_name, &data);
        if let Some(whole) = whole {
            message["allOf"] = json!([whole]);
        }
        Some(TypeSchema { data: document.stand_alone(&data), message: document.stand_alone(&message) })
    }
}

/// What `schema` asks of messages of these kinds and types alone, with a branch of `oneOf` for each
/// of them; those that it does not admit are left out. Nothing if it admits none.
///
/// What every message has is not in it, so that nobody looks at metadata for nothing.
///
/// # Examples
///
/// ```
/// use mainspring_kernel::schema::narrow;
/// use mainspring_message::Kind;
/// use serde_json::json;
///
/// let schema = json!({ "properties": {
///     "kind": { "const": "query" },
///     "type": { "enum": ["Memory.Get", "Memory.List"] },
///     "data": { "$ref": "#/$defs/key" },
/// }, "$defs": { "key": { "type": "string" }, "other": {} } });
/// let get = narrow(&schema, [(Kind::Query, "Memory.Get"), (Kind::Query, "Memory.Set")]).unwrap();
/// assert_eq!(get, json!({
///     "oneOf": [{ "properties": {
///         "kind": { "const": "query" },
///         "type": { "const": "Memory.Get" },
///         "data": { "$ref": "#/$defs/key" },
///     } }],
///     "$defs": { "key": { "type": "string" } },
/// }));
/// ```
#[must_use]
pub fn narrow<'a>(schema: &Value, types: impl IntoIterator<Item = (Kind, &'a str)>) -> Option<Value> {
    let document = Document::new(schema).ok()?;
    let mut evaluator = Evaluator::new(&document);
    let mut branches = Vec::new();
    for (kind, type_name) in types {
        let (data, whole) = match evaluator.residual(kind, type_name).ok()? {
            Residual::Never => continue,
            Residual::Always => (json!({}), None),
            Residual::Data(data) => (data, None),
            Residual::Envelope(whole) => (json!({}), Some(whole)),
        };
        let mut branch = json!({ "properties": {
            "kind": { "const": kind.as_str() },
            "type": { "const": type_name },
            "data": data,
        } });
        if let Some(whole) = whole {
            branch["allOf"] = json!([whole]);
        }
        branches.push(branch);
    }
    (!branches.is_empty()).then(|| document.stand_alone(&json!({ "oneOf": branches })))
}

fn message(kind: Kind, type_name: &str, data: &Value) -> Value {
    let name = json!({ "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX });
    let mut metadata = json!({
        "type": "object",
        "required": ["id", "timestamp"],
        "properties": {
            "id": name,
            "timestamp": { "type": "integer", "minimum": 0 },
            "causation": name,
            "correlation": name,
        },
    });
    if kind.is_outcome() {
        metadata["required"] = json!(["id", "timestamp", "causation"]);
    }
    if kind.is_request() {
        metadata["properties"]["timeout"] = json!({ "type": "integer", "minimum": 1 });
    }
    json!({
        "type": "object",
        "required": ["kind", "type", "data", "metadata"],
        "properties": {
            "kind": { "const": kind.as_str() },
            "type": { "const": type_name },
            "data": data,
            "metadata": metadata,
        },
    })
}

/// What a schema of `data` and `metadata` together certainly asks of `data` alone.
fn data_of(whole: &Value) -> Value {
    let parts =
        whole.get("allOf").and_then(Value::as_array).map_or(std::slice::from_ref(whole), Vec::as_slice);
    let mut asked: Vec<Value> =
        parts.iter().filter_map(|part| part.get("properties")?.get("data")).cloned().collect();
    match asked.len() {
        0 => json!({}),
        1 => asked.remove(0),
        _ => json!({ "allOf": asked }),
    }
}
