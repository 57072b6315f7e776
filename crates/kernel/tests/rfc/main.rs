//! One test per clause of RFC 0032, sections 5 to 18, named after its section; then one per
//! decision of the design.
//!
//! `docs/contracts/kernel.md` lists the clauses with the tests that prove them.

mod bounds;
mod builtins;
mod ending;
mod memory;
mod observation;
mod reload;
mod rights;
mod s05_workers;
mod s06_lanes;
mod s07_turns;
mod s08_timers;
mod s09_routing;
mod s10_lineage;
mod s11_actors;
mod s12_discovery;
mod s13_adapter;
mod s14_boot;
mod s15_supervision;
mod s16_flows;
mod s18_reliability;
mod slices;
mod support;
mod trace;
