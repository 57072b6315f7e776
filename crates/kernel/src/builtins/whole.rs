//! Whole numbers in the data of a request.

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use std::fmt;

/// 2^64: the first number that is too large.
const BEYOND: f64 = 18_446_744_073_709_551_616.0;

/// A whole number that is not negative, however it is written: for a JSON Schema, `3`, `3.0` and
/// `3e0` are one integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole(pub(crate) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        deserializer.deserialize_u64(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number that is not negative")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole, E> {
        if number.fract() != 0.0 || !(0.0..BEYOND).contains(&number) {
            return Err(E::invalid_value(Unexpected::Float(number), &self));
        }
        Ok(Whole(number as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("7", 7),
            ("7.0", 7),
            ("7e0", 7),
            ("0.7e1", 7),
            ("1.5E3", 1500),
            ("18446744073709551615", u64::MAX),
            ("9007199254740992.0", 1 << 53),
        ];
        for (text, number) in cases {
            assert_eq!(serde_json::from_str::<Whole>(text).unwrap(), Whole(number), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_what_is_wanted() {
        for text in ["-1", "-1.0", "0.5", "1e300", "18446744073709551616", "\"1\"", "null", "true", "[1]"] {
            let error = serde_json::from_str::<Whole>(text).unwrap_err().to_string();
            assert!(error.contains("expected a whole number that is not negative"), "{text}: {error}");
        }
    }
}
