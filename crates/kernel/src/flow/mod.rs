//! The way of a message: in (`ingest`), through the lanes, to its actor (`dispatch`) or to
//! subscribers (`fan_out`), what actors say (`outputs`), and the one end of a request
//! (`completions`).
//!
//! This is the coordinator: methods of [`Kernel`](crate::Kernel) that call one part after the
//! other, in the order in which things happen. No part looks into another. What several of these
//! steps share has a file of its own: `admission` (how any request is let in), `delegates` (what
//! the kernel sends for somebody), `faults` (what becomes of a failed actor's work), `passing_on`
//! (what actors need that pass requests on), `clients` (connections, and what they have to read),
//! `memory` (who pays when it is used up). `lanes` are the Completions and User lanes, `system` is
//! the System lane: what the kernel tells itself. `reload` changes the capabilities of a running
//! kernel. `rules` is what every step goes by.

mod admission;
mod clients;
pub(crate) mod completions;
mod delegates;
mod dispatch;
pub(crate) mod fan_out;
mod faults;
mod ingest;
pub(crate) mod lanes;
pub(crate) mod memory;
mod outputs;
pub(crate) mod passing_on;
pub(crate) mod reload;
mod rules;
pub(crate) mod system;

use rules::lineage;
pub(crate) use rules::{refusal, rights, routes, work};
