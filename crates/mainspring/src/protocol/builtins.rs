//! What the daemon serves itself, as it describes it.

use mainspring_kernel::{BootPlan, Config, ConnectionId, Effect, Kernel, Now, Turn};
use serde_json::Value;

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
        let about = builtin["description"].as_str().unwrap_or_default();
        page.push_str(&format!("### `{name}` ({})\n\n{about}\n\n", kinds.join(", ")));
        for (title, schema) in [("data", &builtin["input"]), ("data of the reply", &builtin["output"])] {
            let text = if schema == &Value::Bool(true) { "any JSON".into() } else { format!("`{schema}`") };
            page.push_str(&format!("- {title}: {text}\n"));
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
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
