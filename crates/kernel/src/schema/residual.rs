//! What a schema of whole messages still asks once `kind` and `type` are known.
//!
//! With both names fixed, every part of the schema that looks at them is simply true or false; what
//! is left looks at `data` and perhaps at `metadata`. So the hot path need not look at the envelope
//! again.

use std::collections::HashMap;

use jsonschema::Validator as Library;
use mainspring_message::Kind;
use serde_json::{Map, Value, json};

use super::SchemaError;
use super::document::Document;

/// The rest of a schema: true, false, a schema of `data`, or a schema of `{"data": ..., "metadata":
/// ...}`.
#[derive(Clone, Debug)]
pub(super) enum Residual {
    Always,
    Never,
    Data(Value),
    Envelope(Value),
}

/// Keywords of the message's own object that assert something we do not work out.
const UNSUPPORTED: [&str; 10] = [
    "const",
    "enum",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
];
/// The fields of every message.
const FIELDS: [&str; 4] = ["kind", "type", "data", "metadata"];

/// Works out residuals, remembering compiled schemas of `kind` and `type`.
pub(super) struct Evaluator<'a> {
    document: &'a Document<'a>,
    /// How many references are being followed.
    depth: usize,
    names: HashMap<String, Library>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(document: &'a Document<'a>) -> Self {
        Self { document, depth: 0, names: HashMap::new() }
    }

    /// What the document's root asks of messages with this kind and type.
    pub(super) fn residual(&mut self, kind: Kind, type_name: &str) -> Result<Residual, SchemaError> {
        self.node(self.document.root, "#", kind, type_name)
    }

    fn node(
        &mut self,
        node: &Value,
        path: &str,
        kind: Kind,
        type_name: &str,
    ) -> Result<Residual, SchemaError> {
        self.document.visit(path, self.depth)?;
        let keywords = match node {
            Value::Bool(true) => return Ok(Residual::Always),
            Value::Bool(false) => return Ok(Residual::Never),
            Value::Object(keywords) => keywords,
            _ => return Err(SchemaError::new(path, "a schema must be an object or a boolean")),
        };
        if let Some(reference) = keywords.get("$ref")
            && self.document.reference_stands_alone()
        {
            return self.reference(reference, path, kind, type_name);
        }
        let mut asked = Vec::new();
        for (keyword, value) in keywords {
            let at = format!("{path}/{keyword}");
            match keyword.as_str() {
                "$ref" => asked.push(self.reference(value, path, kind, type_name)?),
                "type" => asked.push(truth(admits_object(value))),
                "properties" => asked.extend(self.properties(value, &at, kind, type_name)?),
                "required" => check_required(value, &at)?,
                "additionalProperties" | "unevaluatedProperties" if !value.is_boolean() => {
                    return Err(SchemaError::new(
                        &at,
                        "must be true or false here; describe `metadata` by name",
                    ));
                }
                "allOf" => asked.extend(self.list(value, &at, kind, type_name)?),
                "anyOf" => asked.push(any(self.list(value, &at, kind, type_name)?)),
                "oneOf" => asked.push(one(self.list(value, &at, kind, type_name)?)),
                "not" => asked.push(negated(self.node(value, &at, kind, type_name)?)),
                "if" => asked.extend(self.conditional(keywords, path, kind, type_name)?),
                unsupported if UNSUPPORTED.contains(&unsupported) => {
                    return Err(SchemaError::new(
                        &at,
                        "is not supported around `kind` and `type`, only inside `data`",
                    ));
                }
                // Annotations, keywords for other types, and keywords unknown to JSON Schema assert
                // nothing.
                _ => {}
            }
        }
        Ok(all(asked))
    }

    fn reference(
        &mut self,
        reference: &Value,
        path: &str,
        kind: Kind,
        type_name: &str,
    ) -> Result<Residual, SchemaError> {
        let target = self.document.resolve(reference, &format!("{path}/$ref"))?;
        self.depth += 1;
        let residual = self.node(target, reference.as_str().unwrap_or(path), kind, type_name);
        self.depth -= 1;
        residual
    }

    fn properties(
        &mut self,
        properties: &Value,
        path: &str,
        kind: Kind,
        type_name: &str,
    ) -> Result<Vec<Residual>, SchemaError> {
        let Value::Object(properties) = properties else {
            return Err(SchemaError::new(path, "must be an object of schemas"));
        };
        let mut asked = Vec::new();
        for (field, node) in properties {
            let at = format!("{path}/{}", super::document::escape(field));
            asked.push(match field.as_str() {
                "kind" => truth(self.admits_name(node, &at, kind.as_str())?),
                "type" => truth(self.admits_name(node, &at, type_name)?),
                "data" => data(node),
                "metadata" if *node == Value::Bool(true) => Residual::Always,
                "metadata" => Residual::Envelope(json!({ "properties": { "metadata": node } })),
                _ => return Err(no_such_field(&at, field)),
            });
        }
        Ok(asked)
    }

    fn list(
        &mut self,
        nodes: &Value,
        path: &str,
        kind: Kind,
        type_name: &str,
    ) -> Result<Vec<Residual>, SchemaError> {
        let Value::Array(nodes) = nodes else {
            return Err(SchemaError::new(path, "must be a list of schemas"));
        };
        let each = |(at, node)| self.node(node, &format!("{path}/{at}"), kind, type_name);
        nodes.iter().enumerate().map(each).collect()
    }

    fn conditional(
        &mut self,
        keywords: &Map<String, Value>,
        path: &str,
        kind: Kind,
        type_name: &str,
    ) -> Result<Vec<Residual>, SchemaError> {
        let mut branch = |keyword: &str| match keywords.get(keyword) {
            Some(node) => self.node(node, &format!("{path}/{keyword}"), kind, type_name),
            None => Ok(Residual::Always),
        };
        let (condition, then, otherwise) = (branch("if")?, branch("then")?, branch("else")?);
        // (not if or then) and (if or else)
        Ok(vec![any(vec![negated(condition.clone()), then]), any(vec![condition, otherwise])])
    }

    /// Whether the schema of `kind` or `type` at `path` admits this name.
    fn admits_name(&mut self, node: &Value, path: &str, name: &str) -> Result<bool, SchemaError> {
        if let Value::Object(keywords) = node
            && keywords.len() == 1
        {
            if let Some(only) = keywords.get("const") {
                return Ok(*only == *name);
            }
            if let Some(Value::Array(values)) = keywords.get("enum") {
                return Ok(values.iter().any(|value| *value == *name));
            }
        }
        if !self.names.contains_key(path) {
            let compiled =
                super::validate::library(&self.document.stand_alone(node), self.document.draft, path)?;
            self.names.insert(path.to_owned(), compiled);
        }
        Ok(self.names[path].is_valid(&Value::from(name)))
    }
}

fn truth(holds: bool) -> Residual {
    if holds { Residual::Always } else { Residual::Never }
}

fn data(node: &Value) -> Residual {
    match node {
        Value::Bool(true) => Residual::Always,
        Value::Bool(false) => Residual::Never,
        node => Residual::Data(node.clone()),
    }
}

fn admits_object(types: &Value) -> bool {
    match types {
        Value::String(name) => name == "object",
        Value::Array(names) => names.iter().any(|name| name == "object"),
        _ => false,
    }
}

fn check_required(required: &Value, path: &str) -> Result<(), SchemaError> {
    for (at, field) in required.as_array().into_iter().flatten().enumerate() {
        let known = field.as_str().is_some_and(|field| FIELDS.contains(&field));
        if !known {
            return Err(no_such_field(&format!("{path}/{at}"), &field.to_string()));
        }
    }
    Ok(())
}

fn no_such_field(path: &str, field: &str) -> SchemaError {
    SchemaError::new(path, format!("a message has no field {field}; put it into `data`"))
}

fn all(asked: Vec<Residual>) -> Residual {
    combined("allOf", asked, &Residual::Always)
}

fn any(asked: Vec<Residual>) -> Residual {
    combined("anyOf", asked, &Residual::Never)
}

/// Joins residuals by `allOf` or `anyOf`, where `neutral` changes nothing and its opposite decides
/// everything.
fn combined(keyword: &str, asked: Vec<Residual>, neutral: &Residual) -> Residual {
    let mut rest = Vec::new();
    for residual in asked {
        match (&residual, neutral) {
            (Residual::Always, Residual::Always) | (Residual::Never, Residual::Never) => {}
            (Residual::Always | Residual::Never, _) => return residual,
            _ => rest.push(residual),
        }
    }
    match rest.len() {
        0 => neutral.clone(),
        1 => rest.remove(0),
        _ => joined(keyword, rest),
    }
}

fn one(asked: Vec<Residual>) -> Residual {
    let certain = asked.iter().filter(|residual| matches!(residual, Residual::Always)).count();
    let mut rest: Vec<_> = asked
        .into_iter()
        .filter(|residual| matches!(residual, Residual::Data(_) | Residual::Envelope(_)))
        .collect();
    match (certain, rest.len()) {
        (0, 0) => Residual::Never,
        (0, 1) => rest.remove(0),
        (0, _) => joined("oneOf", rest),
        (1, _) => negated(any(rest)),
        _ => Residual::Never,
    }
}

fn negated(residual: Residual) -> Residual {
    match residual {
        Residual::Always => Residual::Never,
        Residual::Never => Residual::Always,
        Residual::Data(schema) => Residual::Data(json!({ "not": schema })),
        Residual::Envelope(schema) => Residual::Envelope(json!({ "not": schema })),
    }
}

/// Several schemas of `data`, or of the envelope if one of them looks beyond `data`.
fn joined(keyword: &str, rest: Vec<Residual>) -> Residual {
    let only_data = rest.iter().all(|residual| matches!(residual, Residual::Data(_)));
    let schemas: Vec<Value> = rest
        .into_iter()
        .map(|residual| match residual {
            Residual::Data(schema) if !only_data => json!({ "properties": { "data": schema } }),
            Residual::Data(schema) | Residual::Envelope(schema) => schema,
            Residual::Always => Value::Bool(true),
            Residual::Never => Value::Bool(false),
        })
        .collect();
    let schema = json!({ keyword: schemas });
    if only_data { Residual::Data(schema) } else { Residual::Envelope(schema) }
}
