//! What an uplink is told when it is made.

use crate::sharing::nodes::Boot;

/// The settings of an uplink.
#[derive(Clone, Debug)]
pub struct UplinkSettings {
    /// The bus: nodes of another bus are not there.
    pub bus: String,
    /// The name of this node, which no other node of the bus has.
    pub node: String,
    /// Types of others that this node sends away: exact types, `Prefix.*` or `*`.
    pub import: Vec<String>,
    /// Events of others that this node wants.
    pub events: Vec<String>,
    /// This run of this node.
    pub boot: Boot,
    /// Whether there is a journal.
    pub has_journal: bool,
    /// Requests of one imported capability that others work on at once.
    pub concurrency: u32,
    /// Requests of one other node that are worked on here at once. Beyond: refused (429).
    pub node_requests_max: usize,
    /// How long after its deadline the outcome of a request is still waited for.
    pub late_ns: i64,
    /// The longest line that the kernel takes.
    pub line_bytes_max: usize,
}
