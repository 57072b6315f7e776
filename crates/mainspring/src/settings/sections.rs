//! The tables of `mainspring.toml` that are settings as they stand: what reads, documents and
//! compares them goes by this list.

use crate::settings::{
    FlightSettings, JournalSettings, LogSettings, Settings, TelemetrySettings, Timeouts, UplinkTable,
};
use mainspring_kernel::Limits;
use mainspring_kernel::keys::Keys;
use std::path::{Path, PathBuf};

/// A table of `mainspring.toml` that is a part of the settings as it stands.
pub(crate) trait Section: Keys + Default {
    /// The name of the table.
    const NAME: &'static str;

    /// Where it is in the settings.
    fn of(settings: &mut Settings) -> &mut Self;

    /// Paths that are written in it begin at the folder of the file: `beside` gives where they
    /// lead.
    fn resolve(&mut self, _beside: &dyn Fn(&Path) -> PathBuf) {}

    /// What no key gets wrong by itself.
    fn contradiction(&self) -> Option<Contradiction> {
        None
    }
}

/// Keys whose values do not fit together.
pub(crate) struct Contradiction {
    /// The keys: the first one that is written is to change.
    pub(crate) keys: &'static [&'static str],
    /// What is wrong.
    pub(crate) message: &'static str,
}

/// Something that is done with each section.
pub(crate) trait EachSection {
    /// Does it with one.
    fn section<S: Section>(&mut self);
}

/// All of them, in the order of the documentation.
pub(crate) fn each_section(visitor: &mut impl EachSection) {
    visitor.section::<Timeouts>();
    visitor.section::<JournalSettings>();
    visitor.section::<FlightSettings>();
    visitor.section::<UplinkTable>();
    visitor.section::<LogSettings>();
    visitor.section::<TelemetrySettings>();
    visitor.section::<Limits>();
}
