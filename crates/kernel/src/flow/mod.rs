//! The way of a message: in, through the lanes, to its actor, what that says, and the one end of a request; where messages go, and how
//! much work a turn has done. The turn in `kernel.rs` calls these in their order.

pub(crate) mod completions;
pub(crate) mod dispatch;
pub(crate) mod ingest;
pub(crate) mod lanes;
pub(crate) mod outputs;
pub(crate) mod routes;
pub(crate) mod work;
