//! `[timeouts]`: how long things may take.

use crate::settings::{Contradiction, Section, Settings};
use mainspring_kernel::keys::Time;
use mainspring_kernel::{Config as KernelConfig, keys};
use std::time::Duration;

/// Less than this would end everything before it began.
const LEAST: Duration = Duration::from_millis(1);

keys! {
    /// How long things may take.
    pub struct Timeouts {
        /// A request that does not say how long it may take.
        default: Duration as Time = ms(shipped().default_timeout_ms), in LEAST..;
        /// The longest that a request may ask for; more is refused.
        max: Duration as Time = ms(shipped().timeout_ms_max), in LEAST..;
        /// The boot, until every capability is ready.
        boot: Duration as Time = ms(shipped().boot_timeout_ms), in LEAST..;
        /// A shutdown, until requests in progress are given up; and then again for bytes that were
        /// not read yet.
        drain: Duration as Time = ms(shipped().drain_ms);
        /// A request that an actor keeps beyond its deadline, until the actor is restarted as hung.
        hang: Duration as Time = ms(shipped().hang_ms), in LEAST..;
        /// How long the outcome of a command is remembered for a repetition of the same command.
        repeat: Duration as Time = ms(shipped().window_ms);
    }
}

impl Timeouts {
    /// Sets them in the kernel's settings.
    pub(super) fn apply(&self, config: &mut KernelConfig) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // Every field, so that a new one is not forgotten.
        let Timeouts { default, max, boot, drain, hang, repeat } = *self;
        config.default_timeout_ms = ms(default);
        config.timeout_ms_max = ms(max);
        config.boot_timeout_ms = ms(boot);
        config.drain_ms = ms(drain);
        config.hang_ms = ms(hang);
        config.window_ms = ms(repeat);
    }
}

impl Section for Timeouts {
    const NAME: &'static str = "timeouts";

    fn of(settings: &mut Settings) -> &mut Timeouts {
        &mut settings.timeouts
    }

    fn contradiction(&self) -> Option<Contradiction> {
        let message = "the default must not be longer than the maximum";
        (self.default > self.max).then_some(Contradiction { keys: &["default", "max"], message })
    }
}

fn shipped() -> KernelConfig {
    KernelConfig::default()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
