//! Gives the shared library its name: programs linked against it ask for this one at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os != "macos" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmainspring_reactor.so.0");
    }
}
