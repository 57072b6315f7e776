//! The bridge's own tools: waiting for events; and searching, describing and calling, in the place
//! of a list that is too long.

use super::call::failed;
use super::events::WAIT_MAX;
use super::session::Session;
use crate::schema::Object;
use mainspring_client::{Kind, Request};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const WAIT: &str = "wait_for_event";
const SEARCH: &str = "search_capabilities";
const DESCRIBE: &str = "describe_capability";
const CALL: &str = "call_capability";

/// Whether a tool of the bridge itself has this name.
pub(crate) fn is_own_tool(name: &str) -> bool {
    [WAIT, SEARCH, DESCRIBE, CALL].contains(&name)
}

fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    schema: Value,
    is_read_only: bool,
) -> Tool {
    let schema = schema.as_object().cloned().unwrap_or_default();
    let hints =
        ToolAnnotations::new().read_only(is_read_only).destructive(!is_read_only).open_world(!is_read_only);
    let hints = if is_read_only { hints.idempotent(true) } else { hints };
    Tool::new(name, description, Arc::new(schema)).with_title(title).with_annotations(hints)
}

pub(super) fn waiting_tool() -> Tool {
    tool(
        WAIT,
        "Wait for events",
        "Waits for the next events of some types, and returns them. Types are exact (Order.Shipped), everything below a name (Order.*), or * for all.",
        json!({
            "type": "object",
            "properties": {
                "types": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 100 },
                "timeout_ms": { "type": "integer", "minimum": 1, "maximum": WAIT_MAX.as_millis() as u64, "description": "How long to wait at most; 30000 if it is not said." },
                "count": { "type": "integer", "minimum": 1, "maximum": 100, "description": "How many events to wait for; 1 if it is not said." },
            },
            "required": ["types"],
        }),
        true,
    )
}

pub(super) fn searching_tools() -> Vec<Tool> {
    vec![
        tool(
            SEARCH,
            "Search capabilities",
            "Finds commands and queries by what they do, in words. Then read the schema of one with describe_capability.",
            json!({
                "type": "object",
                "properties": {
                    "text": { "type": "string", "minLength": 1, "description": "What should be done, in words." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
                },
                "required": ["text"],
            }),
            true,
        ),
        tool(
            DESCRIBE,
            "Describe a capability",
            "Shows what a command or query does, and the schemas of its data and of its reply.",
            json!({ "type": "object", "properties": { "type": { "type": "string" } }, "required": ["type"] }),
            true,
        ),
        tool(
            CALL,
            "Call a capability",
            "Sends a command or query, with data as its schema says, and returns the reply.",
            json!({
                "type": "object",
                "properties": {
                    "type": { "type": "string", "description": "The type, as search_capabilities shows it." },
                    "kind": { "enum": ["command", "query"], "description": "Which of the two, if the type is both." },
                    "data": { "description": "The data, as describe_capability shows it." },
                },
                "required": ["type"],
            }),
            false,
        ),
    ]
}

#[derive(Deserialize)]
struct Wait {
    types: Vec<String>,
    timeout_ms: Option<u64>,
    count: Option<usize>,
}

#[derive(Deserialize)]
struct Search {
    text: String,
    limit: Option<u32>,
}

#[derive(Deserialize)]
struct Describe {
    #[serde(rename = "type")]
    type_name: String,
}

#[derive(Deserialize)]
struct Call {
    #[serde(rename = "type")]
    type_name: String,
    kind: Option<String>,
    #[serde(default)]
    data: Value,
}

fn arguments<T: DeserializeOwned>(arguments: &Object) -> Result<T, CallToolResult> {
    serde_json::from_value(Value::Object(arguments.clone())).map_err(|error| {
        CallToolResult::error(vec![rmcp::model::ContentBlock::text(format!(
            "the arguments do not fit: {error}"
        ))])
    })
}

impl Session {
    /// Calls a tool of the bridge itself; `None` if it is none of those.
    pub(super) async fn call_own(
        &self,
        name: &str,
        given: &Object,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResult, ErrorData>> {
        let called = match name {
            WAIT => self.wait_for_event(given, context).await,
            SEARCH | DESCRIBE | CALL if !self.shared.is_searched() => return None,
            SEARCH => self.search(given).await,
            DESCRIBE => self.describe(given).await,
            CALL => self.call_type(given, context).await,
            _ => return None,
        };
        Some(Ok(called.unwrap_or_else(|refused| refused)))
    }

    async fn wait_for_event(
        &self,
        given: &Object,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, CallToolResult> {
        let wait: Wait = arguments(given)?;
        let limit = Duration::from_millis(wait.timeout_ms.unwrap_or(30_000)).min(WAIT_MAX);
        let waiting = self.shared.events.wait(&wait.types, wait.count.unwrap_or(1).clamp(1, 100), limit);
        let (events, missing) = tokio::select! {
            found = waiting => found.map_err(|error| failed(&error))?,
            () = context.ct.cancelled() => return Err(failed(&mainspring_client::Error::Cancelled)),
        };
        Ok(CallToolResult::structured(json!({ "events": events, "missing": missing })))
    }

    async fn search(&self, given: &Object) -> Result<CallToolResult, CallToolResult> {
        let search: Search = arguments(given)?;
        let wanted = json!({ "text": search.text, "limit": search.limit.unwrap_or(10).clamp(1, 100) });
        let reply =
            self.shared.client.query("Syscall.Search", &wanted).await.map_err(|error| failed(&error))?;
        let mut found: Value = reply.data().map_err(|error| failed(&error))?;
        // What the loop serves itself has operators' tools, or none.
        let catalogue = self.shared.catalogue();
        if let Some(types) = found["types"].as_array_mut() {
            types.retain(|one| {
                one["type"].as_str().is_some_and(|name| catalogue.of_type(name, None).is_some())
            });
        }
        Ok(CallToolResult::structured(json!({ "types": found["types"] })))
    }

    async fn describe(&self, given: &Object) -> Result<CallToolResult, CallToolResult> {
        let describe: Describe = arguments(given)?;
        let wanted = json!({ "type": describe.type_name });
        let reply =
            self.shared.client.query("Syscall.Describe", &wanted).await.map_err(|error| failed(&error))?;
        let mut found: Value = reply.data().map_err(|error| failed(&error))?;
        for handler in found["handlers"].as_array_mut().into_iter().flatten() {
            if let Some(handler) = handler.as_object_mut() {
                // The envelope is made here.
                handler.remove("message");
            }
        }
        Ok(CallToolResult::structured(found))
    }

    async fn call_type(
        &self,
        given: &Object,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, CallToolResult> {
        let call: Call = arguments(given)?;
        let catalogue = self.shared.catalogue();
        let Some(handler) =
            catalogue.of_type(&call.type_name, call.kind.as_deref().and_then(Kind::from_wire))
        else {
            let words = format!("there is no {}; find one with {SEARCH}", call.type_name);
            return Err(CallToolResult::error(vec![rmcp::model::ContentBlock::text(words)]));
        };
        let data = if call.data.is_null() && !handler.wraps_input { json!({}) } else { call.data };
        let request = self.request(Request::new(handler.kind, &handler.type_name, &data), context);
        let reply = self.outcome(&request, context).await.map_err(|error| failed(&error))?;
        Ok(super::call::result(&reply, handler))
    }
}
