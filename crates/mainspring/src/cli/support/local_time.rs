//! Moments as people write and read them, by the clock and in the time zone of whoever sits here.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

fn zoned(unix_ms: u64, zone: TimeZone) -> Zoned {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX).to_zoned(zone)
}

/// The time of day: `14:03:11.123`.
pub(in crate::cli) fn clock(unix_ms: u64) -> String {
    clock_in(unix_ms, TimeZone::system())
}

fn clock_in(unix_ms: u64, zone: TimeZone) -> String {
    zoned(unix_ms, zone).strftime("%H:%M:%S.%3f").to_string()
}

/// Date and time: `2026-11-16 14:03:11`.
pub(in crate::cli) fn moment(unix_ms: u64) -> String {
    zoned(unix_ms, TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Reads a moment, in milliseconds since 1970: `14:30` (the next one), `2026-12-24`,
/// `2026-12-24T18:00`, or with a zone as in `2026-12-24T18:00:00Z`.
pub(in crate::cli) fn read_moment(text: &str) -> Result<u64, String> {
    read_moment_after(text, &Zoned::now())
}

fn read_moment_after(text: &str, now: &Zoned) -> Result<u64, String> {
    let wrong = || {
        format!("`{text}` is no time: write 14:30, 2026-12-24, 2026-12-24T18:00 or 2026-12-24T18:00:00+01:00")
    };
    let outside = |_| format!("`{text}` is not a time that there is here");
    let found = if let Ok(timestamp) = text.parse::<Timestamp>() {
        timestamp
    } else if let Ok(time) = text.parse::<Time>() {
        let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone()).map_err(outside)?;
        if today > *now { today } else { today.checked_add(1.day()).map_err(outside)? }.timestamp()
    } else {
        let local = match text.parse::<DateTime>() {
            Ok(local) => local,
            Err(_) => text.parse::<Date>().map_err(|_| wrong())?.to_datetime(Time::midnight()),
        };
        local.to_zoned(now.time_zone().clone()).map_err(outside)?.timestamp()
    };
    u64::try_from(found.as_millisecond()).map_err(|_| format!("`{text}` is before 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::fixed(jiff::tz::offset(1))
    }

    #[test]
    fn a_time_of_day_is_that_of_the_zone() {
        assert_eq!(clock_in(1_767_910_001_234, TimeZone::UTC), "22:06:41.234");
        assert_eq!(clock_in(1_767_910_001_234, berlin()), "23:06:41.234");
    }

    #[test]
    fn a_moment_is_read_in_the_forms_that_people_write() {
        // 2026-01-08 23:06:41 in Berlin.
        let now = zoned(1_767_910_001_000, berlin());
        let hour = 3_600_000;
        let midnight = 1_767_913_200_000;
        for (text, expected) in [
            ("23:30", midnight - hour / 2),
            ("23:06:42", 1_767_910_002_000),
            ("08:00", midnight + 8 * hour),
            ("2026-01-09", midnight),
            ("2026-01-09T01:00", midnight + hour),
            ("2026-01-09 01:00:30", midnight + hour + 30_000),
            ("2026-01-09T01:00:00Z", midnight + 2 * hour),
            ("2026-01-09T01:00:00+01:00", midnight + hour),
        ] {
            assert_eq!(read_moment_after(text, &now), Ok(expected), "{text}");
        }
        for wrong in ["", "tomorrow", "25:00", "2026-13-01"] {
            assert!(read_moment_after(wrong, &now).unwrap_err().contains("is no time"), "{wrong}");
        }
        assert!(read_moment_after("1969-01-01", &now).unwrap_err().contains("before 1970"));
    }
}
