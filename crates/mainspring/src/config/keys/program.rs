//! `[program]` of a manifest: which of the four kinds it is.

use crate::config::keys::{mcp, native, process, wasm};
use crate::config::report::{Sources, TableReport};
use crate::config::text::{Node, Source};
use crate::settings::Program;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The table `program` of a manifest; what is wrong with it is added to the problems.
pub(in crate::config) fn read(
    source: &Rc<Source>,
    manifest: &Node,
    sources: &mut Sources,
) -> Option<Program> {
    // That it is missing is told by whoever reads the manifest.
    let node = manifest.get("program")?;
    let mut table = TableReport::new(source, node, sources);
    let kinds = ["process", "wasm", "mcp", "native"].into_iter().filter(|kind| node.get(kind).is_some());
    match kinds.collect::<Vec<_>>()[..] {
        ["process"] => process::read(&mut table),
        ["wasm"] => wasm::read(&mut table),
        ["mcp"] => mcp::read(&mut table),
        ["native"] => native::read(&mut table),
        _ => {
            table.problem("", "a program is a table with one of `process`, `wasm`, `mcp` or `native`");
            None
        }
    }
}

/// Tells of variables that no environment can have.
pub(super) fn check_environment(table: &mut TableReport<'_>, variables: &BTreeMap<String, String>) {
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            table.problem("env", format!("{name:?} cannot be a variable of the environment"));
        }
    }
}
