//! Documents made from the catalogue: OpenAPI 3.1 and AsyncAPI 3.1. Both are pure: a catalogue in,
//! JSON out.

pub(crate) mod asyncapi;
pub(crate) mod catalogue;
pub(crate) mod openapi;
