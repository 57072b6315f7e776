//! The catalogue: every type that can be sent, with its schemas, as `Syscall.Describe` tells it.

use crate::bus::exchange::{Ask, Exchange};
use mainspring_message::Kind;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Types whose descriptions are asked for at once: few enough for one sender's share of a lane.
const ASKED_AT_ONCE: usize = 64;

/// One kind and type, and what is said about it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) description: String,
    /// What the data looks like; absent where nothing is said.
    #[serde(default)]
    pub(crate) input: Value,
    #[serde(default)]
    pub(crate) output: Value,
    /// Who handles it; absent for what the daemon serves itself.
    pub(crate) capability: Option<String>,
    #[serde(default)]
    pub(crate) examples: Vec<Value>,
}

/// Everything that can be sent, by type and kind, and the events that capabilities may emit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) entries: BTreeMap<(String, String), Entry>,
    pub(crate) emitted: BTreeMap<String, Emitted>,
}

/// An event that a capability says it emits.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) capability: String,
    pub(crate) data: Value,
}

#[derive(Deserialize)]
struct Overview {
    capabilities: Vec<Capability>,
    builtins: Vec<Builtin>,
}

#[derive(Deserialize)]
struct Capability {
    id: String,
    handles: Vec<Handle>,
    #[serde(default)]
    outbound: Value,
}

#[derive(Deserialize)]
struct Handle {
    #[serde(rename = "type")]
    type_name: String,
}

#[derive(Deserialize)]
struct Builtin {
    #[serde(rename = "type")]
    type_name: String,
}

#[derive(Deserialize)]
struct Described {
    handlers: Vec<Entry>,
}

impl Catalogue {
    /// Asks the bus for everything that this peer may see. `None` when it does not answer.
    pub(crate) async fn read(exchange: &Rc<Exchange>, new_id: impl Fn() -> String) -> Option<Catalogue> {
        let overview: Overview = exchange.ask_for("Syscall.Describe", "{}").await?;
        let mut names = BTreeSet::new();
        names.extend(overview.builtins.into_iter().map(|builtin| builtin.type_name));
        let mut catalogue = Catalogue::default();
        for capability in overview.capabilities {
            names.extend(capability.handles.into_iter().map(|handle| handle.type_name));
            for (name, data) in events_of(&capability.outbound) {
                catalogue.emitted.insert(name, Emitted { capability: capability.id.clone(), data });
            }
        }
        let names: Vec<String> = names.into_iter().collect();
        for some in names.chunks(ASKED_AT_ONCE) {
            let asked: Vec<String> = some
                .iter()
                .map(|name| {
                    let (id, data) = (new_id(), json!({ "type": name }).to_string());
                    exchange.send(&Ask::new(Kind::Query, "Syscall.Describe", &data, &id));
                    id
                })
                .collect();
            let mut open: BTreeSet<String> = asked.into_iter().collect();
            while !open.is_empty() {
                let message = exchange.next().await.ok()?;
                exchange.written(message.line().len() + 1);
                if !open.remove(message.causation().unwrap_or_default()) {
                    continue;
                }
                // A type that went away meanwhile is not in the catalogue.
                let Ok(described) = message.data_as::<Described>() else { continue };
                for entry in described.handlers {
                    catalogue.entries.insert((entry.name.clone(), entry.kind.clone()), entry);
                }
            }
        }
        Some(catalogue)
    }
}

/// The events in an outbound schema: branches whose `kind` is `event`, by type, with the schema of
/// their data.
fn events_of(schema: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut open = vec![schema];
    while let Some(branch) = open.pop() {
        for union in ["oneOf", "anyOf"] {
            open.extend(branch[union].as_array().into_iter().flatten());
        }
        let properties = &branch["properties"];
        if !texts(&properties["kind"]).contains(&"event") {
            continue;
        }
        for name in texts(&properties["type"]) {
            let data = properties.get("data").cloned().unwrap_or(json!(true));
            found.push((name.to_owned(), data));
        }
    }
    found
}

/// The texts of a `const` or an `enum`.
fn texts(schema: &Value) -> Vec<&str> {
    let one = schema["const"].as_str();
    one.into_iter().chain(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str)).collect()
}
