//! Fuzzing schema discovery: generated and damaged schemas, from fixed seeds, for a few seconds.

use std::time::{Duration, Instant};

use mainspring_kernel::schema::{EnvelopeValidator, discover};
use mainspring_simulator::Random;
use serde_json::{Map, Value, json};

const SCHEMAS: u64 = 6_000;
/// No schema of this size may take longer to refuse or accept, even on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(20);

const KEYWORDS: [&str; 28] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$defs",
    "definitions",
    "const",
    "enum",
    "pattern",
    "items",
    "minLength",
    "$id",
    "$schema",
    "$anchor",
    "$dynamicRef",
    "default",
    "examples",
    "patternProperties",
    "unevaluatedProperties",
    "dependentSchemas",
];
const NAMES: [&str; 8] = ["kind", "type", "data", "metadata", "a", "$ref", "const", "x/y~z"];
const REFERENCES: [&str; 8] = [
    "#",
    "#/$defs/a",
    "#/$defs/x~1y~0z",
    "#/properties/type",
    "#/anyOf/0",
    "other.json",
    "#name",
    "#/%24defs/a",
];
const STRINGS: [&str; 9] = [
    "command",
    "query",
    "event",
    "A.B",
    "Memory.Set",
    "object",
    "string",
    "lower",
    "http://json-schema.org/draft-07/schema#",
];

fn scalar(random: &mut Random) -> Value {
    match random.below(6) {
        0 => Value::Null,
        1 => random.percent(50).into(),
        2 => random.below(5).into(),
        3 => json!(-0.5),
        _ => random.pick(&STRINGS).into(),
    }
}

fn schema(random: &mut Random, depth: u32) -> Value {
    if depth > 5 || random.percent(10) {
        return if random.percent(60) { random.percent(70).into() } else { scalar(random) };
    }
    let mut keywords = Map::new();
    for _ in 0..1 + random.below(3) {
        let keyword = random.pick(&KEYWORDS);
        keywords.insert(keyword.to_owned(), operand(random, keyword, depth + 1));
    }
    Value::Object(keywords)
}

fn operand(random: &mut Random, keyword: &str, depth: u32) -> Value {
    if random.percent(8) {
        return schema(random, depth);
    }
    let list = |random: &mut Random| (0..random.below(4)).map(|_| schema(random, depth)).collect();
    match keyword {
        "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
            (0..random.below(5)).map(|_| (random.pick(&NAMES).to_owned(), schema(random, depth))).collect()
        }
        "allOf" | "anyOf" | "oneOf" => list(random),
        "$ref" | "$dynamicRef" => random.pick(&REFERENCES).into(),
        "enum" => (0..random.below(4)).map(|_| scalar(random)).collect(),
        "required" => (0..random.below(3)).map(|_| Value::from(random.pick(&NAMES))).collect(),
        "const" | "default" | "type" | "pattern" | "$id" | "$schema" | "$anchor" => scalar(random),
        "minLength" => random.below(9).into(),
        "examples" => list(random),
        _ => schema(random, depth),
    }
}

/// A schema that discovery accepts, to be damaged.
fn sound(random: &mut Random) -> Value {
    let message = |kind: &str, name: &str, data: Value| {
        json!({ "type": "object", "properties": { "kind": { "const": kind }, "type": { "const": name }, "data": data },
            "required": ["kind", "type", "data", "metadata"] })
    };
    json!({
        "$defs": { "a": { "enum": ["A.B", "Memory.Set"] }, "tree": { "items": { "$ref": "#/$defs/tree" } } },
        "anyOf": [
            message("command", "Memory.Set", schema(random, 3)),
            message("query", "Memory.Get", json!({ "$ref": "#/$defs/tree" })),
            { "properties": { "kind": { "const": "event" }, "type": { "$ref": "#/$defs/a" } } },
        ],
    })
}

/// Replaces, removes or moves one node somewhere in the schema.
fn damage(random: &mut Random, node: &mut Value) {
    let stop = random.percent(25);
    match node {
        Value::Object(members) if !members.is_empty() && !stop => {
            let at = random.below(members.len() as u64) as usize;
            let name = members.keys().nth(at).cloned().unwrap_or_default();
            match random.below(8) {
                0 => drop(members.remove(&name)),
                1 => {
                    let value = members.remove(&name).unwrap_or_default();
                    members.insert(random.pick(&KEYWORDS).to_owned(), value);
                }
                _ => damage(random, members.get_mut(&name).expect("it is one of its names")),
            }
        }
        Value::Array(items) if !items.is_empty() && !stop => {
            let at = random.below(items.len() as u64) as usize;
            damage(random, &mut items[at]);
        }
        node => *node = schema(random, 3),
    }
}

/// What must hold of any schema: no panic, an answer in good time, paths that exist, validators
/// that work.
fn check(schema: &Value) -> bool {
    let start = Instant::now();
    let _ = EnvelopeValidator::new(schema);
    let verdict = discover(schema);
    assert!(start.elapsed() < TIME_LIMIT, "took {:?}: {schema}", start.elapsed());
    match verdict {
        Ok(pairs) => {
            assert!(!pairs.is_empty());
            for pair in &pairs {
                assert_eq!(mainspring_message::check_type_name(&pair.type_name), Ok(()));
                for data in ["null", "{}", r#"{"a":[1,"x"],"kind":"query"}"#, "1e999"] {
                    let _ = pair.validator.check(data, r#"{"id":"a","timestamp":1}"#);
                }
            }
            true
        }
        Err(error) => {
            assert!(error.path.starts_with('#'), "{error}");
            assert!(!error.reason.is_empty());
            false
        }
    }
}

#[test]
fn generated_schemas_are_accepted_or_refused_with_a_path() {
    let mut random = Random::new(1);
    for _ in 0..SCHEMAS {
        check(&schema(&mut random, 0));
    }
}

#[test]
fn damaged_schemas_are_accepted_or_refused_with_a_path() {
    let mut random = Random::new(2);
    let mut accepted = 0;
    for _ in 0..SCHEMAS / 2 {
        let mut schema = sound(&mut random);
        for _ in 0..random.below(3) {
            damage(&mut random, &mut schema);
        }
        accepted += u64::from(check(&schema));
    }
    assert!(accepted > SCHEMAS / 50, "only {accepted} damaged schemas were still sound: damage less");
}
