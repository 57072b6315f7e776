//! A call of a tool as a request to the daemon.

use super::session::Session;
use crate::catalogue::Handler;
use crate::schema::Object;
use mainspring_client::{Envelope, Error, Reply, Request, Started};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

/// The members of `_meta` that are ours.
const META_ID: &str = "mainspring/id";
const META_CORRELATION: &str = "mainspring/correlation";
/// Trace context, which travels in the metadata of messages under the same names.
const TRACE_KEYS: [&str; 3] = ["traceparent", "tracestate", "baggage"];
/// The longest piece of a client's name in a correlation.
const CLIENT_CHARACTERS_MAX: usize = 40;

impl Session {
    /// Calls a capability.
    pub(super) async fn call(
        &self,
        handler: &Handler,
        arguments: Object,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let data = match handler.wraps_input {
            true => arguments.get("value").cloned().unwrap_or_default(),
            false => Value::Object(arguments),
        };
        let request = self.request(Request::new(handler.kind, &handler.type_name, &data), context);
        match self.outcome(&request, context).await {
            Ok(reply) => result(&reply, handler),
            Err(error) => failed(&error),
        }
    }

    /// Adds what the client says beside the arguments.
    pub(super) fn request(&self, request: Request, context: &RequestContext<RoleServer>) -> Request {
        let text = |name: &str| context.meta.0.0.get(name).and_then(Value::as_str);
        let mut request = request
            .correlation(text(META_CORRELATION).map_or_else(|| self.correlation(context), str::to_owned));
        if let Some(id) = text(META_ID) {
            request = request.id(id);
        }
        for name in TRACE_KEYS {
            if let Some(value) = text(name) {
                request = request.metadata(name, value);
            }
        }
        if context.meta.get_progress_token().is_some() { request.progress() } else { request }
    }

    /// One for each client of this process.
    fn correlation(&self, context: &RequestContext<RoleServer>) -> String {
        let name: String = context
            .client_info()
            .map(|client| client.name)
            .unwrap_or_default()
            .chars()
            .filter(|character| character.is_ascii_alphanumeric() || "-_.".contains(*character))
            .take(CLIENT_CHARACTERS_MAX)
            .collect();
        let own = &self.shared.correlation;
        if name.is_empty() { own.clone() } else { format!("{own}-{name}") }
    }

    /// Waits for the outcome, and passes progress on. A client that cancels, or goes, cancels the
    /// request.
    pub(super) async fn outcome(
        &self,
        request: &Request,
        context: &RequestContext<RoleServer>,
    ) -> Result<Reply, Error> {
        let mut running = self.shared.client.start(request).await?;
        let canceller = running.canceller();
        let work = async {
            if let Some(token) = context.meta.get_progress_token() {
                let mut count = 0.0;
                while let Some(event) = running.next_progress().await {
                    count += 1.0;
                    // A client that does not take it has gone, which the token tells.
                    let _ = context.peer.notify_progress(progress(&token, &event, count)).await;
                }
            }
            running.wait().await
        };
        tokio::select! {
            outcome = work => outcome,
            () = context.ct.cancelled() => {
                canceller.cancel();
                Err(Error::Cancelled)
            }
        }
    }
}

/// What a progress event says; without numbers of its own, events are counted.
fn progress(token: &ProgressToken, event: &Envelope, count: f64) -> ProgressNotificationParam {
    let data: Value = serde_json::from_str(event.data()).unwrap_or_default();
    let number = |names: &[&str]| names.iter().find_map(|name| data[name].as_f64());
    let mut told =
        ProgressNotificationParam::new(token.clone(), number(&["done", "step", "progress"]).unwrap_or(count));
    if let Some(total) = number(&["total", "of"]) {
        told = told.with_total(total);
    }
    if let Some(words) = data["message"].as_str() {
        told = told.with_message(words);
    }
    told
}

/// The result of a reply.
pub(super) fn result(reply: &Reply, handler: &Handler) -> CallToolResult {
    let data: Value = serde_json::from_str(reply.text()).unwrap_or_default();
    let blocks = blocks(&data);
    let structured = match handler.wraps_output {
        true => Some(json!({ "result": data })),
        false if blocks.is_some() && handler.tool.output_schema.is_none() => None,
        false => Some(data.clone()).filter(Value::is_object),
    };
    let text = || data.as_str().map_or_else(|| reply.text().to_owned(), str::to_owned);
    let mut result = CallToolResult::success(blocks.unwrap_or_else(|| vec![ContentBlock::text(text())]));
    result.structured_content = structured;
    result
}

/// The protocol's own blocks (text, images, sound, resources), if the data has a member `content`
/// of them.
fn blocks(data: &Value) -> Option<Vec<ContentBlock>> {
    let blocks = data.get("content")?.as_array().filter(|blocks| !blocks.is_empty())?;
    blocks.iter().map(|block| serde_json::from_value(block.clone()).ok()).collect()
}

/// The result of a request that was not done: in words that a model can act on.
pub(super) fn failed(error: &Error) -> CallToolResult {
    let mut words = error.to_string();
    let is_hopeful = error.code().is_none_or(|code| code == 429 || code >= 500);
    match error.started() {
        Some(Started::No) if is_hopeful => {
            words.push_str("; it had not been started, so calling it again is safe")
        }
        Some(Started::Yes) => words.push_str("; it had been started, so some of it may be done"),
        _ => {}
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(words)]);
    if let Some(code) = error.code() {
        let mut meta = MetaObject::new();
        meta.0.insert("mainspring/code".to_owned(), json!(code));
        if let Error::Outcome(outcome) = error {
            meta.0.insert("mainspring/type".to_owned(), json!(outcome.type_name));
        }
        result.meta = Some(meta);
    }
    result
}
