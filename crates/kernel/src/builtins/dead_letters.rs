//! `Sys.DeadLetters`: list, show, requeue, drop.

use super::chores::{Slice, Task};
use super::{Answer, Caller, Served, Whole, append, read};
use crate::dead_letters::{DeadLetters, LetterChange};
use crate::flow::refusal::Refusal;
use crate::flow::work;
use crate::kernel::{Kernel, with_verbatim};
use crate::requests::Delegate;
use mainspring_message::{Draft, Envelope, Failure, Kind};
use serde::Deserialize;
use serde_json::json;

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

    pub(super) fn step(&mut self, dead: &DeadLetters, slice: &mut Slice) -> Option<Answer> {
        for (number, letter) in dead.after(self.after).take(self.left) {
            if slice.is_over() {
                return None;
            }
            self.after = number;
            self.left -= 1;
            let before = self.text.len();
            append(&mut self.text, &letter.headline());
            slice.spend(work::ITEM + 2 * (self.text.len() - before) as u64);
        }
        let (letters, total, dropped) = (&self.text, dead.len(), dead.dropped());
        Some(Ok(format!("{{\"letters\":[{letters}],\"total\":{total},\"dropped\":{dropped}}}")))
    }
}

impl Kernel {
    pub(super) fn serve_dead_letters(
        &mut self,
        request: &Envelope,
        caller: Caller,
    ) -> Result<Served, Refusal> {
        let data: DeadLettersData = read(request)?;
        if matches!(data.action, Action::Requeue | Action::Drop) && request.kind() == Kind::Query {
            let text = "kind: a query changes nothing; send requeue and drop as a command";
            return Err(Refusal::new(Failure::Schema, text));
        }
        let answer = match (data.action, data.number) {
            (Action::List, _) => return Ok(Served::In(Task::DeadLetters(ListLetters::of(&data)))),
            (Action::Drop, None) => {
                if let Some((first, last)) = self.dead_letters.range() {
                    self.dead_letters.note(LetterChange::Dropped(first, last), &self.out);
                }
                Ok(json!({ "dropped": self.dead_letters.clear() }).to_string())
            }
            (_, None) => Err(Refusal::new(Failure::Schema, "data.number: is missing")),
            (action, Some(Whole(number))) => {
                let Some(letter) = self.dead_letters.get(number).cloned() else {
                    let text = format!("data.number: there is no dead letter {number}");
                    return Err(Refusal::new(Failure::Routing, text));
                };
                match action {
                    Action::Show | Action::List => {
                        Ok(with_verbatim(&letter.headline(), "message", letter.message().line()))
                    }
                    Action::Requeue => self.requeue(number, letter.message(), request, caller),
                    Action::Drop => {
                        self.dead_letters.take(number);
                        self.dead_letters.note(LetterChange::Dropped(number, number), &self.out);
                        Ok(json!({ "dropped": 1 }).to_string())
                    }
                }
            }
        };
        answer.map(Served::AtOnce)
    }

    /// Puts a message back under a fresh id, caused by the request that does so.
    fn requeue(&mut self, number: u64, dead: &Envelope, request: &Envelope, caller: Caller) -> Answer {
        if dead.kind().is_outcome() {
            let text = "data.number: an outcome has nowhere to go; show or drop it";
            return Err(Refusal::new(Failure::Schema, text));
        }
        let mut draft = Draft::caused_by(request, dead.kind(), dead.type_text(), dead.data_json());
        draft.correlation = dead.correlation_text().or(draft.correlation);
        draft.timeout_ms = dead.timeout_ms();
        let message = self.out.compose(&draft);
        if dead.kind().is_request() {
            self.routes.find(&message)?;
        }
        self.dead_letters.take(number);
        self.dead_letters.note(LetterChange::Requeued(number), &self.out);
        let id = message.id().to_owned();
        let delegate = Delegate { to: caller.recipient, timer_id: None };
        self.send_for(message, caller.peer, self.lanes.own_queue(), delegate);
        Ok(json!({ "requeued": number, "id": id }).to_string())
    }
}
