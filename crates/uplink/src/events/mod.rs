//! Events between nodes: those that are told as they happen, at most once, and those that a journal
//! keeps, which are followed by cursor. Only `machine` calls this.

pub(crate) mod following;
pub(crate) mod telling;
