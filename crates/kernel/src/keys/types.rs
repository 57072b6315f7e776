//! What a key may be.

use crate::keys::OutOfBounds;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A type of values that keys have.
pub trait KeyType: DeserializeOwned {
    /// What such a key takes, in words: `size`, `list of text`.
    fn takes() -> String;

    /// The value as it could be written. `None` for what is absent or empty, and for tables.
    fn written(&self) -> Option<String>;

    /// In a table, the keys whose values are outside their bounds.
    fn out_of_bounds(&self) -> Vec<OutOfBounds> {
        Vec::new()
    }
}

impl KeyType for String {
    fn takes() -> String {
        "text".into()
    }

    fn written(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl KeyType for PathBuf {
    fn takes() -> String {
        "text".into()
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{}\"", self.display()))
    }
}

impl KeyType for bool {
    fn takes() -> String {
        "true or false".into()
    }

    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl KeyType for $type {
            fn takes() -> String {
                "number".into()
            }

            fn written(&self) -> Option<String> {
                Some(self.to_string())
            }
        })*
    };
}

numbers!(u16 u32 u64 usize);

impl<T: KeyType> KeyType for Option<T> {
    fn takes() -> String {
        T::takes()
    }

    fn written(&self) -> Option<String> {
        self.as_ref().and_then(T::written)
    }

    fn out_of_bounds(&self) -> Vec<OutOfBounds> {
        self.as_ref().map(T::out_of_bounds).unwrap_or_default()
    }
}

impl<T: KeyType> KeyType for Vec<T> {
    fn takes() -> String {
        match T::takes().as_str() {
            "table" => "tables".into(),
            other => format!("list of {other}"),
        }
    }

    fn written(&self) -> Option<String> {
        let elements: Vec<String> = self.iter().filter_map(T::written).collect();
        (!elements.is_empty()).then(|| format!("[{}]", elements.join(", ")))
    }
}

impl KeyType for BTreeMap<String, String> {
    fn takes() -> String {
        "table".into()
    }

    fn written(&self) -> Option<String> {
        None
    }
}
