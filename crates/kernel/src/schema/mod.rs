//! What a capability's JSON Schemas say: which messages it takes, and how their `data` must look.
//!
//! [`discover`] reduces a schema of whole messages to a finite list of `(kind, type)` pairs, each
//! with what the schema asks of `data` (and of `metadata`, if anything) once the pair is known.
//! [`Validator`] checks just that, from raw text, at the cost of one pass over the bytes for the
//! usual object shapes.
//!
//! # Supported forms
//!
//! A message is an object with the fields `kind`, `type`, `data` and `metadata`. Around `kind` and
//! `type` these keywords are understood: `type`, `properties`, `required`, `allOf`, `anyOf`,
//! `oneOf`, `not`, `if`/`then`/`else`, `$ref` within the document, boolean schemas, and
//! annotations. The names themselves must be finite: `const`, `enum`, unions (`anyOf`, `oneOf`),
//! intersections (`allOf`) and references to those. Everything else fails with the path of the node
//! that is in the way.
//!
//! `additionalProperties` and `unevaluatedProperties` of the message itself are ignored when they
//! are booleans: which fields a message has is the kernel's law, and generated schemas usually
//! close the object without listing `metadata`. Inside `data`, all of JSON Schema applies.

mod discover;
mod document;
mod one_type;
mod residual;
mod scan;
mod shape;
mod validate;

#[cfg(test)]
mod tests;

pub use discover::{Discovery, PAIRS_MAX, Pair, discover};
pub use one_type::{TypeSchema, narrow};
pub use validate::{EnvelopeValidator, Validator, Violation};

/// Why a schema cannot be used, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema node {path}: {reason}")]
pub struct SchemaError {
    /// The JSON pointer of the offending node, as a URI fragment: `#/oneOf/1/properties/type`.
    pub path: String,
    /// What is wrong with it and what to write instead.
    pub reason: String,
}

impl SchemaError {
    fn new(path: &str, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }
}
