//! The message of Mainspring: one JSON object on one line, and the registry of error codes.
//!
//! Every message has a [`Kind`], a dotted type, data, and metadata with an id and a timestamp:
//!
//! ```json
//! {"kind":"command","type":"Memory.Set","data":{"key":"a"},"metadata":{"id":"c-1","timestamp":1767910000000}}
//! ```
//!
//! An [`Envelope`] is such a line, checked once, with its fields found; a [`Draft`] is a message about to be written.
//! [`codes`] lists every error that the loop itself writes. The crate is small on purpose: kernel, daemon, command
//! line and capabilities (also inside WebAssembly) share it.

mod buffer;
pub mod codes;
mod draft;
mod envelope;
mod kind;
mod parse;
mod scan;
mod text;
mod write;

pub use codes::{ErrorData, Failure, Started};
pub use draft::{Draft, Json, NotJson};
pub use envelope::{Envelope, LINE_BYTES_CEILING};
pub use kind::Kind;
pub use parse::{INTEGER_MAX, NAME_BYTES_MAX, Rejection, check_type_name};
pub use scan::DEPTH_MAX;
pub use text::Text;
pub use write::{ObjectWriter, Parts};

/// Appends `text` to `out` as a JSON string, quotes included.
pub fn write_json_string(text: &str, out: &mut String) {
    write::write_string(text, out);
}
