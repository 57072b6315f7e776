//! `Syscall.Describe`: what can be sent, in words and JSON Schemas.

use super::chores::{Slice, Task};
use super::notes::{Hints, Notes, emitted};
use super::{Answer, BUILTINS, Caller, Served, append, read};
use crate::api::ids::CapabilityId;
use crate::api::manifest::Manifest;
use crate::flow::refusal::{Refusal, is_reserved};
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

/// A capability as whoever asks may see it: `is_seen` tells which types. Its schemas are of all its
/// types together, so they are told only to those who may see all of them.
fn describe_capability(
    manifest: &Manifest,
    handles: &[(Kind, String)],
    is_seen: impl Fn(&str) -> bool,
) -> Option<Value> {
    let seen: Vec<Value> = handles
        .iter()
        .filter(|(_, name)| is_seen(name))
        .map(|(kind, name)| json!({ "kind": kind.as_str(), "type": name }))
        .collect();
    if seen.is_empty() && !handles.is_empty() {
        return None;
    }
    let is_whole = seen.len() == handles.len();
    let subscribes: Vec<&String> = manifest.subscribes.iter().filter(|name| is_seen(name)).collect();
    Some(json!({
        "id": manifest.id,
        "description": manifest.description,
        "handles": seen,
        "subscribes": subscribes,
        "inbound": is_whole.then_some(&manifest.inbound),
        "outbound": manifest.outbound.as_ref().filter(|_| is_whole),
    }))
}

/// Everything, as far as it was described.
#[derive(Debug)]
pub(crate) struct DescribeAll {
    caller: Caller,
    builtins: usize,
    capabilities: usize,
    builtins_text: String,
    capabilities_text: String,
}

impl DescribeAll {
    fn new(caller: Caller) -> DescribeAll {
        let (builtins_text, capabilities_text) = Default::default();
        DescribeAll { caller, builtins: 0, capabilities: 0, builtins_text, capabilities_text }
    }

    pub(super) fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
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
        for capability in kernel.actors.ids().skip(self.capabilities) {
            if slice.is_over() {
                return None;
            }
            self.capabilities += 1;
            let is_seen = |name: &str| kernel.may_see(self.caller.recipient, name);
            let announced = kernel.actors.announced(capability);
            if let Some(item) =
                announced.and_then(|(manifest, handles)| describe_capability(manifest, handles, is_seen))
            {
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
    pub(super) fn describe(&self, request: &Envelope, caller: Caller) -> Result<Served, Refusal> {
        let data: DescribeData = read(request)?;
        match (data.capability, data.type_name) {
            (None, None) => Ok(Served::In(Task::Describe(DescribeAll::new(caller)))),
            (Some(id), None) => self.describe_one(&id, caller).map(Served::AtOnce),
            (None, Some(name)) => self.describe_type(&name, caller).map(Served::AtOnce),
            (Some(_), Some(_)) => {
                Err(Refusal::new(Failure::Schema, "data: capability and type exclude each other"))
            }
        }
    }

    /// One capability, with all its types and the events that it says.
    fn describe_one(&self, id: &str, caller: Caller) -> Answer {
        let is_seen = |name: &str| self.may_see(caller.recipient, name);
        let found = self.actors.find(id).and_then(|(capability, _)| {
            let (manifest, handles) = self.actors.announced(capability)?;
            let mut told = describe_capability(manifest, handles, is_seen)?;
            let types = handles.iter().filter(|(_, name)| is_seen(name)).map(|(kind, name)| {
                let mut handle = self.describe_capability_handle(capability, *kind, name);
                handle.as_object_mut().map(|handle| handle.remove("message"));
                handle
            });
            told["types"] = types.collect();
            let emits = emitted(manifest).into_iter();
            told["emits"] = emits.filter(|event| event["type"].as_str().is_some_and(is_seen)).collect();
            Some(told.to_string())
        });
        found.ok_or_else(|| {
            Refusal::new(Failure::Routing, format!("data.capability: there is no capability {id:?}"))
        })
    }

    /// Everything that is called `name`: a built-in, the handlers of a command and a query,
    /// subscribers of an event.
    fn describe_type(&self, name: &str, caller: Caller) -> Answer {
        let mut found = Vec::new();
        if !is_reserved(name) && !self.may_see(caller.recipient, name) {
            let text = format!("data.type: nothing here is called {name:?}");
            return Err(Refusal::new(Failure::Routing, text));
        }
        for entry in BUILTINS.iter().filter(|entry| entry.type_name == name) {
            for kind in entry.kinds {
                let takes = TypeSchema::of_data(*kind, name, schema(entry.input));
                let mut handle = describe_handle(name, *kind, entry.description, takes);
                handle["output"] = schema(entry.output);
                handle["hints"] = Hints::of(*kind, None).told();
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
        Notes::of(manifest, kind, name).add_to(&mut handle);
        if kind.is_request() {
            let says = manifest.outbound.as_ref();
            handle["output"] = json!(
                says.and_then(|says| TypeSchema::find(says, Kind::Reply, name)).map(|reply| reply.data)
            );
        }
        handle
    }
}

/// One kind and type: `input` and `output` are what `data` looks like in the request and in its
/// reply (null where nothing is said), `message` is the whole message to send.
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
