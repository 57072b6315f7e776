//! The manifest of a capability that is an MCP server.

use super::Server;
use crate::error::McpError;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A manifest, and what it was made of.
#[derive(Debug)]
pub struct Made {
    /// The manifest, as `capability.json` holds it.
    pub manifest: Value,
    /// The types, each with the tool that it stands for.
    pub types: Vec<(String, String)>,
    /// Tools that were left out, because two of them would have the same type.
    pub left_out: Vec<String>,
}

/// Asks an MCP server what it offers, and makes the manifest of a capability of it.
///
/// # Errors
/// The server does not start, does not speak the protocol, or offers no tools.
pub fn manifest(id: &str, prefix: &str, command: &[String]) -> Result<Made, McpError> {
    let runtime = crate::runtime()?;
    let asked = runtime.block_on(async {
        let server = Server::start(command).await?;
        let tools = server.tools.clone();
        let about = server.service.peer().peer_info();
        let words = about.and_then(|info| info.server_info.clone()).map(|server| {
            let name = server.title.unwrap_or(server.name);
            format!("The MCP server {}.", format!("{name} {}", server.version).trim_end())
        });
        server.stop().await;
        Ok::<_, McpError>((tools, words))
    });
    runtime.shutdown_background();
    let (tools, words) = asked?;
    if tools.is_empty() {
        return Err(McpError::Server { command: command.join(" "), reason: "offers no tools".to_owned() });
    }
    let words = words.unwrap_or_else(|| format!("The MCP server {}.", command.join(" ")));
    Ok(make(id, prefix, &words, &tools, command))
}

fn make(id: &str, prefix: &str, words: &str, tools: &[Tool], command: &[String]) -> Made {
    let mut chosen: BTreeMap<String, &Tool> = BTreeMap::new();
    let mut left_out = Vec::new();
    for tool in tools {
        let name = segment(&tool.name);
        if name.is_empty() || chosen.contains_key(&name) {
            left_out.push(tool.name.to_string());
        } else {
            chosen.insert(name, tool);
        }
    }
    let mut inbound = Vec::new();
    let mut outbound = Vec::new();
    let mut types = Map::new();
    let mut named = Vec::new();
    for (name, tool) in chosen {
        let type_name = format!("{prefix}.{name}");
        let is_read_only = tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true);
        let kind = if is_read_only { "query" } else { "command" };
        inbound.push(branch(
            kind,
            &type_name,
            Value::Object(tool.input_schema.as_ref().clone()),
            tool.description.as_deref(),
        ));
        outbound.push(branch("reply", &type_name, reply_schema(tool), None));
        outbound.push(branch("event", &format!("{type_name}.Progress"), json!({}), None));
        types.insert(type_name.clone(), catalogue_entry(tool));
        named.push((type_name, tool.name.to_string()));
    }
    let manifest = json!({
        "id": id,
        "description": words,
        "inbound": { "anyOf": inbound },
        "outbound": { "anyOf": outbound },
        "types": types,
        "cancel": true,
        "limits": { "concurrency": 16 },
        "program": { "mcp": command },
    });
    Made { manifest, types: named, left_out }
}

/// A message in a schema. References in the data begin at the top of the document, so what they
/// lead to is put in their place.
fn branch(kind: &str, type_name: &str, mut data: Value, description: Option<&str>) -> Value {
    inline(&mut data);
    let mut made = json!({
        "type": "object",
        "properties": { "kind": { "const": kind }, "type": { "const": type_name }, "data": data },
        "required": ["kind", "type", "data"],
    });
    if let Some(description) = description {
        made["description"] = json!(description);
    }
    made
}

/// How deeply references are followed: a schema may lead to itself.
const REFERENCES_MAX: usize = 8;

fn inline(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("$schema");
    object.remove("$id");
    let mut definitions = Map::new();
    for place in ["$defs", "definitions"] {
        if let Some(Value::Object(found)) = object.remove(place) {
            definitions.extend(found.into_iter().map(|(name, value)| (format!("#/{place}/{name}"), value)));
        }
    }
    resolve(schema, &definitions, REFERENCES_MAX);
}

fn resolve(schema: &mut Value, definitions: &Map<String, Value>, left: usize) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        // Beyond the bound, and where it leads out of the document, anything is taken here; the
        // server checks it.
        let mut found = definitions.get(name).filter(|_| left > 0).cloned().unwrap_or_else(|| json!({}));
        resolve(&mut found, definitions, left.saturating_sub(1));
        *schema = found;
        return;
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(|value| resolve(value, definitions, left)),
        Value::Array(items) => items.iter_mut().for_each(|value| resolve(value, definitions, left)),
        _ => {}
    }
}

fn reply_schema(tool: &Tool) -> Value {
    match &tool.output_schema {
        Some(schema) => Value::Object(schema.as_ref().clone()),
        None => json!({
            "type": "object",
            "properties": { "content": { "type": "array", "items": { "type": "object" } } },
            "required": ["content"],
        }),
    }
}

fn catalogue_entry(tool: &Tool) -> Value {
    let mut entry = Map::new();
    if let Some(title) =
        tool.title.as_ref().or(tool.annotations.as_ref().and_then(|hints| hints.title.as_ref()))
    {
        entry.insert("title".to_owned(), json!(title));
    }
    let hints = tool.annotations.clone().unwrap_or_default();
    let named = [
        ("destructive", hints.destructive_hint),
        ("idempotent", hints.idempotent_hint),
        ("open_world", hints.open_world_hint),
    ];
    entry.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))));
    Value::Object(entry)
}

/// The segment of a type that stands for a tool: `read_file` and `read-file` are `ReadFile`.
pub(super) fn segment(tool: &str) -> String {
    let words =
        tool.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut made: String = words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect();
    if made.starts_with(|character: char| character.is_ascii_digit()) {
        made.insert_str(0, "Tool");
    }
    made.truncate(SEGMENT_BYTES_MAX);
    made
}

/// The longest segment; a whole type has at most 256 bytes.
const SEGMENT_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_tool_becomes_a_segment_of_a_type() {
        for (tool, wanted) in [
            ("read_file", "ReadFile"),
            ("get-sum", "GetSum"),
            ("echo", "Echo"),
            ("2fa", "Tool2fa"),
            ("a.b c", "ABC"),
            ("日本", ""),
        ] {
            assert_eq!(segment(tool), wanted);
        }
    }

    #[test]
    fn references_are_put_in_their_place_and_a_schema_that_leads_to_itself_ends() {
        let mut schema = json!({
            "type": "object",
            "properties": { "node": { "$ref": "#/$defs/Node" }, "far": { "$ref": "https://example.com/schema" } },
            "$defs": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } } } },
        });
        inline(&mut schema);
        assert_eq!(schema["properties"]["node"]["properties"]["next"]["type"], "object");
        assert!(!schema.to_string().contains("$ref"), "{schema}");
        assert_eq!(schema["properties"]["far"], json!({}));
    }

    #[test]
    fn a_tool_that_changes_nothing_is_a_query_and_two_of_one_type_are_told() {
        let tool = |name: &'static str| {
            Tool::new(name, "Does it.", Arc::new(json!({ "type": "object" }).as_object().unwrap().clone()))
        };
        let reads = tool("read").annotate(rmcp::model::ToolAnnotations::new().read_only(true));
        let made =
            make("files", "Files", "Files.", &[reads, tool("do_it"), tool("do-it")], &["npx".to_owned()]);
        let kinds: Vec<_> = made.manifest["inbound"]["anyOf"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["properties"]["kind"]["const"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["command", "query"]);
        assert_eq!(made.left_out, ["do-it"]);
        assert_eq!(made.types[0], ("Files.DoIt".to_owned(), "do_it".to_owned()));
    }
}
