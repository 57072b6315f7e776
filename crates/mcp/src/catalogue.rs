//! The tools: what the daemon's catalogue says, as a model sees it.

use crate::schema::{self, Object};
use mainspring_client::tokio::Client;
use mainspring_client::{Error, Kind};
use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
        let (mut handled, mut operated) = (Vec::new(), Vec::new());
        let all: All = client.query("Syscall.Describe", &json!({})).await?.data()?;
        for capability in all.capabilities {
            // One that went meanwhile is told by an event, and the catalogue is read again.
            let Ok(reply) = client.query("Syscall.Describe", &json!({ "capability": capability.id })).await
            else {
                continue;
            };
            let found: One = reply.data()?;
            handled.extend(found.types);
        }
        for name in OPERATOR_TYPES.iter().filter(|_| is_operator) {
            let Ok(reply) = client.query("Syscall.Describe", &json!({ "type": name })).await else {
                continue;
            };
            let found: OfType = reply.data()?;
            operated.extend(found.handlers);
        }
        Ok(Catalogue { handlers: names.assign(handled), operator: names.assign(operated) })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Handler> {
        self.handlers.get(name).or_else(|| self.operator.get(name))
    }

    /// The request of a type, and of a kind if that is said: a type may be both a command and a
    /// query.
    pub(crate) fn of_type(&self, type_name: &str, kind: Option<Kind>) -> Option<&Handler> {
        let fits = |handler: &&Handler| {
            handler.type_name == type_name && kind.is_none_or(|kind| kind == handler.kind)
        };
        self.handlers.values().chain(self.operator.values()).find(fits)
    }
}

/// Names that the one who starts the bridge gives to tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(pub(crate) BTreeMap<String, String>);

impl Names {
    /// Tools by name. Names that were given come first; where two would have the same, a hash tells
    /// them apart.
    fn assign(&self, mut found: Vec<Described>) -> BTreeMap<String, Handler> {
        let kinds: BTreeMap<String, BTreeSet<String>> =
            found.iter().fold(BTreeMap::new(), |mut kinds, one| {
                kinds.entry(one.name.clone()).or_default().insert(one.kind.clone());
                kinds
            });
        // The same in every run, and whoever has a name of its own before those that only want it.
        found.sort_by(|one, other| {
            let place =
                |one: &Described| (!self.0.contains_key(&one.name), one.name.clone(), one.kind.clone());
            place(one).cmp(&place(other))
        });
        found.dedup_by(|one, other| (&one.name, &one.kind) == (&other.name, &other.kind));
        let mut made = BTreeMap::new();
        for described in found {
            let mut name = self.0.get(&described.name).cloned().unwrap_or_else(|| tool_name(&described.name));
            // Of a type that is both, as `Sys.DeadLetters` is, the command changes something.
            if described.kind == "command" && kinds.get(&described.name).is_some_and(|kinds| kinds.len() > 1)
            {
                name.push_str("_change");
            }
            if made.contains_key(&name) || crate::bridge::is_own_tool(&name) {
                name = hashed(&name, &described.name);
            }
            made.extend(handler(described, &name).map(|handler| (name, handler)));
        }
        made
    }
}

fn handler(described: Described, name: &str) -> Option<Handler> {
    let kind = Kind::from_wire(&described.kind).filter(|kind| matches!(kind, Kind::Command | Kind::Query))?;
    let (mut input, wraps_input) = schema::input(&described.input);
    if !described.examples.is_empty() && !wraps_input {
        input.entry("examples").or_insert_with(|| Value::Array(described.examples.clone()));
    }
    // Blocks of the protocol itself are passed on as such, and not a second time as data.
    let output = schema::output(&described.output).filter(|(schema, _)| !schema::is_of_blocks(schema));
    let wraps_output = output.as_ref().is_some_and(|(_, wraps)| *wraps);
    let tool = tool(name, &described, input, output.map(|(schema, _)| schema));
    Some(Handler { tool, kind, type_name: described.name, wraps_input, wraps_output })
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
    hashed(&name, type_name)
}

/// A name, shortened if need be, with the hash of its type.
fn hashed(name: &str, type_name: &str) -> String {
    // FNV-1a: short, and the same on every machine.
    let hash = type_name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let kept = name[..name.len().min(NAME_CHARACTERS_MAX - 9)].trim_end_matches('_');
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

    fn described(type_name: &str, kind: &str) -> Described {
        serde_json::from_value(json!({ "type": type_name, "kind": kind })).unwrap()
    }

    #[test]
    fn no_tool_takes_the_name_of_another() {
        let given = [("Notes.Add", "Memory_Set"), ("Notes.Wait", "wait_for_event")];
        let names = Names(given.map(|(name, tool)| (name.to_owned(), tool.to_owned())).into());
        let found = [
            ("Memory.Set", "command"),
            ("Notes.Add", "command"),
            ("Notes.Wait", "query"),
            ("Notes.Both", "command"),
            ("Notes.Both", "query"),
            ("Notes.Both", "query"),
            ("Notes.Told", "event"),
        ];
        let made = names.assign(found.map(|(name, kind)| described(name, kind)).into());
        let named: Vec<(&str, &str, Kind)> = made
            .iter()
            .map(|(name, handler)| (name.as_str(), handler.type_name.as_str(), handler.kind))
            .collect();
        assert_eq!(named[0], ("Memory_Set", "Notes.Add", Kind::Command));
        assert_eq!((named[1].1, named[1].0.len()), ("Memory.Set", "Memory_Set_".len() + 8));
        assert_eq!(named[2], ("Notes_Both", "Notes.Both", Kind::Query));
        assert_eq!(named[3], ("Notes_Both_change", "Notes.Both", Kind::Command));
        assert_eq!((named[4].1, named.len()), ("Notes.Wait", 5));
        assert_ne!(named[4].0, "wait_for_event");
        assert!(made.iter().all(|(name, handler)| handler.tool.name == *name));
    }
}
