//! From the bytes of a file to typed values, with the place of everything: sources and places
//! (`source`), where secrets stand (`secrets`), TOML and JSON as trees whose every node knows its
//! place, and from trees to types (`decode`). This knows no key.

pub(super) mod decode;
pub(super) mod json;
pub(super) mod secrets;
mod source;
pub(super) mod toml;
pub(super) mod tree;

pub(super) use source::{Place, Source};
pub(super) use tree::{Node, Value};
