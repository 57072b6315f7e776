//! Words in a schema that JSON Schema does not know: they check nothing, and most of them are
//! misspelt.

use crate::config::report::{Sources, nearest};
use crate::config::text::{Node, Place, Source, Value};
use std::rc::Rc;

/// Deeper schemas are not looked at: the kernel refuses them.
const DEPTH_MAX: usize = 128;

/// Keywords whose value is a schema, or a list of schemas.
const SCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a table of schemas by name.
const TABLES: &[&str] =
    &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Every other keyword of the drafts from 4 to 2020-12.
const OTHERS: &[&str] = &[
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
];

/// Warns of the words of a schema that are no keywords. What begins with `x-` is a note of its
/// author's.
pub(in crate::config) fn verify(source: &Rc<Source>, schema: &Node, sources: &mut Sources) {
    walk(source, schema, sources, 0);
}

fn walk(source: &Rc<Source>, schema: &Node, sources: &mut Sources, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    for entry in schema.entries() {
        let key = entry.key.as_str();
        if SCHEMAS.contains(&key) {
            each_schema(source, &entry.node, sources, depth + 1);
        } else if TABLES.contains(&key) {
            for named in entry.node.entries() {
                walk(source, &named.node, sources, depth + 1);
            }
        } else if !OTHERS.contains(&key) && !key.starts_with("x-") {
            let place = Place { source: source.clone(), span: entry.key_span.clone() };
            sources.warn(&place, unknown(key));
        }
    }
}

fn each_schema(source: &Rc<Source>, node: &Node, sources: &mut Sources, depth: usize) {
    match &node.value {
        Value::List(schemas) => schemas.iter().for_each(|schema| walk(source, schema, sources, depth)),
        _ => walk(source, node, sources, depth),
    }
}

fn unknown(key: &str) -> String {
    let known: Vec<&str> = [SCHEMAS, TABLES, OTHERS].concat();
    let remedy = match nearest(key, &known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("if it is a note of yours, write `x-{key}`"),
    };
    format!("`{key}` is not a keyword of JSON Schema and checks nothing; {remedy}")
}
