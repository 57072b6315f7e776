//! `[journal]`: where what was accepted is kept.

use crate::settings::{Contradiction, Section, Settings};
use mainspring_kernel::keys::{Bytes, Time};
use mainspring_kernel::{keys, words};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Less than this would forget an answer before it is given.
const LEAST: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

keys! {
    /// Where accepted commands, their outcomes, schedules, dead letters and the contents of
    /// `Memory` are kept. Without this table they end with the daemon.
    pub struct JournalSettings {
        /// The folder of the journal, which only its owner may enter. It is made if it is not
        /// there; its parents are not. Needed in this table.
        folder: Option<PathBuf> = None;
        /// What happens when a write or flush fails: durable commands are refused and the rest goes
        /// on, or the daemon ends with exit code 1.
        on_failure: OnFailure = OnFailure::Refuse;
        /// How long a command that ended, and its outcome, are remembered for the same id.
        /// `limits.window_*` bound how many.
        remember: Duration as Time = DAY, in LEAST..;
        /// For how long facts are kept that a snapshot stands for, to be looked at with `mainspring
        /// journal`.
        keep: Duration as Time = 7 * DAY;
        /// Beyond so many bytes of segments, the oldest of those go.
        keep_bytes: u64 as Bytes = 1 << 30;
    }
}

words! {
    /// What a daemon does when its journal fails.
    pub enum OnFailure {
        /// It refuses durable commands, and everything else goes on.
        Refuse = "refuse",
        /// It ends with exit code 1.
        Exit = "exit",
    }
}

impl Section for JournalSettings {
    const NAME: &'static str = "journal";

    fn of(settings: &mut Settings) -> &mut JournalSettings {
        &mut settings.journal
    }

    fn resolve(&mut self, beside: &dyn Fn(&Path) -> PathBuf) {
        self.folder = self.folder.take().map(|folder| beside(&folder));
    }

    fn contradiction(&self) -> Option<Contradiction> {
        let is_named = self.folder.as_ref().is_some_and(|folder| !folder.as_os_str().is_empty());
        let message = "`folder` must name the folder of the journal";
        (!is_named).then_some(Contradiction { keys: &["folder"], message })
    }
}
