//! What every step of a message's way goes by: who handles what (`routes`), who may send and see it
//! (`rights`), why something is refused (`refusal`), what it belongs to (`lineage`), and what it
//! costs (`work`).
//!
//! These files decide and count; they move no message. The steps in `flow/` and the built-ins ask
//! them.

pub(crate) mod lineage;
pub(crate) mod refusal;
pub(crate) mod rights;
pub(crate) mod routes;
pub(crate) mod work;
