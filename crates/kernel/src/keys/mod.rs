//! Tables of settings whose every key is written in one place.
//!
//! [`keys!`](crate::keys!) declares a table: each entry is a key with its documentation, type,
//! unit, default and bounds. The macro makes the struct, its `Default` (if no key is needed), its
//! `Deserialize` (unknown keys are refused, at the key), and [`Keys`]: what documents the table,
//! checks bounds and finds differences. [`words!`](crate::words) does the same for a choice of
//! words.
//!
//! The kernel's own tables are declared with it, and so are all others of `mainspring.toml`.
//! Nothing here knows a file format: whatever serde can read will do.

mod declare;
mod types;
mod units;

pub use types::KeyType;
pub use units::{Bytes, Millis, Time, Unit, parse_bytes, parse_duration, show_bytes, show_duration};

use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use std::fmt;
use std::ops::{Bound, RangeBounds};

#[doc(hidden)]
pub use serde;

/// A table of settings that [`keys!`](crate::keys!) declared.
pub trait Keys: KeyType {
    /// What the table is about.
    const ABOUT: &'static str;

    /// The keys, in the order of their declaration.
    fn keys() -> Vec<Key>;

    /// The names of the keys whose values differ between two tables.
    fn changed(&self, other: &Self) -> Vec<&'static str>;
}

/// What a key is, for whoever documents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// What it is about, as it was written.
    pub about: &'static str,
    /// What it takes, in words: `size`, `list of text`.
    pub takes: String,
    /// What its value must be besides, in words: `1 or more`.
    pub bounds: Option<String>,
    /// What it is when it is left out.
    pub default: KeyDefault,
}

/// What a key is when it is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// It may not be left out.
    Needed,
    /// It is absent, empty, or a table of defaults.
    Absent,
    /// This value, as it could be written.
    Value(String),
}

impl KeyDefault {
    #[doc(hidden)]
    #[must_use]
    pub fn of(written: Option<String>) -> KeyDefault {
        written.map_or(KeyDefault::Absent, KeyDefault::Value)
    }
}

/// A value outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// The key, dotted when it is in a table within the table (`limits.concurrency`).
    pub key: String,
    /// What it must be: `must be at least 1`.
    pub message: String,
}

/// What a value outside of its bounds must be.
#[doc(hidden)]
pub fn must_be<T: PartialOrd>(
    value: &T,
    bounds: &impl RangeBounds<T>,
    show: impl Fn(&T) -> String,
) -> Option<String> {
    if bounds.contains(value) {
        return None;
    }
    Some(match (bounds.start_bound(), bounds.end_bound()) {
        (Bound::Included(least), _) if value < least => format!("must be at least {}", show(least)),
        (_, Bound::Included(most)) => format!("must be at most {}", show(most)),
        (_, Bound::Excluded(end)) => format!("must be less than {}", show(end)),
        _ => "is out of bounds".into(),
    })
}

/// Bounds in words, for the documentation; those that exclude nothing have none.
#[doc(hidden)]
pub fn in_words<T>(bounds: &impl RangeBounds<T>, show: impl Fn(&T) -> String) -> Option<String> {
    match (bounds.start_bound(), bounds.end_bound()) {
        (Bound::Included(least), Bound::Unbounded) => Some(format!("{} or more", show(least))),
        (Bound::Included(least), Bound::Included(most)) => Some(format!("{} to {}", show(least), show(most))),
        (Bound::Unbounded, Bound::Included(most)) => Some(format!("at most {}", show(most))),
        _ => None,
    }
}

/// Reads the name of a key, which must be one of these.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct OneOf(pub &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for OneOf {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a key")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|known| **known == name);
        known.copied().ok_or_else(|| E::unknown_field(name, self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    crate::words! {
        /// A colour.
        enum Colour {
            /// As blood.
            Red = "red",
            /// As grass.
            Green = "green",
        }
    }

    crate::keys! {
        /// An example.
        struct Example {
            /// How long a line may be.
            /// In all.
            line: usize as Bytes = 1 << 10, in 1..=1 << 20;
            /// The pause.
            pause: u64 as Millis = 1500;
            /// The wait.
            wait: Duration as Time = Duration::from_secs(2), in Duration::from_millis(1)..;
            /// How many.
            count: u32 = 3, in 1..;
            /// Which colour.
            colour: Colour = Colour::Red;
            /// The most.
            most: Option<u64> as Option<Bytes> = None;
        }
    }

    crate::keys! {
        /// A table that has a name.
        struct Named {
            /// Its name.
            name: String;
            /// More.
            inner: Example = Example::default();
        }
    }

    fn read(value: serde_json::Value) -> Result<Named, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_is_read_with_units_and_defaults() {
        let named = read(json!({ "name": "x", "inner": { "line": "64KiB", "pause": "1s", "wait": "5ms",
            "colour": "green", "most": "1k" } }))
        .unwrap();
        let expected = Example {
            line: 65_536,
            pause: 1000,
            wait: Duration::from_millis(5),
            count: 3,
            colour: Colour::Green,
            most: Some(1024),
        };
        assert_eq!(named, Named { name: "x".into(), inner: expected });
        assert_eq!(read(json!({ "name": "x", "inner": { "pause": 7 } })).unwrap().inner.pause, 7);
    }

    #[test]
    fn what_is_missing_unknown_or_of_the_wrong_type_is_refused() {
        for (value, expected) in [
            (json!({}), "missing field `name`"),
            (json!({ "name": "x", "nmae": 1 }), "unknown field `nmae`, expected `name` or `inner`"),
            (
                json!({ "name": "x", "inner": { "wait": 3 } }),
                "expected a duration in quotes, such as \"10s\"",
            ),
            (json!({ "name": "x", "inner": { "line": true } }), "a size: a number of bytes"),
            (json!({ "name": "x", "inner": { "line": "3 apples" } }), "`apples` is not a unit of size"),
            (json!({ "name": "x", "inner": { "colour": "blue" } }), "unknown variant `blue`"),
            (json!([]), "a table"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
    }

    #[test]
    fn values_outside_their_bounds_are_named_with_what_they_must_be() {
        let mut named = Named { name: "x".into(), inner: Example::default() };
        assert_eq!(named.out_of_bounds(), []);
        named.inner.line = 2 << 20;
        named.inner.count = 0;
        named.inner.wait = Duration::ZERO;
        let found =
            named.out_of_bounds().into_iter().map(|found| format!("{}: {}", found.key, found.message));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                "inner.line: must be at most 1MiB",
                "inner.wait: must be at least 1ms",
                "inner.count: must be at least 1"
            ]
        );
    }

    #[test]
    fn a_table_documents_itself() {
        assert_eq!(Example::ABOUT.trim(), "An example.");
        let keys = Example::keys();
        let shown: Vec<String> = keys
            .iter()
            .map(|key| format!("{} {} {:?} {:?}", key.name, key.takes, key.bounds, key.default))
            .collect();
        assert_eq!(
            shown,
            [
                r#"line size Some("1 to 1MiB") Value("\"1KiB\"")"#,
                r#"pause duration None Value("\"1500ms\"")"#,
                r#"wait duration Some("1ms or more") Value("\"2s\"")"#,
                r#"count number Some("1 or more") Value("3")"#,
                r#"colour `red`, `green` None Value("\"red\"")"#,
                r#"most size None Absent"#,
            ]
        );
        assert_eq!(keys[0].about, " How long a line may be.\n In all.\n");
        assert_eq!(Named::keys()[0].default, KeyDefault::Needed);
        assert_eq!(
            (Named::keys()[1].takes.as_str(), &Named::keys()[1].default),
            ("table", &KeyDefault::Absent)
        );
    }

    #[test]
    fn differences_are_named() {
        let other = Example { count: 4, most: Some(1), ..Example::default() };
        assert_eq!(Example::default().changed(&other), ["count", "most"]);
    }
}
