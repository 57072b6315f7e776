//! `[limits]`: the kernel's own table, whose keys are declared there.

use crate::settings::{Section, Settings};
use mainspring_kernel::Limits;

impl Section for Limits {
    const NAME: &'static str = "limits";

    fn of(settings: &mut Settings) -> &mut Limits {
        &mut settings.limits
    }
}
