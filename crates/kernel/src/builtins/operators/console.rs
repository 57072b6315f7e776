//! `Sys.Console`: an address that opens the console. The daemon knows where that is, and who may
//! have it.

use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::builtins::{Caller, client, read};
use crate::flow::completions::Words;
use crate::flow::refusal::Refusal;
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use mainspring_message::{Envelope, Failure, Json, Started};
use serde_json::{Map, Value};

/// Why there is no console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsoleRefused {
    /// Nothing serves it, for this reason.
    Nowhere(String),
    /// It is not for this peer.
    Stranger(String),
}

impl Kernel {
    /// Has the daemon make an address for the peer that asks; answered by
    /// [`Kernel::console_opened`].
    pub(in crate::builtins) fn ask_for_console(
        &mut self,
        key: RequestKey,
        request: &Envelope,
        caller: Caller,
    ) -> Result<(), Refusal> {
        let connection = client(caller)?;
        if self.connections.rights(connection).is_some_and(|rights| rights.leaves_types_out()) {
            // A console has all rights of its peer: whoever gave some up must not get them back.
            let text = "this connection may not send everything, so it may not open a console, which may";
            return Err(Refusal::new(Failure::Forbidden, text));
        }
        let _: Map<String, Value> = read(request)?;
        let peer = self.peer_name(caller.peer).unwrap_or_default();
        self.requests.enter_outside(key);
        let requests = &self.requests;
        let ticket = self.chores.wait_outside(key, |key| requests.message(key).is_none());
        self.out.push(Effect::OpenConsole { ticket, peer });
        Ok(())
    }

    /// Answers [`Effect::OpenConsole`]: with the data of the reply, or why there is none.
    pub fn console_opened(&mut self, ticket: u64, result: Result<Json, ConsoleRefused>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.console_opened(ticket, &result));
        let Some(key) = self.chores.take_outside(ticket) else { return };
        let Some(request) = self.requests.message(key).cloned() else { return };
        let (failure, text) = match result {
            Ok(address) => return self.answer_builtin(key, &request, address.as_str()),
            Err(ConsoleRefused::Nowhere(reason)) => (Failure::Routing, reason),
            Err(ConsoleRefused::Stranger(reason)) => (Failure::Forbidden, reason),
        };
        let answer = self.out.failure(&request, failure, &text, Started::No);
        self.finish(key, answer, false, Words::OfHandler);
    }
}
