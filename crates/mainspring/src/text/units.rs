//! Sizes and durations as people write them.

use std::time::Duration;

/// Reads a size: `4096`, `64k`, `64KiB`, `1.5 MiB`, `2G`. Units are powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(format!("`{unit}` is not a unit of size; use KiB, MiB or GiB")),
    };
    scale(number, factor as f64)
}

/// Reads a duration: `5ms`, `10s`, `2m`, `1h`. A unit is needed.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(format!("`{text}` needs a unit of time: us, ms, s, m or h")),
    };
    scale(number, factor).map(Duration::from_nanos)
}

/// Writes a size so that [`bytes`] reads it: in the largest unit that leaves no rest.
pub(crate) fn show_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// Writes a duration so that [`duration`] reads it: in the largest unit that leaves no rest.
pub(crate) fn show_duration(time: Duration) -> String {
    let us = time.as_micros();
    for (unit, factor) in [("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000)] {
        if us >= factor && us.is_multiple_of(factor) {
            return format!("{}{unit}", us / factor);
        }
    }
    format!("{us}us")
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end =
        text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let number = text[..end].parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, text[end..].trim()))
}

fn scale(number: f64, factor: f64) -> Result<u64, String> {
    let value = number * factor;
    if value >= u64::MAX as f64 { Err("that is too much".into()) } else { Ok(value as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1.5 m"), Ok(1_572_864));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for wrong in ["", "x", "5 apples", "-1", "99999999999G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_reads_as_the_same() {
        for size in [0, 1, 1000, 1024, 65_536, 3 << 20, (1 << 20) + 1, 5 << 30] {
            assert_eq!(bytes(&show_bytes(size)), Ok(size));
        }
        for us in [0, 1, 1500, 5000, 1_000_000, 90_000_000, 120_000_000, 24 * 3_600_000_000] {
            let time = Duration::from_micros(us);
            assert_eq!(duration(&show_duration(time)), Ok(time));
        }
        assert_eq!(
            (show_bytes(64 << 20), show_duration(Duration::from_secs(120))),
            ("64MiB".into(), "2m".into())
        );
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["5", "", "s", "5 years"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
