//! Guests made ready as a daemon would, and never run.

use crate::daemon::actors::guest::GuestCompiler;
use crate::settings::GuestProgram;
use mainspring_reactor::Reactor;

/// Finds out whether guests can be started. Nothing of them runs: the reactor that they are put on
/// never turns.
pub(crate) struct Preflight {
    guest_compiler: GuestCompiler,
    /// Dropped last, with the guests that are on it.
    _reactor: Reactor,
}

impl Preflight {
    pub(crate) fn new() -> Result<Preflight, String> {
        let reactor = Reactor::new().map_err(|error| error.to_string())?;
        Ok(Preflight { guest_compiler: GuestCompiler::new(&reactor), _reactor: reactor })
    }

    /// Why a daemon would not start this guest. Compiled code is kept for the daemon.
    pub(crate) fn refusal(&self, name: &str, program: &GuestProgram) -> Option<String> {
        self.guest_compiler.try_out(name, program).err()
    }
}
