//! One client of the protocol: what it is told, and where its requests go.

use super::{Shared, meta, resources};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, Implementation, ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use std::sync::Arc;

/// How long a list may be treated as fresh. Who listens is told of changes at once.
const FRESH_MS: u64 = 5_000;

/// A client of the bridge. By HTTP there is one per request, or per session of the older era.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(super) shared: Arc<Shared>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Session {
        Session { shared }
    }

    fn tools(&self) -> Vec<Tool> {
        let catalogue = self.shared.catalogue();
        let mut tools: Vec<Tool> = if self.shared.is_searched() {
            meta::searching_tools()
        } else {
            catalogue.handlers.values().map(|handler| handler.tool.clone()).collect()
        };
        tools.extend(catalogue.operator.values().map(|handler| handler.tool.clone()));
        tools.push(meta::waiting_tool());
        tools
    }

    /// What a model should know before it begins.
    fn instructions(&self) -> String {
        let how = if self.shared.is_searched() {
            "There are many capabilities: find one with search_capabilities, read its schema with describe_capability, then use call_capability."
        } else {
            "Each tool is one command or query of a capability, named by its type with _ for the dots."
        };
        format!(
            "These tools are the capabilities of a Mainspring daemon. {how} Queries change nothing; commands may. Every call ends in one result or one error; an error says what was wrong with the data, and whether the capability had started, so whether it is safe to call again.\n\n\
             Capabilities also tell events. wait_for_event waits for the next ones of some types; mainspring://events/{{pattern}} has the latest of them, once it was read or waited for. Call with the same _meta \"mainspring/id\" again to be sure that a command is done once."
        )
    }
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
        let mut info = ServerConfig::new(capabilities).with_instructions(self.instructions());
        info.server_info = Implementation::new("mainspring", self.shared.settings.version.clone());
        info.server_info.title = Some("Mainspring".to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = ListToolsResult::with_all_items(self.tools());
        Ok(listed.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        if let Some(result) = self.call_own(&request.name, &arguments, &context).await {
            return result.map(Into::into);
        }
        let catalogue = self.shared.catalogue();
        let Some(handler) = catalogue.find(&request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        };
        Ok(self.call(handler, arguments, &context).await.into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = ListResourcesResult::with_all_items(resources::list(&self.shared).await);
        Ok(listed.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let listed = ListResourceTemplatesResult::with_all_items(resources::templates());
        Ok(listed.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&self.shared, &request.uri).await.map(Into::into)
    }

    // Nothing of the kind is offered, and an empty list would say that it is.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.tools_list_changed = requested.tools_list_changed;
        accepted.resources_list_changed = requested.resources_list_changed;
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
            }
            let (accepted, sink) = (context.accepted(), context.sink());
            if accepted.tools_list_changed == Some(true) && sink.notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
            if accepted.resources_list_changed == Some(true)
                && sink.notify_resource_list_changed().await.is_err()
            {
                return Ok(());
            }
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // A client of the older era is told without asking, for as long as it is there.
        let mut changes = self.shared.changes.subscribe();
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let told = context.peer.notify_tool_list_changed().await;
                if told.is_err() || context.peer.notify_resource_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }
}
