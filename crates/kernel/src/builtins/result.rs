//! `Sys.Result`: what became of a command, for a client that comes back.

use super::{Answer, Caller, read};
use crate::flow::refusal::{Refusal, is_reserved};
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

/// Of the data of an error, which type it is about.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorAbout {
    original_type: Option<String>,
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
                self.check_answer(&answer, caller)?;
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

    /// Whether whoever asks may see an answer: one of its types, or an error about one of them.
    fn check_answer(&self, answer: &Envelope, caller: Caller) -> Result<(), Refusal> {
        let about: ErrorAbout = match is_reserved(answer.type_name()) {
            true => answer.data_as().unwrap_or_default(),
            false => ErrorAbout { original_type: Some(answer.type_name().to_owned()) },
        };
        match about.original_type.filter(|name| !is_reserved(name)) {
            Some(name) => self.check_seen(&name, caller.recipient),
            None => Ok(()),
        }
    }
}
