//! Data without a shape of its own.

use mainspring_message::Json;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Any data, as it was written: integers of any size stay exact.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Anything(Box<RawValue>);

impl Anything {
    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// As a type of one's own.
    ///
    /// # Errors
    /// It does not fit.
    pub fn to<T: for<'a> Deserialize<'a>>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.0.get())
    }
}

impl From<&Json> for Anything {
    fn from(json: &Json) -> Anything {
        // JSON that was checked is JSON; were it not, `null` says nothing wrong.
        Anything(
            RawValue::from_string(json.as_str().to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        )
    }
}

impl From<serde_json::Value> for Anything {
    fn from(value: serde_json::Value) -> Anything {
        Anything::from(&Json::from(value))
    }
}

impl JsonSchema for Anything {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

/// No data: `{}`, whatever else is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Empty;

impl<'de> Deserialize<'de> for Empty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Empty, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Empty)
    }
}

impl Serialize for Empty {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde::ser::SerializeMap::end(serializer.serialize_map(Some(0))?)
    }
}

impl JsonSchema for Empty {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Empty".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
