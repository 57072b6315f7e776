//! The program `mainspring`.

use std::process::ExitCode;

#[cfg(all(target_arch = "x86_64", any(test, all(target_env = "musl", not(debug_assertions)))))]
mod copying;

/// Messages are memory that comes and goes by the hundred, and this is quick about it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    mainspring::cli::main()
}
