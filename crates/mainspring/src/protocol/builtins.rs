//! What the daemon serves itself, as it describes it.

use mainspring_kernel::{BootPlan, Config, ConnectionId, Effect, Kernel, Now, Turn};
use serde_json::Value;

/// The most columns of a line.
const COLUMNS_MAX: usize = 100;

/// A section for each built-in, with the schemas of its request and reply.
pub(super) fn tables() -> String {
    let described = describe();
    let mut page = String::new();
    for builtin in described["builtins"].as_array().into_iter().flatten() {
        let name = builtin["type"].as_str().unwrap_or_default();
        let kinds: Vec<&str> = match &builtin["kinds"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => builtin["kind"].as_str().into_iter().collect(),
        };
        let about = wrapped(builtin["description"].as_str().unwrap_or_default());
        page.push_str(&format!("### `{name}` ({})\n\n{about}\n\n", kinds.join(", ")));
        for (title, schema) in [("Data", &builtin["input"]), ("Data of the reply", &builtin["output"])] {
            match schema {
                Value::Bool(true) => page.push_str(&format!("{title}: any JSON.\n\n")),
                schema => page.push_str(&format!("{title}:\n\n```json\n{}\n```\n\n", fitted(schema, 0, 0))),
            }
        }
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// A paragraph in lines that are narrow enough.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// JSON behind so many columns of a line that is indented so far: on that line if it fits there,
/// else a member a line.
fn fitted(value: &Value, before: usize, indent: usize) -> String {
    let flat = value.to_string();
    if before + flat.chars().count() < COLUMNS_MAX {
        return flat;
    }
    let inner = indent + 2;
    let (open, close, members): (_, _, Vec<String>) = match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("\"{name}\": {}", fitted(value, inner + name.len() + 4, inner))
            };
            ('{', '}', members.iter().map(member).collect())
        }
        Value::Array(items) => ('[', ']', items.iter().map(|item| fitted(item, inner, inner)).collect()),
        _ => return flat,
    };
    let (outer, inner) = (" ".repeat(indent), " ".repeat(inner));
    format!("{open}\n{inner}{}\n{outer}{close}", members.join(&format!(",\n{inner}")))
}

/// The answer of a loop without capabilities to `Syscall.Describe`.
fn describe() -> Value {
    let now = Now { mono_ns: 0, unix_ms: 0 };
    let mut kernel = Kernel::new(Config::default(), 1);
    kernel.boot(BootPlan::default(), now);
    let client = ConnectionId(1);
    kernel.connection_opened(client, "reader", now);
    let line = br#"{"kind":"query","type":"Syscall.Describe","data":{},"metadata":{"id":"q","timestamp":0}}"#;
    kernel.ingest(client, line, now);
    let mut effects = Vec::new();
    while kernel.turn(now) != Turn::Idle {}
    kernel.drain_effects(&mut effects);
    let answer = effects.into_iter().find_map(|effect| match effect {
        Effect::Write { message, .. } => Some(message),
        _ => None,
    });
    answer.and_then(|message| serde_json::from_str(message.data()).ok()).unwrap_or_default()
}
