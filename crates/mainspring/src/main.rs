//! The program `mainspring`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mainspring::cli::main()
}
