//! The tools: what the daemon's catalogue says, as a model sees it.

use crate::schema::{self, Object};
use mainspring_client::tokio::Client;
use mainspring_client::{Error, Kind};
use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest name of a tool: models' interfaces take 64 characters, and their clients put the
/// server's name before it.
const NAME_CHARACTERS_MAX: usize = 40;

/// A request that a tool makes.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) tool: Tool,
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    /// The data is the argument `value`.
    pub(crate) wraps_input: bool,
    /// The data of the reply becomes the member `result`.
    pub(crate) wraps_output: bool,
}

/// Tools by name, in the order of their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) handlers: BTreeMap<String, Handler>,
    /// The types of the loop itself that operators' tools use.
    pub(crate) operator: BTreeMap<String, Handler>,
}

/// What the daemon tells of a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    #[serde(alias = "type")]
    name: String,
    kind: String,
    description: Option<String>,
    title: Option<String>,
    #[serde(default)]
    examples: Vec<Value>,
    #[serde(default)]
    deprecated: bool,
    hints: Option<Hints>,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    output: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hints {
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
}

/// What operators' tools ask.
const OPERATOR_TYPES: [&str; 11] = [
    "Sys.Actors",
    "Sys.Stats",
    "Sys.Trace",
    "Sys.DeadLetters",
    "Sys.Logs",
    "Sys.Reload",
    "Sys.RestartActor",
    "Sys.ResetActor",
    "Timer.List",
    "Timer.Cancel",
    "Syscall.Describe",
];

impl Catalogue {
    /// Asks the daemon. What the connection may not send is not in it.
    pub(crate) async fn load(client: &Client, is_operator: bool, names: &Names) -> Result<Catalogue, Error> {
        #[derive(Deserialize)]
        struct All {
            capabilities: Vec<Named>,
        }
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        #[derive(Deserialize)]
        struct One {
            #[serde(default)]
            types: Vec<Described>,
        }
        #[derive(Deserialize)]
        struct OfType {
            handlers: Vec<Described>,
        }
        let mut made = Catalogue::default();
        let all: All = client.query("Syscall.Describe", &json!({})).await?.data()?;
        for capability in all.capabilities {
            // One that went meanwhile is told by an event, and the catalogue is read again.
            let Ok(reply) = client.query("Syscall.Describe", &json!({ "capability": capability.id })).await
            else {
                continue;
            };
            let found: One = reply.data()?;
            made.handlers.extend(found.types.into_iter().filter_map(|described| handler(described, names)));
        }
        for name in OPERATOR_TYPES.iter().filter(|_| is_operator) {
            let Ok(reply) = client.query("Syscall.Describe", &json!({ "type": name })).await else {
                continue;
            };
            let found: OfType = reply.data()?;
            made.operator
                .extend(found.handlers.into_iter().filter_map(|described| handler(described, names)));
        }
        Ok(made)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Handler> {
        self.handlers.get(name).or_else(|| self.operator.get(name))
    }

    /// The request of a type.
    pub(crate) fn of_type(&self, type_name: &str) -> Option<&Handler> {
        self.handlers.values().chain(self.operator.values()).find(|handler| handler.type_name == type_name)
    }
}

/// Names that the one who starts the bridge gives to tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(pub(crate) BTreeMap<String, String>);

fn handler(described: Described, names: &Names) -> Option<(String, Handler)> {
    let kind = Kind::from_wire(&described.kind).filter(|kind| matches!(kind, Kind::Command | Kind::Query))?;
    let given = names.0.get(&described.name);
    // The same type may be both a command and a query, as `Sys.DeadLetters` is.
    let name = given.cloned().unwrap_or_else(|| match (described.name.as_str(), kind) {
        ("Sys.DeadLetters", Kind::Command) => "Sys_DeadLetters_change".to_owned(),
        (type_name, _) => tool_name(type_name),
    });
    let (mut input, wraps_input) = schema::input(&described.input);
    if !described.examples.is_empty() && !wraps_input {
        input.entry("examples").or_insert_with(|| Value::Array(described.examples.clone()));
    }
    // Blocks of the protocol itself are passed on as such, and not a second time as data.
    let output = schema::output(&described.output).filter(|(schema, _)| !schema::is_of_blocks(schema));
    let wraps_output = output.as_ref().is_some_and(|(_, wraps)| *wraps);
    let tool = tool(&name, &described, input, output.map(|(schema, _)| schema));
    Some((name, Handler { tool, kind, type_name: described.name, wraps_input, wraps_output }))
}

fn tool(name: &str, described: &Described, input: Object, output: Option<Object>) -> Tool {
    let mut words = described.description.clone().unwrap_or_default();
    if described.deprecated {
        words.insert_str(0, "Deprecated. ");
    }
    let title = described.title.clone().unwrap_or_else(|| described.name.clone());
    let mut tool = Tool::new(name.to_owned(), words, Arc::new(input)).with_title(title);
    if let Some(output) = output {
        tool = tool.with_raw_output_schema(Arc::new(output));
    }
    if let Some(hints) = &described.hints {
        tool = tool.with_annotations(
            ToolAnnotations::new()
                .read_only(hints.read_only)
                .destructive(hints.destructive)
                .idempotent(hints.idempotent)
                .open_world(hints.open_world),
        );
    }
    tool
}

/// The name of the tool of a type. Models' interfaces refuse dots, and with one such name the whole
/// list. A type has no underscores, so no two have the same name, and none has two in a row.
pub(crate) fn tool_name(type_name: &str) -> String {
    let name = type_name.replace('.', "_");
    if name.len() <= NAME_CHARACTERS_MAX {
        return name;
    }
    // FNV-1a: short, and the same on every machine.
    let hash = type_name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let kept = name[..NAME_CHARACTERS_MAX - 9].trim_end_matches('_');
    format!("{kept}_{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_named_by_its_type_without_dots_and_is_never_too_long() {
        assert_eq!(tool_name("Memory.Set"), "Memory_Set");
        let long = format!("Company.Department.{}", "Very".repeat(20));
        let other = format!("{long}X");
        let (one, two) = (tool_name(&long), tool_name(&other));
        assert!(one.len() <= NAME_CHARACTERS_MAX && one != two, "{one} {two}");
        assert!(one.chars().all(|character| character.is_ascii_alphanumeric() || character == '_'));
        assert!(!one.contains("__"));
    }
}
