//! One schema document: its draft, its references, and copies of its parts that stand alone.

use std::cell::Cell;

use jsonschema::Draft;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

use super::SchemaError;

/// How deep schemas may nest, references followed.
pub(super) const SCHEMA_DEPTH_MAX: usize = 64;

/// How many nodes one discovery may visit: references that fan out could otherwise make a small
/// schema endless.
const VISITS_MAX: usize = 1_000_000;

/// Keywords whose values are data, not schemas: nothing in them is a reference.
const PLAIN_KEYWORDS: [&str; 5] = ["const", "enum", "default", "examples", "example"];
/// Keywords whose values are schemas under names of the author's choice.
const NAMED_SCHEMAS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords that make references depend on more than the place they stand in.
const UNSUPPORTED_REFERENCES: [&str; 4] =
    ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

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

    /// Counts a visit to a node at this depth, references followed, and fails when there are too
    /// many.
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

    /// A schema that means what `part` means inside this document, but stands alone: with what its
    /// references need, and nothing else.
    pub(super) fn stand_alone(&self, part: &Value) -> Value {
        let mut needed = Definitions::default();
        let Value::Object(keywords) = needed.rebased(part, Members::Keywords) else { return part.clone() };
        let definitions = needed.collect(self.root);
        let mut alone = Map::new();
        if let Some(draft) = self.root.get("$schema") {
            alone.insert("$schema".to_owned(), draft.clone());
        }
        if definitions.is_empty() {
            alone.extend(keywords);
            return Value::Object(alone);
        }
        // Up to draft 7 nothing counts beside a reference, and the part may have definitions of its
        // own.
        if keywords.contains_key("$ref") || keywords.contains_key("$defs") {
            alone.insert("allOf".to_owned(), json!([keywords]));
        } else {
            alone.extend(keywords);
        }
        alone.insert("$defs".to_owned(), Value::Object(definitions));
        Value::Object(alone)
    }
}

/// What the references of a part lead to, under new names.
#[derive(Default)]
struct Definitions {
    /// By the pointer that names it in the document.
    names: BTreeMap<String, String>,
    waiting: VecDeque<(String, String)>,
}

impl Definitions {
    /// The name of what this pointer leads to: its last step, made unique.
    fn name(&mut self, pointer: &str) -> String {
        if let Some(name) = self.names.get(pointer) {
            return name.clone();
        }
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let plain: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let plain = if plain.is_empty() { "message".to_owned() } else { plain };
        let mut name = plain.clone();
        let mut number = 1;
        while self.names.values().any(|taken| *taken == name) {
            number += 1;
            name = format!("{plain}_{number}");
        }
        self.names.insert(pointer.to_owned(), name.clone());
        self.waiting.push_back((pointer.to_owned(), name.clone()));
        name
    }

    /// A copy whose references lead to `#/$defs`.
    fn rebased(&mut self, node: &Value, members: Members) -> Value {
        match node {
            Value::Array(items) => items.iter().map(|item| self.rebased(item, members)).collect(),
            Value::Object(object) => {
                let rebase = |(member, value): (&String, &Value)| {
                    let rebased = match (value, members.below(member)) {
                        (Value::String(reference), _) if members.is_reference(member, value) => {
                            format!("#/$defs/{}", self.name(reference.trim_start_matches('#'))).into()
                        }
                        (value, Some(members)) => self.rebased(value, members),
                        (plain, None) => plain.clone(),
                    };
                    (member.clone(), rebased)
                };
                object.iter().map(rebase).collect()
            }
            plain => plain.clone(),
        }
    }

    /// Copies of everything that was named, and of what that needs in turn.
    fn collect(mut self, root: &Value) -> Map<String, Value> {
        let mut definitions = Map::new();
        while let Some((pointer, name)) = self.waiting.pop_front() {
            // That it is there was checked when the document was read.
            let Some(target) = root.pointer(&pointer) else { continue };
            let mut copy = self.rebased(target, Members::Keywords);
            for keyword in ["$id", "id", "$schema"] {
                copy.as_object_mut().map(|keywords| keywords.remove(keyword));
            }
            definitions.insert(name, copy);
        }
        definitions
    }
}

/// A keyword or name as one step of a JSON pointer.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
