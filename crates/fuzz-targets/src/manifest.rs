//! A manifest: it is refused in words, or a kernel boots with it.

use crate::kernel::World;
use mainspring_kernel::Manifest;

pub(crate) fn run(bytes: &[u8]) {
    match serde_json::from_slice::<Manifest>(bytes) {
        Ok(manifest) => drop(World::boot(vec![manifest])),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
