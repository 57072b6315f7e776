//! Whether the host will take the guests: that means compiling them, which takes its time.

use crate::config::capabilities::FoundCapability;
use crate::config::report::Sources;
use crate::settings::{GuestProgram, Program};

/// Why a daemon would not start a guest, if it would not: the guest's capability, and its program.
/// Whoever checks a configuration brings it, because a configuration knows no host.
pub type GuestCheck<'a> = dyn FnMut(&str, &GuestProgram) -> Option<String> + 'a;

/// Adds what a daemon would refuse about the modules and components to the problems.
pub(in crate::config) fn verify(
    found: &[FoundCapability],
    sources: &mut Sources,
    check: &mut GuestCheck<'_>,
) {
    for one in found {
        let Program::Guest(program) = &one.capability.program else { continue };
        if let Some(message) = check(&one.capability.manifest.id, program) {
            sources.problem(&one.place_of("program.wasm"), message);
        }
    }
}
