//! The message of Mainspring: one JSON object on one line, the registry of error codes, and the
//! reader of lines.
//!
//! Every message has a [`Kind`], a dotted type, data, and metadata with an id and a timestamp:
//!
//! ```json
//! {"kind":"command","type":"Memory.Set","data":{"key":"a"},"metadata":{"id":"c-1","timestamp":1767910000000}}
//! ```
//!
//! An [`Envelope`] is such a line, checked once, with its fields found; a [`Draft`] is a message
//! about to be written. [`codes`] lists every error that the kernel itself writes. [`lines`] finds
//! the lines in a stream of bytes. The crate is small on purpose: kernel, daemon, command line and
//! capabilities (also inside WebAssembly) share it.

#[cfg(feature = "envelope")]
mod buffer;
#[cfg(feature = "envelope")]
pub mod codes;
#[cfg(feature = "envelope")]
mod draft;
#[cfg(feature = "envelope")]
mod envelope;
#[cfg(feature = "envelope")]
mod kind;
pub mod lines;
#[cfg(feature = "envelope")]
mod members;
#[cfg(feature = "envelope")]
mod parse;
#[cfg(feature = "envelope")]
mod scan;
#[cfg(feature = "envelope")]
mod text;
#[cfg(feature = "envelope")]
mod write;

#[cfg(feature = "envelope")]
pub use {
    codes::{ErrorData, Failure, Started},
    draft::{Draft, Json, NotJson},
    envelope::{Envelope, LINE_BYTES_CEILING},
    kind::Kind,
    members::{Member, Members},
    parse::{INTEGER_MAX, NAME_BYTES_MAX, Rejection, check_type_name, text_of},
    scan::{DEPTH_MAX, is_too_deep},
    text::Text,
    write::{ObjectWriter, Parts},
};

/// Appends `text` to `out` as a JSON string, quotes included.
#[cfg(feature = "envelope")]
pub fn write_json_string(text: &str, out: &mut String) {
    write::write_string(text, out);
}
