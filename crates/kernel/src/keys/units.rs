//! Sizes and durations as people write them, and the types that read them so.

use crate::keys::KeyType;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::time::Duration;

/// How people write a value that the program holds as a `T`.
pub trait Unit<T>: KeyType {
    /// The value as it is written.
    fn of(value: &T) -> Self;

    /// The value as it is held.
    fn into_value(self) -> T;
}

/// A size: a number of bytes, or text with a unit such as `"64KiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// A duration in milliseconds: a number of them, or text with a unit such as `"10s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub u64);

/// A duration: text with a unit such as `"10s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// What a text with a unit becomes; without, a number may be allowed.
struct Reading<T> {
    expected: &'static str,
    text: fn(&str) -> Result<T, String>,
    number: Option<fn(u64) -> T>,
}

impl<T> Visitor<'_> for Reading<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        match self.number {
            Some(of) => Ok(of(number)),
            None => Err(E::custom(format!(
                "expected {}, found the number {number}, which has no unit",
                self.expected
            ))),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.text)(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_any(Reading {
            expected: "a size: a number of bytes, or text such as \"64MiB\"",
            text: |text| parse_bytes(text).map(Bytes),
            number: Some(Bytes),
        })
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Millis, D::Error> {
        deserializer.deserialize_any(Reading {
            expected: "a duration: a number of milliseconds, or text such as \"10s\"",
            text: |text| parse_duration(text).map(|time| Millis(time.as_millis() as u64)),
            number: Some(Millis),
        })
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        deserializer.deserialize_any(Reading {
            expected: "a duration in quotes, such as \"10s\"",
            text: |text| parse_duration(text).map(Time),
            number: None,
        })
    }
}

impl KeyType for Bytes {
    fn takes() -> String {
        "size".into()
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{}\"", show_bytes(self.0)))
    }
}

impl KeyType for Millis {
    fn takes() -> String {
        "duration".into()
    }

    fn written(&self) -> Option<String> {
        Time(Duration::from_millis(self.0)).written()
    }
}

impl KeyType for Time {
    fn takes() -> String {
        "duration".into()
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{}\"", show_duration(self.0)))
    }
}

impl Unit<u64> for Bytes {
    fn of(value: &u64) -> Bytes {
        Bytes(*value)
    }

    fn into_value(self) -> u64 {
        self.0
    }
}

impl Unit<usize> for Bytes {
    fn of(value: &usize) -> Bytes {
        Bytes(*value as u64)
    }

    fn into_value(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Unit<u64> for Millis {
    fn of(value: &u64) -> Millis {
        Millis(*value)
    }

    fn into_value(self) -> u64 {
        self.0
    }
}

impl Unit<Duration> for Time {
    fn of(value: &Duration) -> Time {
        Time(*value)
    }

    fn into_value(self) -> Duration {
        self.0
    }
}

impl<T, U: Unit<T>> Unit<Option<T>> for Option<U> {
    fn of(value: &Option<T>) -> Option<U> {
        value.as_ref().map(U::of)
    }

    fn into_value(self) -> Option<T> {
        self.map(U::into_value)
    }
}

/// Reads a size: `4096`, `64k`, `64KiB`, `1.5 MiB`, `2G`. Units are powers of 1024.
///
/// # Errors
/// The text has no number, or another unit.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
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
///
/// # Errors
/// The text has no number, or no unit of time.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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

/// Writes a size so that [`parse_bytes`] reads it: in the largest unit that leaves no rest.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// Writes a duration so that [`parse_duration`] reads it: in the largest unit that leaves no rest.
#[must_use]
pub fn show_duration(time: Duration) -> String {
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
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes("1.5 m"), Ok(1_572_864));
        assert_eq!(parse_bytes("2G"), Ok(2 << 30));
        for wrong in ["", "x", "5 apples", "-1", "99999999999G"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_reads_as_the_same() {
        for size in [0, 1, 1000, 1024, 65_536, 3 << 20, (1 << 20) + 1, 5 << 30] {
            assert_eq!(parse_bytes(&show_bytes(size)), Ok(size));
        }
        for us in [0, 1, 1500, 5000, 1_000_000, 90_000_000, 120_000_000, 24 * 3_600_000_000] {
            let time = Duration::from_micros(us);
            assert_eq!(parse_duration(&show_duration(time)), Ok(time));
        }
        assert_eq!(
            (show_bytes(64 << 20), show_duration(Duration::from_secs(120))),
            ("64MiB".into(), "2m".into())
        );
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["5", "", "s", "5 years"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
