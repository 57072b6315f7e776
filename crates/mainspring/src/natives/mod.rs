//! The capabilities that are code of the daemon, and what they say about themselves.
//!
//! `memory` keeps values by key; it is the only one so far. The configuration asks for names and
//! manifests, the daemon's `actors/native` runs them; they reach the kernel through a port, as
//! every actor does.

pub(crate) mod memory;

use mainspring_kernel::Manifest;

/// Every native capability: its name in `native = [...]`, and its manifest.
const NATIVE: &[(&str, &str)] = &[("Memory", include_str!("memory.json"))];

/// The names of all native capabilities.
pub fn native_names() -> impl Iterator<Item = &'static str> {
    NATIVE.iter().map(|(name, _)| *name)
}

/// The manifest of a native capability.
#[must_use]
pub fn native_manifest(name: &str) -> Option<Manifest> {
    let (_, manifest) = NATIVE.iter().find(|(native, _)| *native == name)?;
    let manifest: Manifest = serde_json::from_str(manifest).ok()?;
    Some(Manifest { keeps_facts: keeps_facts(name), ..manifest })
}

/// Whether all that a native capability keeps is facts.
pub(crate) fn keeps_facts(name: &str) -> bool {
    name == memory::NAME
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_kernel::schema::discover;

    #[test]
    fn every_native_capability_has_a_manifest_that_the_kernel_understands() {
        for name in native_names() {
            let manifest = native_manifest(name).unwrap_or_else(|| panic!("the manifest of {name}"));
            discover(&manifest.inbound).unwrap();
            discover(manifest.outbound.as_ref().unwrap()).unwrap();
        }
        assert!(native_manifest("Nothing").is_none());
    }
}
