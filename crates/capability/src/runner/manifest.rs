//! The manifest of a capability: what `capability.json` holds.

use crate::runner::outline::{Handled, Hints, Outline};
use mainspring_message::Kind;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

pub(crate) fn of(outline: &Outline) -> Value {
    let mut made = json!({
        "id": outline.id,
        "description": outline.description,
        "inbound": inbound(outline),
        "cancel": true,
    });
    if !outline.says_anything {
        made["outbound"] = outbound(outline);
    }
    let subscribes: Vec<&str> = events(outline).map(|handler| handler.type_name.as_str()).collect();
    if !subscribes.is_empty() {
        made["subscribes"] = json!(subscribes);
    }
    let types: Map<String, Value> = requests(outline)
        .filter_map(|handler| Some((handler.type_name.clone(), hints(handler.hints)?)))
        .collect();
    if !types.is_empty() {
        made["types"] = Value::Object(types);
    }
    if outline.concurrency > 1 {
        made["limits"] = json!({ "concurrency": outline.concurrency });
    }
    made
}

fn requests(outline: &Outline) -> impl Iterator<Item = &Handled> {
    outline.handled.iter().filter(|handler| handler.kind != Kind::Event)
}

fn events(outline: &Outline) -> impl Iterator<Item = &Handled> {
    outline.handled.iter().filter(|handler| handler.kind == Kind::Event)
}

fn inbound(outline: &Outline) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let handled: Vec<&Handled> = match requests(outline).next() {
        Some(_) => requests(outline).collect(),
        // A manifest must take something; its subscriptions are all that there is.
        None => events(outline).collect(),
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

fn outbound(outline: &Outline) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut branches = Vec::new();
    for handler in requests(outline) {
        let data = (handler.output)(&mut generator);
        branches.push(branch(Kind::Reply, &handler.type_name, data, ""));
        let progress = format!("{}.Progress", handler.type_name);
        if !outline.said.iter().any(|said| said.type_name == progress) {
            branches.push(branch(Kind::Event, &progress, Schema::default(), ""));
        }
    }
    for said in &outline.said {
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
    use crate::{Anything, Empty};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    struct Note {
        text: String,
        #[serde(default)]
        tags: Vec<Tag>,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Tag(String);

    #[test]
    fn a_manifest_has_a_branch_for_each_message_and_definitions_at_the_top() {
        let mut outline = Outline::new("notes", "Keeps notes.");
        outline.handles::<Note, Vec<Tag>>(Kind::Command, "Notes.Add", "Keeps a note.".into());
        outline.hints(Hints { destructive: Some(false), ..Hints::default() });
        outline.handles::<Empty, u32>(Kind::Query, "Notes.Count", "Counts them.".into());
        outline.handles::<Anything, ()>(Kind::Event, "App.Reset", String::new());
        outline.emits::<Tag>("Notes.Tagged".into(), "A tag was seen.".into());
        outline.asks(Kind::Query, "Memory.Get".into());
        let made = of(&outline);
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
        let mut outline = Outline::new("a", "A.");
        outline.handles::<Empty, Empty>(Kind::Query, "A.B", "Once.".into());
        outline.handles::<Empty, Empty>(Kind::Query, "A.B", "Twice.".into());
    }
}
