//! The manifest of a capability: what `capability.json` holds.

use crate::capability::{Capability, Handler, Hints};
use mainspring_message::Kind;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

pub(crate) fn of(capability: &Capability) -> Value {
    let mut made = json!({
        "id": capability.id,
        "description": capability.description,
        "inbound": inbound(capability),
        "cancel": true,
    });
    if !capability.says_anything {
        made["outbound"] = outbound(capability);
    }
    let subscribes: Vec<&str> = events(capability).map(|handler| handler.type_name.as_str()).collect();
    if !subscribes.is_empty() {
        made["subscribes"] = json!(subscribes);
    }
    let types: Map<String, Value> = requests(capability)
        .filter_map(|handler| Some((handler.type_name.clone(), hints(handler.hints)?)))
        .collect();
    if !types.is_empty() {
        made["types"] = Value::Object(types);
    }
    if capability.concurrency > 1 {
        made["limits"] = json!({ "concurrency": capability.concurrency });
    }
    made
}

fn requests(capability: &Capability) -> impl Iterator<Item = &Handler> {
    capability.handlers.iter().filter(|handler| handler.kind != Kind::Event)
}

fn events(capability: &Capability) -> impl Iterator<Item = &Handler> {
    capability.handlers.iter().filter(|handler| handler.kind == Kind::Event)
}

fn inbound(capability: &Capability) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let handled: Vec<&Handler> = match requests(capability).next() {
        Some(_) => requests(capability).collect(),
        // A manifest must take something; its subscriptions are all that there is.
        None => events(capability).collect(),
    };
    let branches = handled
        .into_iter()
        .map(|handler| {
            let data = (handler.input)(&mut generator);
            branch(handler.kind, &handler.type_name, data, &handler.description)
        })
        .collect();
    document(branches, generator)
}

fn outbound(capability: &Capability) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut branches = Vec::new();
    for handler in requests(capability) {
        let data = (handler.output)(&mut generator);
        branches.push(branch(Kind::Reply, &handler.type_name, data, ""));
        let progress = format!("{}.Progress", handler.type_name);
        if !capability.said.iter().any(|said| said.type_name == progress) {
            branches.push(branch(Kind::Event, &progress, Schema::default(), ""));
        }
    }
    for said in &capability.said {
        let data = (said.data)(&mut generator);
        branches.push(branch(said.kind, &said.type_name, data, &said.description));
    }
    document(branches, generator)
}

fn branch(kind: Kind, type_name: &str, data: Schema, description: &str) -> Value {
    let mut made = json!({
        "type": "object",
        "properties": { "kind": { "const": kind.as_str() }, "type": { "const": type_name }, "data": data },
        "required": ["kind", "type", "data"],
    });
    if !description.is_empty() {
        made["description"] = json!(description);
    }
    made
}

fn document(branches: Vec<Value>, mut generator: SchemaGenerator) -> Value {
    let mut made = json!({ "anyOf": branches });
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        made["$defs"] = Value::Object(definitions);
    }
    made
}

fn hints(hints: Hints) -> Option<Value> {
    let named = [
        ("read_only", hints.read_only),
        ("destructive", hints.destructive),
        ("idempotent", hints.idempotent),
        ("open_world", hints.open_world),
    ];
    let said: Map<String, Value> =
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect();
    (!said.is_empty()).then_some(Value::Object(said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Anything, Empty, Failure};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Deserialize, JsonSchema)]
    struct Note {
        text: String,
        #[serde(default)]
        tags: Vec<Tag>,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Tag(String);

    #[test]
    fn a_manifest_has_a_branch_for_each_message_and_definitions_at_the_top() {
        let capability = Capability::new("notes", "Keeps notes.")
            .command("Notes.Add", "Keeps a note.", |note: Note, _| {
                Ok(note.tags.into_iter().chain([Tag(note.text)]).collect::<Vec<Tag>>())
            })
            .hints(Hints { destructive: Some(false), ..Hints::default() })
            .query("Notes.Count", "Counts them.", |_: Empty, _| Ok(1_u32))
            .on("App.Reset", |_: Anything, _| Ok::<(), Failure>(()))
            .emits::<Tag>("Notes.Tagged", "A tag was seen.")
            .asks(Kind::Query, "Memory.Get");
        let made = of(&capability);
        let handled = &made["inbound"]["anyOf"];
        assert_eq!(handled[0]["properties"]["type"]["const"], "Notes.Add");
        assert_eq!(handled[0]["description"], "Keeps a note.");
        assert_eq!(handled[1]["properties"]["kind"]["const"], "query");
        assert_eq!(
            made["inbound"]["$defs"]["Note"]["required"],
            json!(["text"]),
            "what has a default need not be there"
        );
        let said: Vec<&str> = made["outbound"]["anyOf"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["properties"]["type"]["const"].as_str().unwrap())
            .collect();
        let wanted = [
            "Notes.Add",
            "Notes.Add.Progress",
            "Notes.Count",
            "Notes.Count.Progress",
            "Notes.Tagged",
            "Memory.Get",
        ];
        assert_eq!(said, wanted);
        assert_eq!(made["subscribes"], json!(["App.Reset"]));
        assert_eq!(made["types"], json!({ "Notes.Add": { "destructive": false } }));
        assert!(made.get("limits").is_none());
    }

    #[test]
    #[should_panic(expected = "has a handler already")]
    fn two_handlers_of_one_type_are_a_mistake_that_is_told_at_once() {
        let handler = |_: Empty, _: &crate::Context<'_>| Ok(Empty);
        let _ = Capability::new("a", "A.").query("A.B", "Once.", handler).query("A.B", "Twice.", handler);
    }
}
