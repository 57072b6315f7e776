//! What the programs share.

/// Runs a target.
///
/// # Panics
/// If something does not hold that must: that is what is looked for.
pub fn run(name: &str, bytes: &[u8]) {
    let target = mainspring_fuzz_targets::target(name).expect("a target of that name");
    (target.run)(bytes);
}
