//! The phases of a boot that settings can fail in.

use std::fmt;

/// The phase of the boot that a configuration fails in, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BootPhase {
    /// Files and manifests are read.
    #[default]
    Load,
    /// The kinds and types of capabilities are found in their schemas.
    Discover,
    /// Every command and query gets its one handler.
    Build,
}

impl fmt::Display for BootPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BootPhase::Load => "LOAD",
            BootPhase::Discover => "DISCOVER",
            BootPhase::Build => "BUILD",
        })
    }
}
