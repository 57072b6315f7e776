//! `[flight]`: a recording of what happens to the daemon.

use crate::settings::{Contradiction, Section, Settings};
use mainspring_kernel::keys;
use mainspring_kernel::keys::Bytes;
use std::path::{Path, PathBuf};

/// Less than this would hold no second of anything.
const BYTES_MIN: u64 = 1 << 20;
/// The folder, where none is named.
const FOLDER: &str = "flight";

keys! {
    /// A recording of everything that happens to the kernel, which `mainspring flight` shows and
    /// replays. Without this table there is none.
    pub struct FlightSettings {
        /// How much is kept of a run: beyond, the oldest goes. The run before it is kept, too. 0:
        /// nothing is recorded.
        bytes: u64 as Bytes = 0;
        /// The folder of the recordings, which only its owner may enter; `flight` beside this file
        /// if it is left out. It is made if it is not there; its parents are not.
        folder: Option<PathBuf> = None;
    }
}

impl FlightSettings {
    /// Where recordings go, if there are to be any.
    pub(crate) fn place(&self) -> Option<&Path> {
        let folder = self.folder.as_deref().unwrap_or(Path::new(FOLDER));
        (self.bytes > 0).then_some(folder)
    }
}

impl Section for FlightSettings {
    const NAME: &'static str = "flight";

    fn of(settings: &mut Settings) -> &mut FlightSettings {
        &mut settings.flight
    }

    fn resolve(&mut self, beside: &dyn Fn(&Path) -> PathBuf) {
        let folder = self.folder.take().unwrap_or_else(|| FOLDER.into());
        self.folder = Some(beside(&folder));
    }

    fn contradiction(&self) -> Option<Contradiction> {
        let message = "`bytes` must be at least 1MiB, or 0 for no recording";
        (self.bytes > 0 && self.bytes < BYTES_MIN).then_some(Contradiction { keys: &["bytes"], message })
    }
}
