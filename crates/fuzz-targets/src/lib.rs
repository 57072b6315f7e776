//! What is fuzzed: every reader of bytes that a stranger reaches, and what must hold of it.
//!
//! A [`Target`] takes any bytes and panics if something does not hold. It runs in three ways: over
//! its corpus and a fixed number of mutations as a test of this crate, for minutes and guided by
//! coverage by `cargo xtask fuzz`, and by `cargo fuzz` for those who have it.

mod envelope;
mod facts;
mod http;
mod journal;
mod kernel;
mod lines;
mod manifest;
mod mutation;
mod uplink;
mod zcl;

pub use mutation::Mutator;

/// One reader of bytes.
pub struct Target {
    /// What it is called: the folder of its corpus, and its program in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Reads the bytes.
    ///
    /// # Panics
    /// If something does not hold that must.
    pub run: fn(&[u8]),
    /// Inputs to begin with that are easier to compute than to keep.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mutations in a short run: what takes about a second without optimisation.
    pub mutations: u32,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "envelope", run: envelope::run, seeds: Vec::new, mutations: 100_000 },
    Target { name: "facts", run: facts::run, seeds: facts::seeds, mutations: 100_000 },
    Target { name: "http", run: http::run, seeds: Vec::new, mutations: 2_000 },
    Target { name: "journal", run: journal::run, seeds: journal::seeds, mutations: 2_000 },
    Target { name: "kernel", run: kernel::run, seeds: Vec::new, mutations: 5_000 },
    Target { name: "lines", run: lines::run, seeds: Vec::new, mutations: 50_000 },
    Target { name: "manifest", run: manifest::run, seeds: Vec::new, mutations: 5_000 },
    Target { name: "uplink", run: uplink::run, seeds: uplink::seeds, mutations: 2_000 },
    Target { name: "zcl", run: zcl::run, seeds: zcl::seeds, mutations: 100_000 },
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
