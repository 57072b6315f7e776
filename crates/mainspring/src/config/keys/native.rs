//! `[program]` with `native`: code of the daemon.

use crate::config::report::{TableReport, suggest};
use crate::natives::native_names;
use crate::settings::Program;
use mainspring_kernel::keys;

keys! {
    /// Code of the daemon.
    pub(in crate::config) struct NativeFile {
        /// Its name, such as `Memory`.
        native: String;
    }
}

/// The program, if it is sound.
pub(super) fn read(table: &mut TableReport<'_>) -> Option<Program> {
    let file: NativeFile = table.read()?;
    if let Err(message) = check_name(&file.native) {
        table.problem("native", message);
        return None;
    }
    Some(Program::Native(file.native))
}

/// Whether there is a native capability of this name, and else what to say.
pub(in crate::config) fn check_name(name: &str) -> Result<(), String> {
    if native_names().any(|known| known == name) {
        return Ok(());
    }
    let known: Vec<&str> = native_names().collect();
    Err(format!("no native capability is called {name:?}; {}", suggest(name, &known)))
}
