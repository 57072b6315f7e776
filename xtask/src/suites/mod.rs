//! Suites that `cargo test` does not run: in a browser, by other languages, under faults, for
//! hours, against peers. Each is a command of its own, and `test` calls most of them.

pub(crate) mod bench;
pub(crate) mod console;
pub(crate) mod features;
pub(crate) mod fuzz;
pub(crate) mod http;
pub(crate) mod kills;
pub(crate) mod sdk;
pub(crate) mod simulate;
pub(crate) mod soak;
pub(crate) mod targets;
