//! The documentation of the configuration, made from the types that read it.

use crate::config::file::{
    ConfigFile, ListenFile, LogFile, ManifestFile, NativeFile, ProcessFile, ProcessLimitsFile, TimeoutsFile,
    TokenFile, WasmFile, WasmLimitsFile,
};
use crate::config::read::{Unit, unit_of};
use crate::text::units;
use mainspring_kernel::{ActorLimits, Limits, RestartPolicy, RetryPolicy};
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::Value;
use std::time::Duration;

const INTRODUCTION: &str = include_str!("reference.md");

/// The text of `docs/configuration.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION.trim_end());
    page.push_str("\n\n## `mainspring.toml`\n");
    section::<ConfigFile>(&mut page, "Top level");
    section::<ListenFile>(&mut page, "`[[listen]]`");
    section::<TokenFile>(&mut page, "`[[listen.tokens]]`");
    section::<TimeoutsFile>(&mut page, "`[timeouts]`");
    section::<RestartPolicy>(&mut page, "`[restart]`");
    section::<LogFile>(&mut page, "`[log]`");
    section::<Limits>(&mut page, "`[limits]`");
    page.push_str("\n## Manifests\n");
    section::<ManifestFile>(&mut page, "`[[capability]]`, or a file of its own");
    section::<RetryPolicy>(&mut page, "`[retry]`");
    section::<ActorLimits>(&mut page, "`[limits]` of a capability");
    page.push_str("\n## Programs\n");
    section::<ProcessFile>(&mut page, "`[program]` with `process`");
    section::<ProcessLimitsFile>(&mut page, "`[program.limits]` of a process");
    section::<WasmFile>(&mut page, "`[program]` with `wasm`");
    section::<WasmLimitsFile>(&mut page, "`[program.limits]` of a guest");
    section::<NativeFile>(&mut page, "`[program]` with `native`");
    page
}

fn section<T: JsonSchema>(page: &mut String, heading: &str) {
    let schema = schema_for!(T);
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    page.push_str(&format!(
        "\n### {heading}\n\n{}\n\n| key | takes | default | |\n| --- | --- | --- | --- |\n",
        one_line(about)
    ));
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (key, value) in properties {
        let about = value.get("description").and_then(Value::as_str).unwrap_or_default();
        let default = if required.contains(&key.as_str()) { "needed".into() } else { default(key, value) };
        page.push_str(&format!(
            "| `{key}` | {} | {default} | {} |\n",
            takes(key, value, &schema),
            one_line(about)
        ));
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// What a key takes, in words.
fn takes(key: &str, value: &Value, root: &Schema) -> String {
    match unit_of(key) {
        Some(Unit::Bytes) => return "size".into(),
        Some(Unit::Milliseconds) => return "duration".into(),
        None => {}
    }
    if let Some(title) = value["title"].as_str() {
        return title.into();
    }
    if let Some(words) = words(value, root) {
        return words;
    }
    let types = match &value["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
        }
        _ => Vec::new(),
    };
    match types.first().copied() {
        Some("integer") => "number".into(),
        Some("string") => "text".into(),
        Some("boolean") => "true or false".into(),
        Some("array") => match takes("", &value["items"], root).as_str() {
            "table" => "tables".into(),
            "text" => "list of text".into(),
            other => format!("list of {other}"),
        },
        _ => "table".into(),
    }
}

/// The words of an enumeration, behind a reference perhaps.
fn words(value: &Value, root: &Schema) -> Option<String> {
    let reference = value["$ref"].as_str()?;
    let name = reference.strip_prefix("#/$defs/")?;
    let definition = root.get("$defs")?.get(name)?;
    let variants = definition["oneOf"].as_array()?;
    let words: Vec<String> =
        variants.iter().filter_map(|variant| Some(format!("`{}`", variant["const"].as_str()?))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// A default as it could be written; nothing where it is absence itself.
fn default(key: &str, value: &Value) -> String {
    let shown = match &value["default"] {
        Value::Null | Value::Object(_) => return String::new(),
        Value::Array(elements) if elements.is_empty() => return String::new(),
        Value::Number(number) => match (unit_of(key), number.as_u64()) {
            (Some(Unit::Bytes), Some(bytes)) => format!("\"{}\"", units::show_bytes(bytes)),
            (Some(Unit::Milliseconds), Some(ms)) => {
                format!("\"{}\"", units::show_duration(Duration::from_millis(ms)))
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    };
    format!("`{shown}`")
}
