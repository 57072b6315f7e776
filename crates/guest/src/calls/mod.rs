//! The calls to the host, as the host defines them and in Rust's own types, and what stands in for
//! the host in native tests. Nothing here knows tasks or futures. Everything else in this crate
//! reaches the host through `zi`.

#[cfg(not(target_family = "wasm"))]
pub mod backend;
#[cfg(target_family = "wasm")]
pub(crate) mod imports;
pub mod zi;
