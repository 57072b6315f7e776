//! The time of a line of the log: in the time zone of whoever reads it.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::sync::OnceLock;

/// The time zone of this process (`TZ`, or the system's), found once.
fn zone() -> &'static TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(TimeZone::system)
}

/// Now, here.
fn now() -> Zoned {
    Timestamp::now().to_zoned(zone().clone())
}

/// Now, for a line of the log: `2026-01-08T22:06:41.234567+01:00`.
pub(crate) fn log_time() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_says_which_zone_its_time_is_of() {
        let text = log_time();
        let parsed: Timestamp = text.parse().expect("a time");
        assert!((Timestamp::now() - parsed).get_seconds().abs() < 60, "{text}");
    }
}
