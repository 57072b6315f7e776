//! Sizes and durations as people write them.

use std::time::Duration;

/// Reads a size: `4096`, `64k`, `64KiB`, `1.5 MiB`, `2G`. Units are powers of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
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
pub(super) fn duration(text: &str) -> Result<Duration, String> {
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
    fn durations_need_a_unit() {
        assert_eq!(duration("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["5", "", "s", "5 years"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
