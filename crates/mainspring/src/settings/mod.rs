//! What a daemon is to run: plain values, resolved and checked, whatever they were read from.
//!
//! `config` makes them from files and flags; `daemon` carries them out. Neither knows the other.
//!
//! A table of `mainspring.toml` that is used as it stands is a file here, declared with `keys!`, a
//! field of [`Settings`], and an entry in the list in `sections.rs`. Reading, checking, comparing
//! and documenting go by that list; what the table is for is up to whoever carries it out.

mod boot_phase;
mod flight;
mod journal;
mod limits;
mod listeners;
mod log;
mod programs;
mod sections;
mod telemetry;
mod timeouts;
mod uplink;

pub use boot_phase::BootPhase;
pub use flight::FlightSettings;
pub use journal::{JournalSettings, OnFailure};
pub use listeners::{HttpListener, Listener, TlsFiles, Token, is_reserved_peer};
pub use log::{LogFormat, LogLevel, LogSettings};
pub use programs::{Capability, GuestProgram, ProcessLimits, ProcessProgram, Program};
pub(crate) use sections::{Contradiction, EachSection, Section, each_section};
pub use telemetry::{Collector, TelemetrySettings};
pub use timeouts::Timeouts;
pub use uplink::UplinkTable;

use mainspring_kernel::{Config as KernelConfig, Limits, Mode};

/// Everything that a daemon needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When the daemon ends: when it is told to, or when nothing is left to do.
    pub mode: Mode,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// The capabilities, in order.
    pub capabilities: Vec<Capability>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// The bounds of everything that can grow.
    pub limits: Limits,
    /// What is logged, and how.
    pub log: LogSettings,
    /// Where what was accepted is kept.
    pub journal: JournalSettings,
    /// Spans for other systems.
    pub telemetry: TelemetrySettings,
    /// Whether what happens is recorded, and where.
    pub flight: FlightSettings,
    /// The bus of several nodes that this daemon is one of.
    pub uplink: UplinkTable,
}

impl Settings {
    /// What is shipped, with these listeners and capabilities.
    #[must_use]
    pub fn new(listeners: Vec<Listener>, capabilities: Vec<Capability>) -> Settings {
        Settings {
            mode: Mode::Daemon,
            listeners,
            capabilities,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            log: LogSettings::default(),
            journal: JournalSettings::default(),
            telemetry: TelemetrySettings::default(),
            flight: FlightSettings::default(),
            uplink: UplinkTable::default(),
        }
    }

    /// The settings of the kernel.
    #[must_use]
    pub fn kernel(&self) -> KernelConfig {
        let mut config =
            KernelConfig { mode: self.mode, limits: self.limits.clone(), ..KernelConfig::default() };
        self.timeouts.apply(&mut config);
        config
    }
}
