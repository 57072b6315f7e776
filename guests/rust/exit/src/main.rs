//! Ends as its argument says: a number is the exit code, `panic` and `trap` are the other ways.

use mainspring_guest::{args, block_on};
use std::process::ExitCode;

fn main() -> ExitCode {
    let how = args().ok().and_then(|mut args| (args.len() > 1).then(|| args.remove(1))).unwrap_or_default();
    match how.as_str() {
        "panic" => block_on(async { panic!("asked to panic") }),
        "trap" => outer(),
        code => ExitCode::from(code.parse::<u8>().unwrap_or(0)),
    }
}

/// Two frames that a backtrace should name.
#[inline(never)]
fn outer() -> ExitCode {
    inner_of_the_trap(7);
    std::hint::black_box(ExitCode::SUCCESS)
}

/// It does something of its own, or it would be merged with other functions that only trap.
#[inline(never)]
fn inner_of_the_trap(number: u32) {
    std::hint::black_box(number);
    #[cfg(target_family = "wasm")]
    core::arch::wasm32::unreachable();
}
