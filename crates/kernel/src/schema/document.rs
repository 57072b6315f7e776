//! One schema document: its draft, its references, and copies of its parts that stand alone.

use std::cell::Cell;

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use super::SchemaError;

/// How deep schemas may nest, references followed.
pub(super) const SCHEMA_DEPTH_MAX: usize = 64;

/// How many nodes one discovery may visit: references that fan out could otherwise make a small schema endless.
const VISITS_MAX: usize = 1_000_000;

/// Keywords whose values are data, not schemas: nothing in them is a reference.
const PLAIN_KEYWORDS: [&str; 5] = ["const", "enum", "default", "examples", "example"];
/// Keywords whose values are schemas under names of the author's choice.
const NAMED_SCHEMAS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords that make references depend on more than the place they stand in.
const UNSUPPORTED_REFERENCES: [&str; 4] =
    ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];
/// Where a part's copy keeps the whole document, for its references.
const WHOLE: &str = "#/$defs/document";

/// What the members of an object are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    Keywords,
    NamedSchemas,
}

impl Members {
    /// What the value of this member consists of, or nothing if it is plain data.
    fn below(self, member: &str) -> Option<Members> {
        match self {
            Members::NamedSchemas => Some(Members::Keywords),
            Members::Keywords if PLAIN_KEYWORDS.contains(&member) => None,
            Members::Keywords if NAMED_SCHEMAS.contains(&member) => Some(Members::NamedSchemas),
            Members::Keywords => Some(Members::Keywords),
        }
    }

    fn is_reference(self, member: &str, value: &Value) -> bool {
        self == Members::Keywords && member == "$ref" && value.is_string()
    }
}

/// A schema with everything in it that references can reach.
pub(super) struct Document<'a> {
    pub(super) root: &'a Value,
    pub(super) draft: Draft,
    visits: Cell<usize>,
}

impl<'a> Document<'a> {
    /// Checks that every reference in `root` can be followed within it.
    pub(super) fn new(root: &'a Value) -> Result<Self, SchemaError> {
        let draft = match root.get("$schema") {
            None => Draft::default(),
            Some(_) => match Draft::default().detect(root) {
                Draft::Unknown => {
                    return Err(SchemaError::new(
                        "#/$schema",
                        "is not a draft that is known here; leave it out for draft 2020-12",
                    ));
                }
                draft => draft,
            },
        };
        let document = Self { root, draft, visits: Cell::new(0) };
        document.check(root, Members::Keywords, "#", 0)?;
        Ok(document)
    }

    /// Whether a `$ref` makes its neighbours meaningless, as it did up to draft 7.
    pub(super) fn reference_stands_alone(&self) -> bool {
        matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
    }

    /// The node that a reference, found at `path`, names.
    pub(super) fn resolve(&self, reference: &Value, path: &str) -> Result<&'a Value, SchemaError> {
        let reference = reference.as_str().ok_or_else(|| SchemaError::new(path, "must be a string"))?;
        let pointer =
            reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        let Some(pointer) = pointer.filter(|pointer| !pointer.contains('%')) else {
            return Err(SchemaError::new(
                path,
                format!(
                    "{reference:?} leads elsewhere; only paths within the same schema (#/$defs/...) can be followed"
                ),
            ));
        };
        self.root
            .pointer(pointer)
            .ok_or_else(|| SchemaError::new(path, format!("{reference:?} names nothing in this schema")))
    }

    /// Counts a visit to a node at this depth, references followed, and fails when there are too many.
    pub(super) fn visit(&self, path: &str, depth: usize) -> Result<(), SchemaError> {
        self.visits.set(self.visits.get() + 1);
        if depth > SCHEMA_DEPTH_MAX {
            let reason = "refers to itself around `kind` and `type`, or nests too deeply; only `data` may be recursive";
            return Err(SchemaError::new(path, reason));
        }
        if self.visits.get() > VISITS_MAX {
            return Err(SchemaError::new(
                path,
                "has too many parts; divide the capability, or list its types plainly",
            ));
        }
        Ok(())
    }

    fn check(&self, node: &Value, members: Members, path: &str, depth: usize) -> Result<(), SchemaError> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(SchemaError::new(path, format!("nests deeper than {SCHEMA_DEPTH_MAX} levels")));
        }
        match node {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check(item, members, &format!("{path}/{index}"), depth + 1)?;
                }
            }
            Value::Object(object) => {
                for (member, value) in object {
                    let path = format!("{path}/{}", escape(member));
                    if members == Members::Keywords {
                        self.check_keyword(member, value, &path, depth)?;
                    }
                    if let Some(members) = members.below(member) {
                        self.check(value, members, &path, depth + 1)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_keyword(
        &self,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        if keyword == "$ref" {
            self.resolve(value, path)?;
        } else if UNSUPPORTED_REFERENCES.contains(&keyword) {
            return Err(SchemaError::new(path, "is not supported; use `$ref`"));
        } else if matches!(keyword, "$id" | "id") && value.is_string() && depth > 0 {
            return Err(SchemaError::new(path, "a schema within the schema may not have its own id"));
        }
        Ok(())
    }

    /// A schema that means what `part` means inside this document, but stands alone.
    pub(super) fn stand_alone(&self, part: &Value) -> Value {
        if part.is_boolean() {
            return part.clone();
        }
        let mut alone = Map::new();
        if let Some(draft) = self.root.get("$schema") {
            alone.insert("$schema".to_owned(), draft.clone());
        }
        if has_reference(part, Members::Keywords) {
            let mut document = rebased(self.root, Members::Keywords);
            for keyword in ["$id", "id", "$schema"] {
                document.as_object_mut().map(|keywords| keywords.remove(keyword));
            }
            alone.insert("$defs".to_owned(), json!({ "document": document }));
            alone.insert("allOf".to_owned(), json!([rebased(part, Members::Keywords)]));
        } else if let Value::Object(keywords) = part {
            alone.extend(keywords.clone());
        }
        Value::Object(alone)
    }
}

/// A copy whose references lead into [`WHOLE`].
fn rebased(node: &Value, members: Members) -> Value {
    match node {
        Value::Array(items) => items.iter().map(|item| rebased(item, members)).collect(),
        Value::Object(object) => {
            let rebase = |(member, value): (&String, &Value)| {
                let rebased = match (value, members.below(member)) {
                    (Value::String(reference), _) if members.is_reference(member, value) => {
                        format!("{WHOLE}{}", reference.trim_start_matches('#')).into()
                    }
                    (value, Some(members)) => rebased(value, members),
                    (plain, None) => plain.clone(),
                };
                (member.clone(), rebased)
            };
            object.iter().map(rebase).collect()
        }
        plain => plain.clone(),
    }
}

fn has_reference(node: &Value, members: Members) -> bool {
    match node {
        Value::Array(items) => items.iter().any(|item| has_reference(item, members)),
        Value::Object(object) => object.iter().any(|(member, value)| {
            members.is_reference(member, value)
                || members.below(member).is_some_and(|members| has_reference(value, members))
        }),
        _ => false,
    }
}

/// A keyword or name as one step of a JSON pointer.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
