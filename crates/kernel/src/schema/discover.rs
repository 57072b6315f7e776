//! Finite `(kind, type)` pairs from a schema of whole messages.
//!
//! The schema is read as a union of rectangles, each a set of kinds times a set of types.
//! `properties` narrows a rectangle, unions add rectangles, intersections multiply them. A side
//! that stays unlimited fails the discovery, and the complaint names the node that should have
//! limited it. What else the schema asks of a pair is worked out afterwards, pair by pair (see
//! `residual.rs`).

use mainspring_message::Kind;
use serde_json::{Map, Value};

use super::SchemaError;
use super::document::Document;
use super::residual::{Evaluator, Residual};
use super::validate::Validator;

/// The most `(kind, type)` pairs of one schema.
pub const PAIRS_MAX: usize = 4096;

const ANY_STRING: &str = "admits any string; name the values with `const` or `enum`";

/// A `(kind, type)` that a schema admits, with the validator of the rest of such a message.
#[derive(Debug)]
pub struct Pair {
    /// The kind of message.
    pub kind: Kind,
    /// The type of message.
    pub type_name: String,
    /// What the schema asks of `data` and `metadata` in messages of this kind and type.
    pub validator: Validator,
}

/// All pairs of one schema, each once, in the order in which the schema names them.
pub type Discovery = Vec<Pair>;

/// Finds all `(kind, type)` pairs that `schema` admits.
///
/// # Examples
///
/// ```
/// use mainspring_kernel::schema::discover;
/// use serde_json::json;
///
/// let pairs = discover(&json!({
///     "properties": {
///         "kind": { "const": "query" },
///         "type": { "enum": ["Memory.Get", "Memory.List"] },
///         "data": { "type": "object", "required": ["key"] },
///     }
/// }))?;
/// assert_eq!(pairs[1].type_name, "Memory.List");
/// assert!(pairs[1].validator.check(r#"{"key":"a"}"#, "{}").is_ok());
///
/// let error = discover(&json!({
///     "properties": { "kind": { "const": "query" }, "type": { "type": "string" } }
/// })).unwrap_err();
/// assert_eq!(error.path, "#/properties/type");
/// # Ok::<(), mainspring_kernel::schema::SchemaError>(())
/// ```
///
/// # Errors
///
/// When the pairs are not finite, a name is not a legal kind or type, a keyword around them is not
/// supported, or a part is not valid JSON Schema; the error names the node.
pub fn discover(schema: &Value) -> Result<Discovery, SchemaError> {
    let document = Document::new(schema)?;
    let mut evaluator = Evaluator::new(&document);
    let mut pairs = Vec::new();
    for (kind, type_name) in candidates(&document)? {
        let residual = evaluator.residual(kind, &type_name)?;
        if !matches!(residual, Residual::Never) {
            let validator = Validator::new(&document, residual)?;
            pairs.push(Pair { kind, type_name, validator });
        }
    }
    if pairs.is_empty() {
        return Err(SchemaError::new("#", "admits no message at all"));
    }
    Ok(pairs)
}

/// A set of names: finite, each with the path of the node that gave it, or unlimited, with the node
/// to blame.
#[derive(Clone)]
enum Names {
    Only(Vec<(String, String)>),
    Unlimited { path: String, reason: &'static str, is_vague: bool },
}

impl Names {
    fn and(self, other: Names) -> Names {
        match (self, other) {
            (Names::Only(mine), Names::Only(others)) => Names::Only(
                mine.into_iter().filter(|(name, _)| others.iter().any(|(other, _)| other == name)).collect(),
            ),
            (only @ Names::Only(_), _) | (_, only @ Names::Only(_)) => only,
            // A node that tried to limit the names is a better one to blame than one that never
            // mentioned them.
            (Names::Unlimited { is_vague: true, .. }, other) => other,
            (mine, _) => mine,
        }
    }

    fn or(self, other: Names) -> Names {
        match (self, other) {
            (Names::Only(mut names), Names::Only(others)) => {
                let added =
                    others.into_iter().filter(|(name, _)| !names.iter().any(|(known, _)| known == name));
                let added: Vec<_> = added.collect();
                names.extend(added);
                Names::Only(names)
            }
            (unlimited @ Names::Unlimited { .. }, _) | (_, unlimited) => unlimited,
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Names::Only(names) if names.is_empty())
    }

    fn finite(&self) -> Result<&[(String, String)], SchemaError> {
        match self {
            Names::Only(names) => Ok(names),
            Names::Unlimited { path, reason, .. } => Err(SchemaError::new(path, *reason)),
        }
    }
}

#[derive(Clone)]
struct Rectangle {
    kinds: Names,
    types: Names,
}

fn candidates(document: &Document<'_>) -> Result<Vec<(Kind, String)>, SchemaError> {
    let mut pairs = Vec::new();
    for Rectangle { kinds, types } in rectangles(document, document.root, "#", 0)? {
        for (kind, kind_path) in kinds.finite()? {
            let kind = Kind::from_wire(kind).ok_or_else(|| {
                SchemaError::new(
                    kind_path,
                    format!("{kind:?} is none of command, query, event, reply, error"),
                )
            })?;
            for (type_name, type_path) in types.finite()? {
                mainspring_message::check_type_name(type_name)
                    .map_err(|reason| SchemaError::new(type_path, format!("{type_name:?} {reason}")))?;
                pairs.push((kind, type_name.clone()));
            }
        }
        too_many(pairs.len(), "#")?;
    }
    let mut seen = std::collections::BTreeSet::new();
    pairs.retain(|pair| seen.insert(pair.clone()));
    Ok(pairs)
}

fn too_many(count: usize, path: &str) -> Result<(), SchemaError> {
    if count > PAIRS_MAX {
        return Err(SchemaError::new(
            path,
            format!("admits more than {PAIRS_MAX} combinations of kind and type"),
        ));
    }
    Ok(())
}

fn rectangles(
    document: &Document<'_>,
    node: &Value,
    path: &str,
    depth: usize,
) -> Result<Vec<Rectangle>, SchemaError> {
    document.visit(path, depth)?;
    let unlimited = |reason| Names::Unlimited { path: path.to_owned(), reason, is_vague: true };
    let everything = Rectangle {
        kinds: unlimited("does not say which `kind` it takes; give `kind` a `const` or an `enum`"),
        types: unlimited("does not say which `type` it takes; give `type` a `const` or an `enum`"),
    };
    let keywords = match node {
        Value::Bool(false) => return Ok(Vec::new()),
        Value::Bool(true) => return Ok(vec![everything]),
        Value::Object(keywords) => keywords,
        _ => return Err(SchemaError::new(path, "a schema must be an object or a boolean")),
    };
    let mut found = vec![everything];
    if let Some(reference) = keywords.get("$ref") {
        let target = document.resolve(reference, &format!("{path}/$ref"))?;
        found = product(found, rectangles(document, target, &target_path(reference), depth + 1)?, path)?;
        if document.reference_stands_alone() {
            return Ok(found);
        }
    }
    if let Some(Value::Object(properties)) = keywords.get("properties") {
        let names = |field: &str| match properties.get(field) {
            Some(node) => names(document, node, &format!("{path}/properties/{field}"), depth + 1).map(Some),
            None => Ok(None),
        };
        let (kinds, types) = (names("kind")?, names("type")?);
        for rectangle in &mut found {
            if let Some(kinds) = &kinds {
                rectangle.kinds = rectangle.kinds.clone().and(kinds.clone());
            }
            if let Some(types) = &types {
                rectangle.types = rectangle.types.clone().and(types.clone());
            }
        }
    }
    for (path, branch) in branches(keywords, "allOf", path) {
        found = product(found, rectangles(document, branch, &path, depth + 1)?, &path)?;
    }
    for union in ["anyOf", "oneOf"] {
        if keywords.contains_key(union) {
            let mut all = Vec::new();
            for (path, branch) in branches(keywords, union, path) {
                all.extend(rectangles(document, branch, &path, depth + 1)?);
            }
            found = product(found, all, path)?;
        }
    }
    Ok(found)
}

fn product(ours: Vec<Rectangle>, theirs: Vec<Rectangle>, path: &str) -> Result<Vec<Rectangle>, SchemaError> {
    too_many(ours.len().saturating_mul(theirs.len()), path)?;
    let mut both = Vec::new();
    for mine in &ours {
        for other in &theirs {
            let kinds = mine.kinds.clone().and(other.kinds.clone());
            let types = mine.types.clone().and(other.types.clone());
            if !kinds.is_empty() && !types.is_empty() {
                both.push(Rectangle { kinds, types });
            }
        }
    }
    Ok(both)
}

/// The strings that the schema of `kind` or `type` admits, before anything else in it has its say.
fn names(document: &Document<'_>, node: &Value, path: &str, depth: usize) -> Result<Names, SchemaError> {
    document.visit(path, depth)?;
    let keywords = match node {
        Value::Bool(false) => return Ok(Names::Only(Vec::new())),
        Value::Bool(true) => {
            return Ok(Names::Unlimited { path: path.to_owned(), reason: ANY_STRING, is_vague: false });
        }
        Value::Object(keywords) => keywords,
        _ => return Err(SchemaError::new(path, "a schema must be an object or a boolean")),
    };
    let reason = if keywords.contains_key("pattern") {
        "a pattern admits endlessly many strings; list the values with `enum`"
    } else {
        ANY_STRING
    };
    // If a part of this node is to blame, its path says more.
    let is_vague = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|&keyword| keywords.contains_key(keyword));
    let mut found = Names::Unlimited { path: path.to_owned(), reason, is_vague };
    if let Some(reference) = keywords.get("$ref") {
        let target = document.resolve(reference, &format!("{path}/$ref"))?;
        found = found.and(names(document, target, &target_path(reference), depth + 1)?);
        if document.reference_stands_alone() {
            return Ok(found);
        }
    }
    if let Some(value) = keywords.get("const") {
        found = found.and(Names::Only(vec![literal(value, format!("{path}/const"))?]));
    }
    if let Some(Value::Array(values)) = keywords.get("enum") {
        let literals =
            values.iter().enumerate().map(|(at, value)| literal(value, format!("{path}/enum/{at}")));
        found = found.and(Names::Only(literals.collect::<Result<_, _>>()?));
    }
    for (path, branch) in branches(keywords, "allOf", path) {
        found = found.and(names(document, branch, &path, depth + 1)?);
    }
    for union in ["anyOf", "oneOf"] {
        if keywords.contains_key(union) {
            let mut all = Names::Only(Vec::new());
            for (path, branch) in branches(keywords, union, path) {
                all = all.or(names(document, branch, &path, depth + 1)?);
            }
            found = found.and(all);
        }
    }
    Ok(found)
}

fn literal(value: &Value, path: String) -> Result<(String, String), SchemaError> {
    match value {
        Value::String(name) => Ok((name.clone(), path)),
        _ => Err(SchemaError::new(&path, "must be a string, because `kind` and `type` are")),
    }
}

fn branches<'a>(
    keywords: &'a Map<String, Value>,
    keyword: &'a str,
    path: &'a str,
) -> impl Iterator<Item = (String, &'a Value)> {
    let list = keywords.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().enumerate().map(move |(at, branch)| (format!("{path}/{keyword}/{at}"), branch))
}

/// The path of a reference's target, which `resolve` has found before.
fn target_path(reference: &Value) -> String {
    reference.as_str().unwrap_or("#").to_owned()
}
