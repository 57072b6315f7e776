//! A JSON Schema as a type, as far as languages have one for it.

use serde_json::Value;

/// How deeply references are followed: a schema may lead to itself.
const DEPTH_MAX: usize = 24;

/// A type that both languages can say.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    /// Anything.
    Unknown,
    Null,
    Boolean,
    Integer,
    Number,
    Text,
    /// One value of JSON: a text, number or truth value.
    Constant(Value),
    List(Box<Type>),
    /// Names and values of one type.
    Map(Box<Type>),
    Object(Vec<Member>),
    /// One of several.
    Union(Vec<Type>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) is_required: bool,
    pub(super) value: Type,
}

/// The type of a schema that stands alone.
pub(super) fn of(schema: &Value) -> Type {
    read(schema, schema, 0)
}

fn read(schema: &Value, document: &Value, depth: usize) -> Type {
    if depth > DEPTH_MAX {
        return Type::Unknown;
    }
    let next = |inner: &Value| read(inner, document, depth + 1);
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = name.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
        return target.map_or(Type::Unknown, next);
    }
    if let Some(value) = schema.get("const") {
        return constant(value);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return union(values.iter().map(constant));
    }
    for name in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(name).and_then(Value::as_array) {
            return union(branches.iter().map(next));
        }
    }
    match schema.get("type") {
        Some(Value::String(name)) => named(name, schema, document, depth),
        Some(Value::Array(names)) => {
            union(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, document, depth)))
        }
        _ if schema.get("properties").is_some() => object(schema, document, depth),
        _ => Type::Unknown,
    }
}

fn named(name: &str, schema: &Value, document: &Value, depth: usize) -> Type {
    match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "string" => Type::Text,
        "array" => {
            let items = schema.get("items").map_or(Type::Unknown, |items| read(items, document, depth + 1));
            Type::List(Box::new(items))
        }
        "object" => object(schema, document, depth),
        _ => Type::Unknown,
    }
}

fn object(schema: &Value, document: &Value, depth: usize) -> Type {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        return Type::Map(Box::new(others.map_or(Type::Unknown, |others| read(others, document, depth + 1))));
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|one| one == name));
    let members = properties.iter().map(|(name, value)| Member {
        name: name.clone(),
        description: value.get("description").and_then(Value::as_str).map(str::to_owned),
        is_required: is_required(name),
        value: read(value, document, depth + 1),
    });
    Type::Object(members.collect())
}

fn constant(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Object(_) | Value::Array(_) => Type::Unknown,
        simple => Type::Constant(simple.clone()),
    }
}

fn union(branches: impl Iterator<Item = Type>) -> Type {
    let mut all: Vec<Type> = Vec::new();
    for branch in branches {
        match branch {
            Type::Unknown => return Type::Unknown,
            Type::Union(inner) => inner.into_iter().for_each(|one| push(&mut all, one)),
            one => push(&mut all, one),
        }
    }
    match all.len() {
        0 => Type::Unknown,
        1 => all.remove(0),
        _ => Type::Union(all),
    }
}

fn push(all: &mut Vec<Type>, one: Type) {
    if !all.contains(&one) {
        all.push(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_that_leads_to_itself_ends() {
        let schema = json!({ "$ref": "#/$defs/Node", "$defs": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } } } } });
        assert!(matches!(of(&schema), Type::Object(_)));
    }

    #[test]
    fn a_union_is_flat_and_says_nothing_twice() {
        let schema = json!({ "anyOf": [{ "type": ["string", "null"] }, { "enum": ["a", null] }, { "type": "string" }] });
        let wanted = vec![Type::Text, Type::Null, Type::Constant(json!("a"))];
        assert_eq!(of(&schema), Type::Union(wanted));
        assert_eq!(of(&json!({ "anyOf": [{ "type": "string" }, {}] })), Type::Unknown);
    }
}
