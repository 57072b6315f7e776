//! Guests made ready as a daemon would, and never run.

use super::Foundry;
use crate::settings::GuestProgram;
use mainspring_reactor::Reactor;

/// Finds out whether guests can be started. Nothing of them runs: the loop that they are put on never turns.
pub(crate) struct Trial {
    foundry: Foundry,
    /// Dropped last, with the guests that are on it.
    _reactor: Reactor,
}

impl Trial {
    pub(crate) fn new() -> Result<Trial, String> {
        let reactor = Reactor::new().map_err(|error| error.to_string())?;
        Ok(Trial { foundry: Foundry::new(&reactor), _reactor: reactor })
    }

    /// Why a daemon would not start this guest. Compiled code is kept for the daemon.
    pub(crate) fn refusal(&self, name: &str, program: &GuestProgram) -> Option<String> {
        self.foundry.try_out(name, program).err()
    }
}
