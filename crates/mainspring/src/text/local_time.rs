//! Times as people read them: in their own time zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::sync::OnceLock;

/// The time zone of this process (`TZ`, or the system's), found once.
fn zone() -> &'static TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(TimeZone::system)
}

/// Now, here.
pub(crate) fn now() -> Zoned {
    Timestamp::now().to_zoned(zone().clone())
}

/// A time from milliseconds since 1970, as short as it can be told at `now`: `22:06:41.234`, or
/// with its date on other days.
pub(crate) fn clock(unix_ms: u64, now: &Zoned) -> String {
    let stamp = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let Some(time) = stamp.map(|stamp| stamp.to_zoned(now.time_zone().clone())) else {
        return format!("{unix_ms} ms after 1970");
    };
    match time.date() == now.date() {
        true => time.strftime("%H:%M:%S.%3f").to_string(),
        false => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
    }
}

/// Now, for a line of the log: `2026-01-08T22:06:41.234567+01:00`.
pub(crate) fn log_time() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_the_zone_of_whoever_reads_it_and_with_its_date_on_other_days() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let now = Timestamp::from_millisecond(1_767_912_000_000).unwrap().to_zoned(zone);
        assert_eq!(clock(1_767_910_001_234, &now), "23:06:41.234");
        assert_eq!(clock(1_767_910_001_234 - 86_400_000, &now), "2026-01-07 23:06:41");
        assert_eq!(clock(u64::MAX, &now), format!("{} ms after 1970", u64::MAX));
    }

    #[test]
    fn a_line_of_the_log_says_which_zone_its_time_is_of() {
        let text = log_time();
        let parsed: Timestamp = text.parse().expect("a time");
        assert!((Timestamp::now() - parsed).get_seconds().abs() < 60, "{text}");
    }
}
