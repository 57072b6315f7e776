//! Compiled validators of messages.

use std::fmt;

use jsonschema::{Draft, Validator as Library};
use serde_json::{Value, json};

use super::SchemaError;
use super::document::Document;
use super::residual::Residual;
use super::shape::Shape;

/// Why a message does not fit a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Violation {
    /// The path of the offending part of the message, such as `data/items/3/name`.
    pub path: String,
    /// What was expected there and what was found.
    pub reason: String,
}

/// Checks the `data`, and where the schema asks for it the `metadata`, of messages of one kind and
/// type.
pub struct Validator {
    rule: Rule,
}

enum Rule {
    /// Nothing is asked.
    Anything,
    /// `data` alone decides. The shape says yes at once to most of what the library would accept.
    Data { shape: Option<Shape>, library: Box<Library> },
    /// `data` and `metadata` together decide.
    Envelope(Box<Library>),
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match &self.rule {
            Rule::Anything => "anything",
            Rule::Data { shape: Some(_), .. } => "data, by shape",
            Rule::Data { shape: None, .. } => "data, by the library",
            Rule::Envelope(_) => "data and metadata",
        };
        f.debug_tuple("Validator").field(&rule).finish()
    }
}

impl Validator {
    pub(super) fn new(document: &Document<'_>, residual: Residual) -> Result<Self, SchemaError> {
        let rule = match residual {
            Residual::Always => Rule::Anything,
            Residual::Never => Rule::Data {
                shape: None,
                library: Box::new(library(&Value::Bool(false), document.draft, "#")?),
            },
            Residual::Data(schema) => {
                let schema = document.stand_alone(&schema);
                let library = Box::new(library(&schema, document.draft, "#/properties/data")?);
                Rule::Data { shape: Shape::new(&schema, document.draft), library }
            }
            Residual::Envelope(schema) => {
                Rule::Envelope(Box::new(library(&document.stand_alone(&schema), document.draft, "#")?))
            }
        };
        Ok(Self { rule })
    }

    /// A validator of `data` alone.
    ///
    /// # Errors
    ///
    /// When `schema` is not a valid JSON Schema, or refers to something outside itself.
    pub fn of_data(schema: &Value) -> Result<Self, SchemaError> {
        Self::new(
            &Document::new(schema)?,
            match schema {
                Value::Bool(true) => Residual::Always,
                Value::Bool(false) => Residual::Never,
                schema => Residual::Data(schema.clone()),
            },
        )
    }

    /// Whether [`check`](Self::check) looks at the metadata at all; if not, any text will do for
    /// it.
    #[must_use]
    pub fn needs_metadata(&self) -> bool {
        matches!(self.rule, Rule::Envelope(_))
    }

    /// Whether the usual messages are accepted in one pass over their text, without building
    /// values.
    #[must_use]
    pub fn has_shape(&self) -> bool {
        matches!(self.rule, Rule::Anything | Rule::Data { shape: Some(_), .. })
    }

    /// Checks the text of a message's `data` and `metadata`, both of which must be JSON already.
    ///
    /// # Errors
    ///
    /// The first violation, with its path in the message. Text that cannot be read as values
    /// (nested deeper than the JSON library goes, or numbers beyond its range) is a violation too.
    pub fn check(&self, data: &str, metadata: &str) -> Result<(), Violation> {
        match &self.rule {
            Rule::Anything => Ok(()),
            Rule::Data { shape: Some(shape), .. } if shape.surely_accepts(data) => Ok(()),
            Rule::Data { library, .. } => verdict(library, &read(data, "data")?, "data"),
            Rule::Envelope(library) => {
                let message = json!({ "data": read(data, "data")?, "metadata": read(metadata, "metadata")? });
                verdict(library, &message, "")
            }
        }
    }
}

/// Checks whole messages, for schemas whose pairs are not finite. Slower: it builds every message
/// as a value.
pub struct EnvelopeValidator {
    library: Library,
}

impl fmt::Debug for EnvelopeValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvelopeValidator").finish_non_exhaustive()
    }
}

impl EnvelopeValidator {
    /// A validator of messages as objects with `kind`, `type`, `data` and `metadata`.
    ///
    /// # Errors
    ///
    /// When `schema` is not a valid JSON Schema, or refers to something outside itself.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let document = Document::new(schema)?;
        Ok(Self { library: library(schema, document.draft, "#")? })
    }

    /// Checks one message, given as its names and the text of the rest.
    ///
    /// # Errors
    ///
    /// The first violation, with its path in the message.
    pub fn check(&self, kind: &str, type_name: &str, data: &str, metadata: &str) -> Result<(), Violation> {
        let message = json!({
            "kind": kind,
            "type": type_name,
            "data": read(data, "data")?,
            "metadata": read(metadata, "metadata")?,
        });
        verdict(&self.library, &message, "")
    }
}

/// Compiles a schema that stands alone; `path` is where it came from.
pub(super) fn library(schema: &Value, draft: Draft, path: &str) -> Result<Library, SchemaError> {
    jsonschema::options().with_draft(draft).build(schema).map_err(|error| {
        let inner = error.instance_path().to_string();
        SchemaError::new(&format!("{path}{inner}"), format!("is not valid JSON Schema: {error}"))
    })
}

fn read(text: &str, field: &str) -> Result<Value, Violation> {
    serde_json::from_str(text)
        .map_err(|error| Violation { path: field.to_owned(), reason: format!("cannot be read: {error}") })
}

/// The longest reason given for a violation, in bytes: reasons quote the message, which may be
/// long.
const REASON_BYTES_MAX: usize = 512;

fn verdict(library: &Library, value: &Value, field: &str) -> Result<(), Violation> {
    library.validate(value).map_err(|error| {
        let inner = error.instance_path().to_string();
        let path = format!("{field}{inner}").trim_start_matches('/').to_owned();
        let mut reason = error.to_string();
        if reason.len() > REASON_BYTES_MAX {
            reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
            reason.push_str(" ...");
        }
        Violation { path, reason }
    })
}
