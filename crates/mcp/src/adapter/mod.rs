//! An MCP server as a capability: its tools become commands and queries.
//!
//! [`manifest`] asks the server once what it offers. [`run`] is the program of such a capability:
//! it starts the server, reads messages on standard input as any capability does, and translates.
//! The daemon supervises it like any other: if the server ends, so does this.
//!
//! A tool that changes nothing (`readOnlyHint`) is a query, any other a command. `read_file` of a
//! capability with the prefix `Files` is `Files.ReadFile`.

mod lines;
mod manifest;

pub use manifest::{Made, manifest};

use crate::error::McpError;
use lines::{Incoming, Outgoing};
use mainspring_message::{Envelope, Kind};
use rmcp::ClientLifecycleMode;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientConfig, ClientRequest, ErrorCode,
    Implementation, ProgressNotificationParam, ProtocolVersion, RequestMetaObject, ServerResult, Tool,
};
use rmcp::service::{
    ClientServiceExt, NotificationContext, Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

/// How long a server may take to say what it offers. The first start of `npx` downloads things.
const START_MAX: Duration = Duration::from_secs(120);
/// Progress of a call that waits to be passed on; what comes beyond it is dropped.
const PROGRESS_WAITING_MAX: usize = 64;
/// How long a server may take to end when its input has.
const END_MAX: Duration = Duration::from_secs(2);

/// A running server, and our side of the conversation.
struct Server {
    child: Child,
    service: RunningService<RoleClient, Front>,
    tools: Vec<Tool>,
}

/// What the server may tell us: progress.
#[derive(Clone, Default)]
struct Front(Arc<Mutex<HashMap<String, mpsc::Sender<ProgressNotificationParam>>>>);

impl Front {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<ProgressNotificationParam>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for Front {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.protocol_version = ProtocolVersion::V_2025_11_25;
        info.client_info = Implementation::new("mainspring", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if let Some(sender) = self.waiting().get(&told.progress_token.0.to_string()) {
            // A call that has ended takes no more of it; one that is behind misses some.
            let _ = sender.try_send(told);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        eprintln!(
            "the server offers other tools now; write its manifest again with `mainspring new capability --mcp`"
        );
    }
}

impl Server {
    /// Starts a server and asks what it offers. Nearly all know the handshake of the older era; one
    /// that refuses it is started anew and spoken to without.
    async fn start(command: &[String]) -> Result<Server, McpError> {
        let refused = match Server::start_as(command, ClientLifecycleMode::Initialize).await {
            Err(McpError::Server { reason, .. }) => reason,
            started => return started,
        };
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let modern = Server::start_as(command, ClientLifecycleMode::Discover { preferred_versions }).await;
        modern.map_err(|_| McpError::Server { command: command.join(" "), reason: refused })
    }

    async fn start_as(command: &[String], lifecycle: ClientLifecycleMode) -> Result<Server, McpError> {
        let fault = |reason: String| McpError::Server { command: command.join(" "), reason };
        let Some((program, arguments)) = command.split_first() else {
            return Err(McpError::Stream("a command is missing: which MCP server is it?".to_owned()));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| McpError::Stream(format!("{program} cannot be started: {error}")))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fault("has no standard streams".to_owned()));
        };
        let starting = async {
            let service = Front::default()
                .serve_with_lifecycle((output, input), lifecycle)
                .await
                .map_err(|error| fault(format!("does not speak the protocol: {error}")))?;
            let tools = service.peer().list_all_tools().await;
            let tools = tools.map_err(|error| fault(format!("does not list its tools: {error}")))?;
            Ok::<_, McpError>((service, tools))
        };
        let late = |_| {
            McpError::Stream(format!(
                "the MCP server {} has not said what it offers within {} s",
                command.join(" "),
                START_MAX.as_secs()
            ))
        };
        let (service, tools) = tokio::time::timeout(START_MAX, starting).await.map_err(late)??;
        Ok(Server { child, service, tools })
    }

    /// Ends the server as it expects it: its input ends first.
    async fn stop(mut self) {
        let _ = self.service.cancel().await;
        let _ = tokio::time::timeout(END_MAX, self.child.wait()).await;
    }
}

/// Runs the program of a capability whose tools are those of an MCP server, until its input ends.
///
/// # Errors
/// The server does not start, or ended before its time.
pub fn run(command: &[String]) -> Result<(), McpError> {
    let runtime = crate::runtime()?;
    let ended = runtime.block_on(serve(command));
    runtime.shutdown_background();
    ended
}

async fn serve(command: &[String]) -> Result<(), McpError> {
    let (mut incoming, outgoing) = (Incoming::new(), Outgoing::new());
    let mut server = Server::start(command).await?;
    let course = Arc::new(Course {
        peer: server.service.peer().clone(),
        front: server.service.service().clone(),
        tools: server.tools.iter().map(|tool| (manifest::segment(&tool.name), tool.clone())).collect(),
        outgoing: outgoing.clone(),
        calls: Mutex::default(),
    });
    let mut calls = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            message = incoming.next() => match message? {
                None => break,
                Some(message) => course.take(message, &mut calls),
            },
            status = server.child.wait() => {
                let words = status.map_or_else(|error| error.to_string(), |status| format!("ended by itself ({status})"));
                return Err(McpError::Server { command: command.join(" "), reason: words });
            }
            Some(_) = calls.join_next() => {}
        }
    }
    while calls.join_next().await.is_some() {}
    server.stop().await;
    outgoing.finish().await
}

/// What the calls share.
struct Course {
    peer: Peer<RoleClient>,
    front: Front,
    /// Tools by the last segment of their type.
    tools: HashMap<String, Tool>,
    outgoing: Outgoing,
    /// What cancels a call, by the id of its request.
    calls: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

impl Course {
    fn calls(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>, message: Envelope, tasks: &mut tokio::task::JoinSet<()>) {
        match message.kind() {
            Kind::Command | Kind::Query => {
                let (sender, cancelled) = oneshot::channel();
                self.calls().insert(message.id().to_owned(), sender);
                let course = Arc::clone(self);
                tasks.spawn(async move {
                    course.call(&message, cancelled).await;
                    course.calls().remove(message.id());
                });
            }
            Kind::Event if message.type_name() == "Sys.RequestCancelled" => {
                if let Some(sender) = message.causation().and_then(|id| self.calls().remove(id)) {
                    // One that has just ended needs no cancel.
                    let _ = sender.send(());
                }
            }
            _ => {}
        }
    }

    async fn call(&self, request: &Envelope, cancelled: oneshot::Receiver<()>) {
        let last = request.type_name().rsplit('.').next().unwrap_or_default();
        let Some(tool) = self.tools.get(last) else {
            let words = format!("the server has no tool for {}", request.type_name());
            return self.outgoing.error(request, 404, &words);
        };
        let data: Value = serde_json::from_str(request.data()).unwrap_or_default();
        let mut parameters = CallToolRequestParams::new(tool.name.clone());
        parameters.arguments = data.as_object().cloned();
        match self.outcome(request, parameters, cancelled).await {
            Ok(result) => self.answer(request, tool, result),
            Err((code, words)) => self.outgoing.error(request, code, &words),
        }
    }

    async fn outcome(
        &self,
        request: &Envelope,
        parameters: CallToolRequestParams,
        mut cancelled: oneshot::Receiver<()>,
    ) -> Result<CallToolResult, (u16, String)> {
        let call = ClientRequest::CallToolRequest(CallToolRequest::new(parameters));
        let mut options = PeerRequestOptions::no_options();
        options.meta = Some(trace_context(request));
        let mut handle = self.peer.send_cancellable_request(call, options).await.map_err(failed)?;
        let token = handle.progress_token.0.to_string();
        let (sender, mut progress) = mpsc::channel(PROGRESS_WAITING_MAX);
        self.front.waiting().insert(token.clone(), sender);
        let outcome = loop {
            tokio::select! {
                // Progress is told before the outcome that came behind it.
                biased;
                Some(told) = progress.recv() => self.outgoing.progress(request, &told),
                response = &mut handle.rx => break response.unwrap_or(Err(ServiceError::TransportClosed)).map_err(failed),
                // Without a sender nobody can cancel any more.
                Ok(()) = &mut cancelled => {
                    let _ = handle.cancel(Some("cancelled by whoever asked".to_owned())).await;
                    break Err((499, "cancelled".to_owned()));
                }
            }
        };
        // The library hands progress to a task of its own, which may not have had its turn yet.
        tokio::task::yield_now().await;
        self.front.waiting().remove(&token);
        while let Ok(told) = progress.try_recv() {
            self.outgoing.progress(request, &told);
        }
        match outcome? {
            ServerResult::CallToolResult(result) => Ok(result),
            _ => {
                Err((501, "the server wants more than arguments, which a capability cannot give".to_owned()))
            }
        }
    }

    /// A tool with a schema of its result replies with that; any other with its blocks.
    fn answer(&self, request: &Envelope, tool: &Tool, result: CallToolResult) {
        if result.is_error == Some(true) {
            return self.outgoing.error(request, 500, &words(&result));
        }
        let data = match (tool.output_schema.is_some(), result.structured_content) {
            (true, Some(structured)) => structured,
            _ => json!({ "content": result.content }),
        };
        self.outgoing.reply(request, data);
    }
}

/// The texts of a result.
fn words(result: &CallToolResult) -> String {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    if texts.is_empty() { "the tool failed, and does not say why".to_owned() } else { texts.join("\n") }
}

fn failed(error: ServiceError) -> (u16, String) {
    match error {
        ServiceError::McpError(error) => {
            let code = match error.code {
                ErrorCode::INVALID_PARAMS => 422,
                ErrorCode::METHOD_NOT_FOUND => 404,
                _ => 502,
            };
            (code, error.message.into_owned())
        }
        other => (502, format!("the server does not answer: {other}")),
    }
}

/// Trace context has the same names in the metadata of messages.
fn trace_context(request: &Envelope) -> RequestMetaObject {
    let metadata: Value = serde_json::from_str(request.metadata()).unwrap_or_default();
    let mut meta = RequestMetaObject::new();
    for name in ["traceparent", "tracestate", "baggage"] {
        if let Some(value) = metadata[name].as_str() {
            meta.0.0.insert(name.to_owned(), json!(value));
        }
    }
    meta
}
