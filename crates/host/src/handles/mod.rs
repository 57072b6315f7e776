//! Handles: the table of numbers that a guest holds, what they stand for, and the streams that 0, 1
//! and 2 are connected to. Capabilities put resources into the table; the calls of `abi` find them
//! there.

pub(crate) mod pipe;
pub(crate) mod resource;
pub(crate) mod stdio;
pub(crate) mod table;
