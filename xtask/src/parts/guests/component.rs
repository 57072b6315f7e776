//! Components: made of some of the modules, by the program in `guests/componentize`.

use crate::command::{cargo, root, run};
use anyhow::Result;
use std::path::Path;

/// The modules that become components as well.
const MODULES: [&str; 3] = ["wasi-hello", "wasi-socket", "wasi-socket-postgres"];

pub(super) fn build(folder: &Path) -> Result<()> {
    println!("guests: {} as components", MODULES.len());
    for name in MODULES {
        let mut command = cargo();
        command
            .args(["run", "--quiet", "--manifest-path"])
            .arg(root().join("guests/componentize/Cargo.toml"));
        command.arg("--target-dir").arg(super::build_folder().join("tools")).arg("--");
        run(command
            .arg(folder.join(format!("{name}.wasm")))
            .arg(folder.join(format!("{name}.component.wasm"))))?;
    }
    Ok(())
}
