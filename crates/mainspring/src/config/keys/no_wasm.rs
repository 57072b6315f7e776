//! `[program]` with `wasm`, in a program that was built without guests.

use crate::config::report::TableReport;
use crate::settings::Program;

/// Says so, in place of the keys that nobody could carry out.
pub(super) fn read(table: &mut TableReport<'_>) -> Option<Program> {
    table.problem("wasm", "this mainspring was built without guests (the feature `guests` of its package)");
    None
}
