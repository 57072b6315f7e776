//! The messages of `store/kv@v1`. Guests use this module too; a capability that is published has it
//! in a crate of its own.
//!
//! Strings are a 32-bit length and bytes, numbers are little-endian, as everywhere in ZCL1.

use mainspring_zcl::{HEADER_BYTES, Header, Reader, Truncated};

/// Reads a value. Payload: the key as a string. Reply: the revision of its last change, 64 bits,
/// then the value as a string; nothing at all if there is no such key.
pub const OP_GET: u16 = 1;
/// Writes a value. Payload: key and value as strings. Reply: the new revision, 64 bits.
pub const OP_PUT: u16 = 2;
/// Deletes a value. Payload: the key as a string. Reply: the new revision, 64 bits.
pub const OP_DELETE: u16 = 3;
/// Asks to be told of changes. Payload: the beginning of the keys, as a string. Reply: empty; then
/// an [`OP_CHANGED`] for each key that changes, with the request's id.
pub const OP_WATCH: u16 = 4;
/// Told unasked. Payload: the revision, 64 bits, and the key as a string. A key that changed more
/// than once before the guest read is told once. An empty key means that too many changed: read all
/// again.
pub const OP_CHANGED: u16 = 5;

/// The longest key.
pub const KEY_BYTES_MAX: usize = 256;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;
/// The longest payload of a request: that of a PUT.
pub const REQUEST_BYTES_MAX: usize = 8 + KEY_BYTES_MAX + VALUE_BYTES_MAX;
/// The longest payload of a reply: that of a GET.
pub const REPLY_BYTES_MAX: usize = 12 + VALUE_BYTES_MAX;

/// Who errors are from.
pub const TRACE: &str = "store.kv";

/// A request to read a value.
pub fn get(rid: u32, key: &str) -> Vec<u8> {
    request(OP_GET, rid, &[key.as_bytes()])
}

/// A request to write a value.
pub fn put(rid: u32, key: &str, value: &[u8]) -> Vec<u8> {
    request(OP_PUT, rid, &[key.as_bytes(), value])
}

/// A request to delete a value.
pub fn delete(rid: u32, key: &str) -> Vec<u8> {
    request(OP_DELETE, rid, &[key.as_bytes()])
}

/// A request to be told of changes to the keys that begin with `prefix`.
pub fn watch(rid: u32, prefix: &str) -> Vec<u8> {
    request(OP_WATCH, rid, &[prefix.as_bytes()])
}

fn request(op: u16, rid: u32, strings: &[&[u8]]) -> Vec<u8> {
    let mut payload = Vec::new();
    for string in strings {
        put_string(&mut payload, string);
    }
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&Header::request(op, rid, payload.len() as u32).encode());
    frame.extend_from_slice(&payload);
    frame
}

fn put_string(payload: &mut Vec<u8>, string: &[u8]) {
    payload.extend_from_slice(&(string.len() as u32).to_le_bytes());
    payload.extend_from_slice(string);
}

/// A revision and a string, as GET replies and changes have them.
pub fn encode_revised(revision: u64, string: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(12 + string.len());
    payload.extend_from_slice(&revision.to_le_bytes());
    put_string(&mut payload, string);
    payload
}

/// Reads what [`encode_revised`] wrote.
///
/// # Errors
/// [`Truncated`] if the payload is anything else.
pub fn decode_revised(payload: &[u8]) -> Result<(u64, &[u8]), Truncated> {
    let mut reader = Reader::new(payload);
    let revised = (reader.u64()?, reader.string()?);
    if reader.rest().is_empty() { Ok(revised) } else { Err(Truncated) }
}
