//! What whoever drives the kernel sees: inputs, effects, manifests, settings, ids and counters, all
//! plain values. Everything may use these; nothing here does anything.

pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod effect;
pub(crate) mod fact;
pub(crate) mod ids;
pub(crate) mod input;
pub(crate) mod manifest;
pub(crate) mod rights;
