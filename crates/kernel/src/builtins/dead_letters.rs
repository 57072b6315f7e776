//! `Sys.DeadLetters`: list, show, requeue, drop.

use super::chores::{Slice, Task};
use super::{Answer, Caller, Served, Whole, append, read};
use crate::api::ids::Now;
use crate::flow::ingest::Refusal;
use crate::flow::work;
use crate::kernel::Kernel;
use crate::records::dead_letters::DeadLetter;
use crate::requests::Delegate;
use crate::shared::with_verbatim;
use mainspring_message::{Draft, Envelope, Failure, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

/// Letters in one answer unless the request says otherwise.
const LIST_LIMIT: usize = 100;
/// Letters in one answer at most.
const LIST_LIMIT_MAX: u64 = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    List,
    Show,
    Requeue,
    Drop,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeadLettersData {
    #[serde(default)]
    action: Action,
    number: Option<Whole>,
    #[serde(default)]
    after: Whole,
    limit: Option<Whole>,
}

fn headline(letter: &DeadLetter) -> Value {
    json!({
        "number": letter.number,
        "timestamp": letter.unix_ms,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "kind": letter.message.kind().as_str(),
        "type": letter.message.type_name(),
        "id": letter.message.id(),
    })
}

/// The list as far as it was made.
#[derive(Debug)]
pub(crate) struct ListLetters {
    /// Letters up to this number are not asked for, or in the list already.
    after: u64,
    /// How many more may follow.
    left: usize,
    text: String,
}

impl ListLetters {
    fn of(data: &DeadLettersData) -> ListLetters {
        let left = data.limit.map_or(LIST_LIMIT, |Whole(limit)| limit.clamp(1, LIST_LIMIT_MAX) as usize);
        ListLetters { after: data.after.0, left, text: String::new() }
    }

    pub(super) fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
        for letter in kernel.dead.after(self.after).take(self.left) {
            if slice.is_over() {
                return None;
            }
            self.after = letter.number;
            self.left -= 1;
            append(&mut self.text, &headline(letter));
            slice.spend(work::ITEM + 2 * letter.reason.len() as u64);
        }
        let (letters, total, dropped) = (&self.text, kernel.dead.len(), kernel.dead.dropped);
        Some(Ok(format!("{{\"letters\":[{letters}],\"total\":{total},\"dropped\":{dropped}}}")))
    }
}

impl Kernel {
    pub(super) fn serve_dead_letters(
        &mut self,
        request: &Envelope,
        caller: Caller,
        now: Now,
    ) -> Result<Served, Refusal> {
        let data: DeadLettersData = read(request)?;
        if matches!(data.action, Action::Requeue | Action::Drop) && request.kind() == Kind::Query {
            let text = "kind: a query changes nothing; send requeue and drop as a command";
            return Err(Refusal::new(Failure::Schema, text));
        }
        let answer = match (data.action, data.number) {
            (Action::List, _) => return Ok(Served::In(Task::DeadLetters(ListLetters::of(&data)))),
            (Action::Drop, None) => Ok(json!({ "dropped": self.dead.clear() }).to_string()),
            (_, None) => Err(Refusal::new(Failure::Schema, "data.number: is missing")),
            (action, Some(Whole(number))) => {
                let Some(letter) = self.dead.get(number).cloned() else {
                    let text = format!("data.number: there is no dead letter {number}");
                    return Err(Refusal::new(Failure::Routing, text));
                };
                match action {
                    Action::Show | Action::List => Ok(show(&letter)),
                    Action::Requeue => self.requeue(&letter, request, caller, now),
                    Action::Drop => {
                        self.dead.take(number);
                        Ok(json!({ "dropped": 1 }).to_string())
                    }
                }
            }
        };
        answer.map(Served::AtOnce)
    }

    /// Puts a message back under a fresh id, caused by the request that does so.
    fn requeue(&mut self, letter: &DeadLetter, request: &Envelope, caller: Caller, now: Now) -> Answer {
        let dead = &letter.message;
        if dead.kind().is_outcome() {
            let text = "data.number: an outcome has nowhere to go; show or drop it";
            return Err(Refusal::new(Failure::Schema, text));
        }
        let mut draft = Draft::caused_by(request, dead.kind(), dead.type_text(), dead.data_json());
        draft.correlation = dead.correlation_text().or(draft.correlation);
        draft.timeout_ms = dead.timeout_ms();
        let message = self.compose(&draft, now);
        if dead.kind().is_request() {
            self.route_request(&message)?;
        }
        self.dead.take(letter.number);
        let id = message.id().to_owned();
        let delegate = Delegate { to: caller.recipient, timer_id: None };
        self.send_for(message, caller.peer, self.loop_queue, delegate, now);
        Ok(json!({ "requeued": letter.number, "id": id }).to_string())
    }
}

fn show(letter: &DeadLetter) -> String {
    with_verbatim(&headline(letter), "message", letter.message.line())
}
