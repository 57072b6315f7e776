//! Standard output that may end at any time: whoever reads it (`head`, a pager) may have enough.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints text. That nobody reads it to the end is no failure.
pub(super) fn print(text: &str) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainspring: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}
