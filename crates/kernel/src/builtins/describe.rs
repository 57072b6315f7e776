//! `Syscall.Describe`: what can be said to the loop, in words and JSON Schemas.

use super::{Answer, BUILTINS, read};
use crate::actors::Actor;
use crate::ingest::Refusal;
use crate::kernel::Kernel;
use crate::routes::Handler;
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

fn describe_capability(actor: &Actor) -> Value {
    let (manifest, handles) = actor.announced();
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

impl Kernel {
    pub(super) fn describe(&self, request: &Envelope) -> Answer {
        let data: DescribeData = read(request)?;
        match (data.capability, data.type_name) {
            (None, None) => Ok(self.describe_all().to_string()),
            (Some(id), None) => {
                let found = self.described().find(|actor| actor.manifest.id == id);
                found.map(|actor| describe_capability(actor).to_string()).ok_or_else(|| {
                    Refusal::new(Failure::Routing, format!("data.capability: there is no capability {id:?}"))
                })
            }
            (None, Some(name)) => self.describe_type(&name),
            (Some(_), Some(_)) => {
                Err(Refusal::new(Failure::Schema, "data: capability and type exclude each other"))
            }
        }
    }

    /// The capabilities that something can be sent to.
    fn described(&self) -> impl Iterator<Item = &Actor> {
        self.actors.iter().filter(|actor| !actor.succession.removed)
    }

    fn describe_all(&self) -> Value {
        let builtins: Vec<Value> = BUILTINS
            .iter()
            .map(|entry| {
                let kinds: Vec<&str> = entry.kinds.iter().map(|kind| kind.as_str()).collect();
                json!({
                    "type": entry.type_name,
                    "kinds": kinds,
                    "description": entry.description,
                    "input": schema(entry.input),
                    "output": schema(entry.output),
                })
            })
            .collect();
        let capabilities: Vec<Value> = self.described().map(describe_capability).collect();
        json!({ "capabilities": capabilities, "builtins": builtins })
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
            let Some(route) = self.routes.route(kind, name) else { continue };
            let Handler::Capability(capability) = route.handler else { continue };
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

    fn describe_capability_handle(&self, capability: u32, kind: Kind, name: &str) -> Value {
        let (manifest, _) = self.actors[capability as usize].announced();
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
