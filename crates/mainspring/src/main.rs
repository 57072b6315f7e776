//! The program `mainspring`.

use std::process::ExitCode;

/// Messages are memory that comes and goes by the hundred, and this is quick about it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    mainspring::cli::main()
}
