//! The forms of the RFC, the paths of complaints, and the two equivalences: pairs against the whole
//! schema, and shapes against the library.

use mainspring_message::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::shape::Shape;
use super::{SchemaError, Validator, discover};

fn pairs(schema: &Value) -> Vec<String> {
    let found = discover(schema).unwrap_or_else(|error| panic!("{error}\nin {schema:#}"));
    found.iter().map(|pair| format!("{}:{}", pair.kind, pair.type_name)).collect()
}

fn complaint(schema: &Value) -> SchemaError {
    match discover(schema) {
        Ok(found) => panic!("accepted as {found:?}: {schema:#}"),
        Err(error) => error,
    }
}

fn path_of_complaint(schema: &Value) -> String {
    complaint(schema).path
}

fn message(kind: &str, type_name: &str) -> Value {
    json!({ "type": "object", "properties": { "kind": { "const": kind }, "type": { "const": type_name } } })
}

#[test]
fn s12_1_form_a_a_single_literal_pair() {
    assert_eq!(pairs(&message("command", "Memory.Set")), ["command:Memory.Set"]);
}

#[test]
fn s12_1_form_b_a_single_kind_and_a_union_of_types() {
    for types in [
        json!({ "enum": ["Memory.Get", "Memory.List"] }),
        json!({ "anyOf": [{ "const": "Memory.Get" }, { "const": "Memory.List" }] }),
        json!({ "oneOf": [{ "const": "Memory.Get" }, { "enum": ["Memory.List"] }] }),
        json!({ "type": "string", "enum": ["Memory.Get", "Memory.List"], "pattern": "^Memory" }),
    ] {
        let schema = json!({ "properties": { "kind": { "const": "query" }, "type": types } });
        assert_eq!(pairs(&schema), ["query:Memory.Get", "query:Memory.List"]);
    }
}

#[test]
fn s12_1_form_c_a_union_of_message_objects() {
    for union in ["anyOf", "oneOf"] {
        let schema = json!({ union: [message("command", "Memory.Set"), message("query", "Memory.Get")] });
        assert_eq!(pairs(&schema), ["command:Memory.Set", "query:Memory.Get"]);
    }
}

#[test]
fn s12_1_references_and_intersections_of_finite_forms_are_finite() {
    let schema = json!({
        "$defs": {
            "Set": message("command", "Memory.Set"),
            "name": { "enum": ["Memory.Get", "Memory.List"] },
            "Get": { "properties": { "kind": { "const": "query" }, "type": { "$ref": "#/$defs/name" } } },
        },
        "anyOf": [
            { "$ref": "#/$defs/Set" },
            { "allOf": [
                { "$ref": "#/$defs/Get" },
                { "properties": { "type": { "enum": ["Memory.List", "Memory.Other"] } } },
            ] },
        ],
    });
    assert_eq!(pairs(&schema), ["command:Memory.Set", "query:Memory.List"]);
}

#[test]
fn s12_1_an_unlimited_type_is_rejected_with_its_path() {
    let with_type = |node: Value| json!({ "properties": { "kind": { "const": "command" }, "type": node } });
    assert_eq!(path_of_complaint(&with_type(json!({ "type": "string" }))), "#/properties/type");
    assert_eq!(path_of_complaint(&with_type(json!(true))), "#/properties/type");
    let pattern = complaint(&with_type(json!({ "type": "string", "pattern": "^Memory\\." })));
    assert_eq!(pattern.path, "#/properties/type");
    assert!(pattern.reason.contains("pattern"), "{pattern}");
    let union = json!({ "anyOf": [{ "const": "Memory.Set" }, { "type": "string" }] });
    assert_eq!(path_of_complaint(&with_type(union)), "#/properties/type/anyOf/1");
}

#[test]
fn s12_1_a_missing_kind_or_type_is_rejected_with_the_path_of_the_object() {
    assert_eq!(path_of_complaint(&json!({})), "#");
    assert_eq!(path_of_complaint(&json!(true)), "#");
    let schema = json!({ "anyOf": [
        message("command", "Memory.Set"),
        { "properties": { "type": { "const": "Memory.Get" } } },
    ] });
    let error = complaint(&schema);
    assert_eq!(error.path, "#/anyOf/1");
    assert!(error.reason.contains("`kind`"), "{error}");
}

#[test]
fn s12_1_every_other_form_is_rejected_with_the_path_of_the_node() {
    let cases = [
        (
            json!({ "properties": { "kind": { "const": 5 }, "type": { "const": "A.B" } } }),
            "#/properties/kind/const",
        ),
        (
            json!({ "properties": { "kind": { "enum": ["order"] }, "type": { "const": "A.B" } } }),
            "#/properties/kind/enum/0",
        ),
        (
            json!({ "properties": { "kind": { "const": "event" }, "type": { "enum": ["A.B", "single"] } } }),
            "#/properties/type/enum/1",
        ),
        (json!({ "$ref": "other.json" }), "#/$ref"),
        (json!({ "$ref": "#/$defs/none" }), "#/$ref"),
        (json!({ "$dynamicRef": "#x" }), "#/$dynamicRef"),
        (json!({ "anyOf": [{ "$ref": "#" }, message("event", "A.B")] }), "#/anyOf/0"),
        (json!({ "not": { "$ref": "#" }, "properties": message("event", "A.B")["properties"] }), "#"),
        (json!({ "allOf": [message("event", "A.B")], "minProperties": 2 }), "#/minProperties"),
        (
            json!({ "allOf": [message("event", "A.B"), { "properties": { "extra": true } }] }),
            "#/allOf/1/properties/extra",
        ),
        (
            json!({ "allOf": [message("event", "A.B"), { "required": ["data", "extra"] }] }),
            "#/allOf/1/required/1",
        ),
        (json!({ "allOf": [message("event", "A.B"), message("event", "C.D")] }), "#"),
        (json!({ "$schema": "http://example.com/mine", "allOf": [message("event", "A.B")] }), "#/$schema"),
        (
            json!({ "allOf": [message("event", "A.B"), { "properties": { "data": { "type": "thing" } } }] }),
            "#/properties/data/type",
        ),
        (json!(7), "#"),
    ];
    for (schema, path) in cases {
        assert_eq!(path_of_complaint(&schema), path, "in {schema:#}");
    }
}

#[test]
fn a_schema_that_fans_out_without_end_is_refused_in_good_time() {
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
        definitions.insert(format!("l{level}"), json!({ "allOf": [next, next] }));
    }
    definitions.insert("l60".to_owned(), message("event", "A.B"));
    let error = complaint(&json!({ "$defs": definitions, "$ref": "#/$defs/l0" }));
    assert!(error.reason.contains("too"), "{error}");
}

#[test]
fn data_rules_follow_the_pair_and_its_references() {
    let schema = json!({
        "$defs": {
            "tree": {
                "type": "object",
                "properties": { "name": { "type": "string" }, "children": { "items": { "$ref": "#/$defs/tree" } } },
                "required": ["name"],
            },
            "default": { "type": "integer" },
        },
        "oneOf": [
            { "properties": { "kind": { "const": "command" }, "type": { "const": "Tree.Plant" },
                "data": { "$ref": "#/$defs/tree" } } },
            { "properties": { "kind": { "const": "command" }, "type": { "const": "Tree.Count" },
                "data": { "properties": { "default": { "$ref": "#/$defs/default" } } } } },
        ],
    });
    let found = discover(&schema).unwrap();
    let plant = &found[0].validator;
    assert!(plant.check(r#"{"name":"oak","children":[{"name":"twig"}]}"#, "{}").is_ok());
    let violation = plant.check(r#"{"name":"oak","children":[{"name":7}]}"#, "{}").unwrap_err();
    assert_eq!(violation.path, "data/children/0/name");
    assert!(violation.reason.contains("string"), "{violation}");
    let count = &found[1].validator;
    assert!(count.check(r#"{"default":1}"#, "{}").is_ok());
    assert_eq!(count.check(r#"{"default":"x"}"#, "{}").unwrap_err().path, "data/default");
}

#[test]
fn rules_for_metadata_are_kept() {
    let schema = json!({ "allOf": [
        message("event", "A.B"),
        { "properties": { "metadata": { "required": ["tenant"] }, "data": { "type": "null" } } },
    ] });
    let found = discover(&schema).unwrap();
    let validator = &found[0].validator;
    assert!(validator.needs_metadata());
    assert!(validator.check("null", r#"{"tenant":1}"#).is_ok());
    assert_eq!(validator.check("null", "{}").unwrap_err().path, "metadata");
    assert_eq!(validator.check("1", r#"{"tenant":1}"#).unwrap_err().path, "data");
}

#[test]
fn a_long_violation_is_cut_short() {
    let validator = Validator::of_data(&json!({ "const": 1 })).unwrap();
    let long = json!("é".repeat(50_000)).to_string();
    assert!(validator.check(&long, "{}").unwrap_err().reason.len() < 600);
}

#[test]
fn text_that_values_cannot_hold_is_a_violation() {
    let validator = Validator::of_data(&json!({ "type": "object" })).unwrap();
    assert!(validator.check(r#"{"a":1e999}"#, "{}").is_err());
    assert!(validator.check(r#"{"a":"\ud800"}"#, "{}").is_err());
    assert!(validator.check(&format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200)), "{}").is_err());
    assert!(validator.check(r#"{"a":"\ud83d\ude00"}"#, "{}").is_ok());
}

#[test]
fn the_usual_object_has_a_shape() {
    let schema = json!({
        "type": "object",
        "properties": {
            "key": { "type": "string", "minLength": 1, "maxLength": 64 },
            "value": true,
            "count": { "type": "integer", "minimum": 0, "exclusiveMaximum": 10 },
            "tags": { "type": "array", "items": { "enum": ["red", "blue"] } },
            "note": { "anyOf": [{ "type": "null" }, { "type": "string" }] },
        },
        "required": ["key", "count"],
        "additionalProperties": false,
    });
    let shape = Shape::new(&schema, jsonschema::Draft::default()).unwrap();
    assert!(shape.surely_accepts(r#"{"key":"a","value":[1.5,{}],"count":9,"tags":["red"],"note":null}"#));
    for text in [
        r#"{"key":"","count":9}"#,
        r#"{"key":"a","count":10}"#,
        r#"{"key":"a"}"#,
        r#"{"key":"a","count":1,"other":2}"#,
        r#"{"key":"a","count":1,"tags":["green"]}"#,
        r#"{"key":"a","count":1,"note":7}"#,
        "[]",
        "",
        "{",
    ] {
        assert!(!shape.surely_accepts(text), "{text}");
    }
}

/// Names that collide often, one of which needs an escape.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "é", "q\"", "$ref", "const", "eight888", "a longer name"])
        .prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..6).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, -2.0, 1e30, 3.0, 1e-7]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "b", "é", "x\ny", "long enough"]).prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

fn keyword(inner: BoxedStrategy<Value>) -> impl Strategy<Value = (String, Value)> {
    let type_name =
        prop::sample::select(vec!["null", "boolean", "object", "array", "string", "integer", "number"]);
    let small = 0_u64..4;
    let number = prop_oneof![(-2_i64..5).prop_map(Value::from), Just(json!(0.5)), Just(json!(2.0))];
    prop_oneof![
        4 => type_name.clone().prop_map(|name| ("type".to_owned(), json!(name))),
        1 => prop::collection::vec(type_name, 1..3).prop_map(|mut names| {
            names.sort_unstable();
            names.dedup();
            ("type".to_owned(), json!(names))
        }),
        4 => prop::collection::btree_map(name(), inner.clone(), 0..4)
            .prop_map(|properties| ("properties".to_owned(), json!(properties))),
        2 => prop::collection::btree_set(name(), 0..3).prop_map(|names| ("required".to_owned(), json!(names))),
        2 => inner.clone().prop_map(|schema| ("additionalProperties".to_owned(), schema)),
        2 => inner.clone().prop_map(|schema| ("items".to_owned(), schema)),
        1 => (prop::sample::select(vec!["minItems", "maxItems", "minLength", "maxLength", "minProperties"]), small)
            .prop_map(|(keyword, bound)| (keyword.to_owned(), json!(bound))),
        1 => (prop::sample::select(vec!["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), number)
            .prop_map(|(keyword, bound)| (keyword.to_owned(), bound)),
        1 => value().prop_map(|value| ("const".to_owned(), value)),
        1 => prop::collection::vec(scalar(), 1..4).prop_map(|values| ("enum".to_owned(), json!(values))),
        1 => (prop::sample::select(vec!["allOf", "anyOf", "oneOf"]), prop::collection::vec(inner.clone(), 1..3))
            .prop_map(|(keyword, branches)| (keyword.to_owned(), json!(branches))),
        1 => inner.prop_map(|schema| ("not".to_owned(), schema)),
        1 => Just(("$ref".to_owned(), json!("#/$defs/shared"))),
        1 => Just(("description".to_owned(), json!("words"))),
    ]
}

/// Schemas in which most keywords are ones that shapes cover.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => Just(json!({})), 1 => any::<bool>().prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 3, |inner| {
        prop::collection::vec(keyword(inner.boxed()), 0..4)
            .prop_map(|keywords| keywords.into_iter().collect())
    })
}

fn with_shared(mut schema: Value, shared: Value) -> Value {
    if let Value::Object(keywords) = &mut schema {
        keywords.insert("$defs".to_owned(), json!({ "shared": shared }));
    }
    schema
}

/// The value's own text, and texts that mean the same or nearly the same in another spelling.
fn texts(value: &Value) -> Vec<String> {
    let text = value.to_string();
    vec![
        serde_json::to_string_pretty(value).unwrap(),
        text.replace('é', "\\u00e9"),
        text.replace("\"a\":", "\"\\u0061\":"),
        // A member twice: values keep the last.
        text.replacen('{', "{\"a\":true,\"b\":1,", 1).replace(",}", "}"),
        text.replace('1', "1.0"),
        text.replace('2', "2e0"),
        text,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn a_shape_accepts_only_what_the_library_accepts(
        schema in schema(),
        shared in schema(),
        draft in prop::sample::select(vec![None, Some("http://json-schema.org/draft-07/schema#")]),
        values in prop::collection::vec(value(), 12),
    ) {
        let mut schema = with_shared(schema, with_shared(shared, json!(true)));
        if let (Some(draft), Value::Object(keywords)) = (draft, &mut schema) {
            keywords.insert("$schema".to_owned(), json!(draft));
        }
        prop_assume!(schema.is_object());
        let Ok(validator) = Validator::of_data(&schema) else { return Ok(()) };
        let library = jsonschema::validator_for(&schema).unwrap();
        for text in values.iter().flat_map(texts) {
            let read = serde_json::from_str::<Value>(&text);
            let expected = read.as_ref().is_ok_and(|value| library.is_valid(value));
            prop_assert_eq!(validator.check(&text, "{}").is_ok(), expected, "{} in {}", text, schema);
            if serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok()
                && let Some(shape) = Shape::new(&schema, library.draft())
            {
                prop_assert!(!shape.surely_accepts(&text) || expected, "{} in {}", text, schema);
            }
        }
    }
}

/// Schemas of whole messages, put together from the forms that discovery supports.
fn message_schema() -> impl Strategy<Value = Value> {
    let kinds = prop_oneof![
        3 => prop::sample::select(vec!["command", "query", "event"]).prop_map(|kind| json!({ "const": kind })),
        1 => Just(json!({ "enum": ["command", "query"] })),
        1 => Just(json!({ "anyOf": [{ "const": "command" }, { "enum": ["event"] }] })),
        1 => Just(json!({ "enum": ["command", "query"], "not": { "const": "query" } })),
    ];
    let types = prop_oneof![
        3 => prop::sample::select(vec!["A.B", "C.D"]).prop_map(|name| json!({ "const": name })),
        1 => Just(json!({ "enum": ["A.B", "C.D"], "pattern": "^A" })),
        1 => Just(json!({ "oneOf": [{ "const": "A.B" }, { "enum": ["A.B", "C.D"] }] })),
        1 => Just(json!({ "$ref": "#/$defs/names" })),
    ];
    let object =
        (kinds, types, prop::option::of(schema()), prop::option::of(Just(json!({ "required": ["t"] }))))
            .prop_map(|(kind, type_name, data, metadata)| {
                let mut properties = json!({ "kind": kind, "type": type_name });
                if let Some(data) = data {
                    properties["data"] = data;
                }
                if let Some(metadata) = metadata {
                    properties["metadata"] = metadata;
                }
                json!({ "properties": properties, "required": ["kind", "data"] })
            });
    object.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|branches| json!({ "anyOf": branches })),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|branches| json!({ "oneOf": branches })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|branches| json!({ "allOf": branches })),
            (inner.clone(), inner.clone())
                .prop_map(|(first, second)| json!({ "allOf": [first], "not": second })),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(first, second, third)| json!({ "allOf": [first], "if": second, "then": third })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn pairs_and_their_validators_mean_what_the_whole_schema_means(
        schema in message_schema(),
        shared in schema(),
        values in prop::collection::vec(value(), 4),
    ) {
        let mut schema = with_shared(schema, with_shared(shared, json!(true)));
        schema["$defs"]["names"] = json!({ "enum": ["A.B", "C.D"] });
        let Ok(library) = jsonschema::validator_for(&schema) else { return Ok(()) };
        let found = match discover(&schema) {
            Ok(found) => found,
            Err(error) if error.path == "#" && error.reason.contains("no message") => Vec::new(),
            Err(error) => return Err(TestCaseError::fail(format!("{error} in {schema}"))),
        };
        for kind in Kind::ALL {
            for type_name in ["A.B", "C.D", "E.F"] {
                for data in &values {
                    for metadata in [json!({}), json!({ "t": 1 })] {
                        let message = json!({ "kind": kind.as_str(), "type": type_name, "data": data,
                            "metadata": metadata });
                        let pair = found.iter().find(|pair| pair.kind == kind && pair.type_name == type_name);
                        let accepted = pair.is_some_and(|pair| {
                            pair.validator.check(&data.to_string(), &metadata.to_string()).is_ok()
                        });
                        prop_assert_eq!(accepted, library.is_valid(&message), "{} in {}", message, schema);
                    }
                }
            }
        }
    }
}
