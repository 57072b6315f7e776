//! Clients: what they may still send, what they have not read yet, which events they want, and the account of the memory that all
//! of this takes. What is to be written leaves from here as effects.

pub(crate) mod connections;
pub(crate) mod memory;
pub(crate) mod subscribers;
