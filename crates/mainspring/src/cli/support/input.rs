//! What a command reads: text from a file or from standard input, with a bound.

use crate::cli::support::target::Failure;
use crate::client::LINE_BYTES_MAX;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The text of a file.
pub(in crate::cli) fn of_file(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
    read(file, &name)
}

/// The text of standard input, up to its end.
pub(in crate::cli) fn of_stdin() -> Result<String, Failure> {
    let text = read(io::stdin().lock(), "standard input")?;
    if text.trim_ascii().is_empty() {
        return Err(Failure::Usage("standard input is empty: `-` reads the data from there".into()));
    }
    Ok(text)
}

/// Whatever is longer could not be sent: no daemon takes such a line.
fn read(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let count = source
        .take(LINE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(name, &error))?;
    if count > LINE_BYTES_MAX {
        return Err(Failure::Usage(format!("{name} is longer than {} MiB", LINE_BYTES_MAX >> 20)));
    }
    Ok(text)
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot read {name}: {error}"))
}
