//! `Sys.NodeTrace`: what another node remembers of a request that was passed on to it. Whoever
//! passed it on knows which node that is.

use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::builtins::{Caller, read};
use crate::flow::completions::Words;
use crate::flow::refusal::Refusal;
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use mainspring_message::{Envelope, Failure, Json, Started};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTraceData {
    id: String,
    peer: Option<String>,
}

impl Kernel {
    /// Has the trace of a request fetched from the node that had it; answered by
    /// [`Kernel::node_trace_fetched`].
    pub(in crate::builtins) fn ask_for_node_trace(
        &mut self,
        key: RequestKey,
        request: &Envelope,
        caller: Caller,
    ) -> Result<(), Refusal> {
        let data: NodeTraceData = read(request)?;
        let own = self.peer_name(caller.peer).unwrap_or_default();
        let peer = data.peer.unwrap_or_else(|| own.clone());
        if peer != own && !self.is_operator(caller.recipient) {
            let text = "data.peer: what others sent is for operators";
            return Err(Refusal::new(Failure::Forbidden, text));
        }
        self.requests.enter_outside(key);
        let requests = &self.requests;
        let ticket = self.chores.wait_outside(key, |key| requests.message(key).is_none());
        self.out.push(Effect::FetchNodeTrace { ticket, peer, id: data.id });
        Ok(())
    }

    /// Answers [`Effect::FetchNodeTrace`]: with the data of the reply, or why there is none.
    pub fn node_trace_fetched(&mut self, ticket: u64, result: Result<Json, String>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.node_trace_fetched(ticket, &result));
        let Some(key) = self.chores.take_outside(ticket) else { return };
        let Some(request) = self.requests.message(key).cloned() else { return };
        match result {
            Ok(trace) => self.answer_builtin(key, &request, trace.as_str()),
            Err(reason) => {
                let answer = self.out.failure(&request, Failure::Routing, &reason, Started::No);
                self.finish(key, answer, false, Words::OfHandler);
            }
        }
    }
}
