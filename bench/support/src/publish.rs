//! The end of a suite: its figures for people and, if they are wanted, for programs.

use crate::row::write_json;
use crate::{Options, Results, Target, report};

/// Prints the report, and writes the rows to the file that was asked for. Ends the process with 1
/// if that is impossible.
pub fn publish(results: &Results, targets: &[Target], options: &Options) {
    print!("{}", report(results, targets));
    if let Some(path) = &options.json
        && let Err(error) = write_json(path, &results.rows())
    {
        eprintln!("cannot write {}: {error}", path.display());
        std::process::exit(1);
    }
}
