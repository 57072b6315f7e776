//! Requests between nodes: those of this node that others work on, what comes back for them, those
//! of others that are worked on here, and what another node remembers of one. Each request has
//! exactly one outcome, whatever the network does. Only `machine` calls this.

pub(crate) mod answers;
pub(crate) mod sending;
pub(crate) mod serving;
pub(crate) mod tracing;

/// A message for tests, with more members of the metadata.
#[cfg(test)]
fn message(kind: &str, type_name: &str, data: &str, rest: &str) -> Vec<u8> {
    format!(r#"{{"kind":"{kind}","type":"{type_name}","data":{data},"metadata":{{"id":"x","timestamp":1{rest}}}}}"#)
        .into_bytes()
}
