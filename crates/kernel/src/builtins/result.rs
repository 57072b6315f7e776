//! `Sys.Result`: what became of a command, for a client that comes back.

use super::{Answer, Caller, read};
use crate::flow::refusal::Refusal;
use crate::kernel::{Kernel, with_verbatim};
use crate::requests::{Found, RequestKey};
use mainspring_message::{Envelope, Failure};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultData {
    id: String,
}

impl Kernel {
    pub(super) fn result_of(&mut self, request: &Envelope, caller: Caller, key: RequestKey) -> Answer {
        let ResultData { id } = read(request)?;
        let found = self.requests.find(caller.peer, self.out.hash_id(&id), &id, &self.out);
        match found {
            Some((found, Found::Unfinished(attempts))) if found != key => {
                let state = if attempts > 0 { "delivered" } else { "waiting" };
                Ok(json!({ "id": id, "state": state, "attempts": attempts }).to_string())
            }
            Some((_, Found::Ended(Some(answer)))) => {
                let told = json!({ "id": id, "state": "ended" });
                Ok(with_verbatim(&told, "outcome", answer.line()))
            }
            Some((_, Found::Ended(None))) => {
                Ok(json!({ "id": id, "state": "ended", "outcome": null }).to_string())
            }
            // The question itself is a request of that peer, too.
            _ => {
                let text = format!("data.id: no command with the id {id:?} of this peer is known");
                Err(Refusal::new(Failure::Routing, text))
            }
        }
    }
}
