//! `Syscall.Describe`: what can be sent, in words and JSON Schemas.

use super::chores::{Slice, Task};
use super::{Answer, BUILTINS, Served, append, read};
use crate::actors::Actors;
use crate::api::ids::CapabilityId;
use crate::api::manifest::Manifest;
use crate::flow::refusal::Refusal;
use crate::flow::routes::Handler;
use crate::flow::work;
use crate::kernel::Kernel;
use crate::schema::TypeSchema;
use mainspring_message::{Envelope, Failure, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeData {
    capability: Option<String>,
    #[serde(rename = "type", alias = "name")]
    type_name: Option<String>,
}

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn describe_capability(manifest: &Manifest, handles: &[(Kind, String)]) -> Value {
    let handles: Vec<Value> =
        handles.iter().map(|(kind, name)| json!({ "kind": kind.as_str(), "type": name })).collect();
    json!({
        "id": manifest.id,
        "description": manifest.description,
        "handles": handles,
        "subscribes": manifest.subscribes,
        "inbound": manifest.inbound,
        "outbound": manifest.outbound,
    })
}

/// Everything, as far as it was described.
#[derive(Debug, Default)]
pub(crate) struct DescribeAll {
    builtins: usize,
    capabilities: usize,
    builtins_text: String,
    capabilities_text: String,
}

impl DescribeAll {
    pub(super) fn step(&mut self, actors: &Actors, slice: &mut Slice) -> Option<Answer> {
        while let Some(entry) = BUILTINS.get(self.builtins) {
            if slice.is_over() {
                return None;
            }
            self.builtins += 1;
            let kinds: Vec<&str> = entry.kinds.iter().map(|kind| kind.as_str()).collect();
            let item = json!({
                "type": entry.type_name,
                "kinds": kinds,
                "description": entry.description,
                "input": schema(entry.input),
                "output": schema(entry.output),
            });
            slice.spend(add(&mut self.builtins_text, &item));
        }
        for capability in actors.ids().skip(self.capabilities) {
            if slice.is_over() {
                return None;
            }
            self.capabilities += 1;
            if let Some((manifest, handles)) = actors.announced(capability) {
                let item = describe_capability(manifest, handles);
                slice.spend(add(&mut self.capabilities_text, &item));
            }
        }
        let (capabilities, builtins) = (&self.capabilities_text, &self.builtins_text);
        Some(Ok(format!("{{\"capabilities\":[{capabilities}],\"builtins\":[{builtins}]}}")))
    }
}

/// Adds an item to a list; returns the work.
fn add(list: &mut String, item: &Value) -> u64 {
    let before = list.len();
    append(list, item);
    // Schemas are trees of small pieces, each of which is copied before it is written.
    work::ITEM + 10 * (list.len() - before) as u64
}

impl Kernel {
    pub(super) fn describe(&self, request: &Envelope) -> Result<Served, Refusal> {
        let data: DescribeData = read(request)?;
        match (data.capability, data.type_name) {
            (None, None) => Ok(Served::In(Task::Describe(DescribeAll::default()))),
            (Some(id), None) => {
                let found =
                    self.actors.find(&id).and_then(|(capability, _)| self.actors.announced(capability));
                let described = found.map(|(manifest, handles)| describe_capability(manifest, handles));
                described.map(|described| Served::AtOnce(described.to_string())).ok_or_else(|| {
                    Refusal::new(Failure::Routing, format!("data.capability: there is no capability {id:?}"))
                })
            }
            (None, Some(name)) => self.describe_type(&name).map(Served::AtOnce),
            (Some(_), Some(_)) => {
                Err(Refusal::new(Failure::Schema, "data: capability and type exclude each other"))
            }
        }
    }

    /// Everything that is called `name`: a built-in, the handlers of a command and a query, subscribers of an event.
    fn describe_type(&self, name: &str) -> Answer {
        let mut found = Vec::new();
        for entry in BUILTINS.iter().filter(|entry| entry.type_name == name) {
            for kind in entry.kinds {
                let takes = TypeSchema::of_data(*kind, name, schema(entry.input));
                let mut handle = describe_handle(name, *kind, entry.description, takes);
                handle["output"] = schema(entry.output);
                found.push(handle);
            }
        }
        for kind in [Kind::Command, Kind::Query] {
            let Some(Handler::Capability(capability)) = self.routes.handler(kind, name) else { continue };
            found.push(self.describe_capability_handle(capability, kind, name));
        }
        for subscriber in self.routes.subscribers(name) {
            found.push(self.describe_capability_handle(subscriber.capability, Kind::Event, name));
        }
        if found.is_empty() {
            let text = format!("data.type: nothing here is called {name:?}");
            return Err(Refusal::new(Failure::Routing, text));
        }
        Ok(json!({ "name": name, "handlers": found }).to_string())
    }

    fn describe_capability_handle(&self, capability: CapabilityId, kind: Kind, name: &str) -> Value {
        let manifest = self.actors.manifest(capability);
        // What a capability only subscribes to, it takes as it comes.
        let takes = TypeSchema::find(&manifest.inbound, kind, name)
            .unwrap_or_else(|| TypeSchema::of_data(kind, name, json!({})));
        let mut handle = describe_handle(name, kind, &manifest.description, takes);
        handle["capability"] = json!(manifest.id);
        if kind.is_request() {
            let says = manifest.outbound.as_ref();
            handle["output"] = json!(
                says.and_then(|says| TypeSchema::find(says, Kind::Reply, name)).map(|reply| reply.data)
            );
        }
        handle
    }
}

/// One kind and type: `input` and `output` are what `data` looks like in the request and in its reply (null where
/// nothing is said), `message` is the whole message to send.
fn describe_handle(name: &str, kind: Kind, description: &str, takes: TypeSchema) -> Value {
    json!({
        "name": name,
        "kind": kind.as_str(),
        "description": description,
        "input": takes.data,
        "message": takes.message,
        "output": null,
    })
}
