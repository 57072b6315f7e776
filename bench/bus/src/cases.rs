//! The loads: so many connections, so many requests under way on each.

/// One load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) connections: usize,
    /// Requests under way on each connection; 1 is one at a time.
    pub(crate) depth: usize,
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for connections in [1, 64] {
        for depth in [1, 16, 64, 256] {
            cases.push(Case { name: name(depth, connections), connections, depth });
        }
    }
    cases
}

/// The name of a load.
pub(crate) fn name(depth: usize, connections: usize) -> String {
    format!("depth-{depth}-connections-{connections}")
}
