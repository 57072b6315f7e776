//! The program `mainspring`.

use std::process::ExitCode;

#[cfg(all(target_env = "musl", target_arch = "x86_64"))]
mod copying;

/// Messages are memory that comes and goes by the hundred, and this is quick about it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    mainspring::cli::main()
}
