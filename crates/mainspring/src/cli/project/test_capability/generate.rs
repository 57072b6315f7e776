//! Data that fits a JSON Schema, made from a seed: what people would send, and what programs
//! stumble over.
//!
//! It knows the keywords that people write. What it makes may still not fit (a `pattern`, a `not`):
//! whoever uses it asks the validator, and takes another.

use serde_json::{Map, Value, json};

/// Schemas within schemas that are followed; beyond that only what must be there is made.
const DEPTH_MAX: usize = 6;
/// Items of a list, and characters of a text, that are made where nothing says how many.
const LENGTH_MAX: u64 = 8;
/// Properties beyond those that a schema names.
const EXTRA_MAX: u64 = 2;

/// Texts over which programs stumble: escapes, other scripts, what looks like something else.
const TEXTS: &[&str] = &[
    "Ada",
    "",
    " ",
    "a \"b\" \\ {c}: [d], é",
    "two\nlines\tand a tab",
    "日本語 🙂",
    "null",
    "0",
    "{\"kind\":\"reply\"}",
    "</script>",
    "%s %d %n",
    "$(echo no) `no`",
    "\u{1}\u{7f}",
];

/// Numbers from a seed: the same seed, the same numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number (SplitMix64).
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// One of some.
    pub(super) fn one<'a, T>(&mut self, some: &'a [T]) -> Option<&'a T> {
        some.get(self.below(some.len() as u64) as usize)
    }

    /// True so many times in ten.
    fn chance(&mut self, in_ten: u64) -> bool {
        self.below(10) < in_ten
    }
}

/// Makes data for one schema.
pub(super) struct Generator<'a> {
    root: &'a Value,
    random: &'a mut Random,
}

impl<'a> Generator<'a> {
    pub(super) fn new(root: &'a Value, random: &'a mut Random) -> Generator<'a> {
        Generator { root, random }
    }

    /// One value.
    pub(super) fn value(&mut self) -> Value {
        self.of(self.root, 0)
    }

    fn of(&mut self, schema: &'a Value, depth: usize) -> Value {
        let Some(object) = schema.as_object() else { return self.anything() };
        if let Some(fixed) = self.given(object) {
            return fixed;
        }
        if let Some(inner) = object.get("$ref").and_then(Value::as_str).and_then(|name| self.resolve(name)) {
            return if depth > 2 * DEPTH_MAX { Value::Null } else { self.of(inner, depth + 1) };
        }
        for union in ["oneOf", "anyOf"] {
            if let Some(branches) = object.get(union).and_then(Value::as_array)
                && let Some(branch) = self.random.one(branches)
            {
                let chosen = self.of(branch, depth + 1);
                return self.joined(chosen, object, depth);
            }
        }
        if let Some(parts) = object.get("allOf").and_then(Value::as_array) {
            let mut whole = self.of_type(object, depth);
            for part in parts {
                let part = self.of(part, depth + 1);
                whole = merged(whole, part);
            }
            return whole;
        }
        self.of_type(object, depth)
    }

    /// What the schema gives itself: `const`, `enum`, and now and then an example.
    fn given(&mut self, schema: &Map<String, Value>) -> Option<Value> {
        if let Some(value) = schema.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.random.one(values).cloned();
        }
        let examples = schema.get("examples").and_then(Value::as_array)?;
        // What has a pattern cannot be made, so its examples are all there is.
        let in_ten = if schema.contains_key("pattern") { 10 } else { 3 };
        if self.random.chance(in_ten) { self.random.one(examples).cloned() } else { None }
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// A branch of a union, and what stands beside the union.
    fn joined(&mut self, chosen: Value, schema: &'a Map<String, Value>, depth: usize) -> Value {
        if schema.contains_key("properties") && chosen.is_object() {
            let beside = self.object(schema, depth);
            return merged(beside, chosen);
        }
        chosen
    }

    fn of_type(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Value {
        let named: Vec<&str> = match schema.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let implied = [
            ("properties", "object"),
            ("required", "object"),
            ("items", "array"),
            ("minLength", "string"),
            ("maxLength", "string"),
            ("pattern", "string"),
            ("minimum", "number"),
            ("maximum", "number"),
        ];
        let chosen = self.random.one(&named).copied();
        let kind = chosen.or_else(|| {
            implied.into_iter().find(|(keyword, _)| schema.contains_key(*keyword)).map(|(_, kind)| kind)
        });
        match kind {
            Some("object") => self.object(schema, depth),
            Some("array") => self.list(schema, depth),
            Some("string") => Value::String(self.text(schema)),
            Some("integer") => self.number(schema, true),
            Some("number") => {
                let whole = self.random.chance(5);
                self.number(schema, whole)
            }
            Some("boolean") => json!(self.random.chance(5)),
            Some("null") => Value::Null,
            _ => self.anything(),
        }
    }

    fn object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Value {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut made = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, inner) in properties.into_iter().flatten() {
            let is_needed = required.contains(&name.as_str());
            if is_needed || (depth < DEPTH_MAX && self.random.chance(6)) {
                made.insert(name.clone(), self.of(inner, depth + 1));
            }
        }
        for name in required {
            if !made.contains_key(name) {
                made.insert(name.to_owned(), self.anything());
            }
        }
        let extra = schema.get("additionalProperties");
        if extra != Some(&Value::Bool(false)) && depth < DEPTH_MAX && self.random.chance(2) {
            for _ in 0..self.random.below(EXTRA_MAX + 1) {
                let name = format!("extra{}", self.random.below(100));
                let value = match extra {
                    Some(inner @ Value::Object(_)) => self.of(inner, depth + 1),
                    _ => self.anything(),
                };
                made.entry(name).or_insert(value);
            }
        }
        Value::Object(made)
    }

    fn list(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Value {
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0);
        let most = bound("maxItems").unwrap_or(least + LENGTH_MAX).max(least);
        let length = if depth >= DEPTH_MAX { least } else { least + self.random.below(most - least + 1) };
        let prefix = schema.get("prefixItems").and_then(Value::as_array);
        let mut made: Vec<Value> = Vec::new();
        for at in 0..length.min(1000) {
            let inner = prefix.and_then(|items| items.get(at as usize)).or_else(|| schema.get("items"));
            let value = match inner {
                Some(inner) => self.of(inner, depth + 1),
                None => self.anything(),
            };
            if schema.get("uniqueItems") != Some(&Value::Bool(true)) || !made.contains(&value) {
                made.push(value);
            }
        }
        Value::Array(made)
    }

    fn text(&mut self, schema: &Map<String, Value>) -> String {
        let of_format = schema.get("format").and_then(Value::as_str).and_then(|format| {
            Some(match format {
                "date-time" => "2026-02-28T23:59:59Z",
                "date" => "2026-02-28",
                "time" => "23:59:59Z",
                "email" => "ada@example.org",
                "hostname" => "example.org",
                "ipv4" => "192.0.2.1",
                "ipv6" => "2001:db8::1",
                "uri" | "uri-reference" => "https://example.org/a?b=c#d",
                "uuid" => "123e4567-e89b-12d3-a456-426614174000",
                _ => return None,
            })
        });
        if let Some(text) = of_format {
            return text.to_owned();
        }
        let bound =
            |name: &str| schema.get(name).and_then(Value::as_u64).map(|length| length.min(1 << 16) as usize);
        let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength"));
        let mut text = self.random.one(TEXTS).copied().unwrap_or_default().to_owned();
        while text.chars().count() < least {
            text.push(char::from(b'a' + self.random.below(26) as u8));
        }
        match most {
            Some(most) => text.chars().take(most.max(least)).collect(),
            None => text,
        }
    }

    fn number(&mut self, schema: &Map<String, Value>, whole: bool) -> Value {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let step = bound("multipleOf").filter(|step| *step > 0.0);
        let unit = step.unwrap_or(if whole { 1.0 } else { 0.5 });
        let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + unit));
        let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - unit));
        let (least, most) = match (least, most) {
            (Some(least), Some(most)) => (least, most.max(least)),
            (Some(least), None) => (least, least + 1000.0),
            (None, Some(most)) => (most - 1000.0, most),
            (None, None) => (-1000.0, 1000.0),
        };
        // The ends are where most mistakes are.
        let at = match self.random.below(6) {
            0 => least,
            1 => most,
            2 if least <= 0.0 && most >= 0.0 => 0.0,
            _ => least + (most - least) * (self.random.below(1001) as f64 / 1000.0),
        };
        let stepped = ((at / unit).floor() * unit).clamp(least, most);
        let stepped = if stepped < least { stepped + unit } else { stepped };
        if whole { json!(stepped.ceil() as i64) } else { json!(stepped) }
    }

    /// Any value, where a schema asks for nothing.
    fn anything(&mut self) -> Value {
        match self.random.below(6) {
            0 => Value::Null,
            1 => json!(self.random.chance(5)),
            2 => json!(self.random.below(100)),
            3 => json!([1, "two", null]),
            4 => json!({ "any": "thing" }),
            _ => json!(self.random.one(TEXTS)),
        }
    }
}

/// Two objects as one; otherwise the second.
fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            one.extend(other);
            Value::Object(one)
        }
        (_, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_kernel::schema::Validator;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "minLength": 3, "maxLength": 5 },
                "age": { "type": "integer", "minimum": 18, "exclusiveMaximum": 100 },
                "share": { "type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.25 },
                "kind": { "enum": ["a", "b"] },
                "tags": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 3, "uniqueItems": true },
                "inner": { "$ref": "#/$defs/inner" },
                "either": { "oneOf": [{ "type": "integer" }, { "type": "string" }, { "type": "null" }] },
                "code": { "type": "string", "pattern": "^[A-Z]{3}$", "examples": ["ABC"] },
                "when": { "type": "string", "format": "date-time" },
            },
            "required": ["name", "age", "tags", "inner", "code"],
            "additionalProperties": false,
            "$defs": { "inner": {
                "allOf": [{ "type": "object", "properties": { "x": { "const": 7 } }, "required": ["x"] }],
                "properties": { "next": { "$ref": "#/$defs/inner" } },
            } },
        })
    }

    #[test]
    fn what_is_made_fits_its_schema_and_differs() {
        let (schema, mut random) = (schema(), Random::new(1));
        let validator = Validator::of_data(&schema).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let data = Generator::new(&schema, &mut random).value().to_string();
            if let Err(violation) = validator.check(&data, "{}") {
                panic!("{violation}: {data}");
            }
            seen.insert(data);
        }
        assert!(seen.len() > 200, "{}", seen.len());
    }

    #[test]
    fn the_same_seed_makes_the_same() {
        let (schema, made) = (schema(), |seed| {
            let mut random = Random::new(seed);
            (0..20).map(|_| Generator::new(&schema(), &mut random).value()).collect::<Vec<_>>()
        });
        assert!(schema.is_object());
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
    }

    #[test]
    fn a_schema_that_refers_to_itself_has_an_end() {
        let schema = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } });
        assert!(Generator::new(&schema, &mut Random::new(1)).value().is_null());
    }
}
