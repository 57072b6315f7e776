//! Gives each file of the page a tag that changes when it does, so that browsers keep what they
//! have.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

fn main() {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where")).join("assets");
    println!("cargo::rerun-if-changed={}", folder.display());
    for name in ["index.html", "console.js", "console.css", "icon.svg"] {
        let bytes = std::fs::read(folder.join(name)).expect("the page is built");
        let mut tag = String::new();
        for byte in &Sha256::digest(bytes)[..12] {
            write!(tag, "{byte:02x}").expect("a string takes everything");
        }
        println!("cargo::rustc-env=TAG_{}={tag}", name.replace('.', "_"));
    }
}
