//! Whether the host will take the guests: this compiles them, which takes its time.

use crate::config::capabilities::Found;
use crate::config::sources::Sources;
use crate::daemon::Preflight;
use crate::settings::Program;

/// Adds what a daemon would refuse about the modules and components to the problems.
pub(super) fn verify(found: &[Found], sources: &mut Sources) {
    let mut guests = found.iter().filter_map(|one| match &one.capability.program {
        Program::Guest(program) => Some((one, program)),
        _ => None,
    });
    let Some(first) = guests.next() else { return };
    let preflight = Preflight::new();
    for (one, program) in std::iter::once(first).chain(guests) {
        let refusal = match &preflight {
            Ok(preflight) => preflight.refusal(&one.capability.manifest.id, program),
            Err(reason) => Some(reason.clone()),
        };
        if let Some(message) = refusal {
            sources.problem(&one.place_of("program.wasm"), message);
        }
    }
}
