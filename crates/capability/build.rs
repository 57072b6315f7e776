//! Says in a sentence that this is for Linux, instead of a page of errors about what is missing
//! elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    // What guests are made of as well is for every system.
    let is_process = std::env::var_os("CARGO_FEATURE_PROCESS").is_some();
    if is_process && system != "linux" {
        println!(
            "cargo::error=mainspring-capability is for Linux, where the daemon starts capabilities, not for {system}"
        );
    }
}
