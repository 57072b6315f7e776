//! `Sys.DeadLetters`: list, show, requeue, drop.

use crate::api::rights::covers;
use crate::builtins::chores::{Slice, Task};
use crate::builtins::{Answer, Caller, Served, Whole, append, read};
use crate::dead_letters::{DeadLetter, LetterChange, Owner};
use crate::egress::check_pattern;
use crate::flow::refusal::Refusal;
use crate::flow::routes::Handler;
use crate::flow::work;
use crate::kernel::{Kernel, with_verbatim};
use crate::requests::{Delegate, Recipient};
use mainspring_message::{Draft, Envelope, Failure, Json, Kind};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeadLettersData<'a> {
    #[serde(default)]
    action: Action,
    number: Option<Whole>,
    #[serde(default)]
    after: Whole,
    limit: Option<Whole>,
    #[serde(default)]
    all: bool,
    #[serde(rename = "type")]
    type_name: Option<String>,
    capability: Option<String>,
    reason: Option<String>,
    older_than_ms: Option<Whole>,
    younger_than_ms: Option<Whole>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Which letters are meant.
#[derive(Debug, Default)]
pub(crate) struct LetterFilter {
    /// Whose view it is, if that one may not see every type.
    limited: Option<Recipient>,
    type_name: Option<String>,
    capability: Option<String>,
    /// In small letters.
    reason: Option<String>,
    /// Buried before and after these times.
    before_ms: Option<u64>,
    since_ms: Option<u64>,
}

impl LetterFilter {
    fn of(
        data: &DeadLettersData<'_>,
        limited: Option<Recipient>,
        now_ms: u64,
    ) -> Result<LetterFilter, Refusal> {
        if let Some(pattern) = &data.type_name {
            check_pattern(pattern).map_err(|reason| {
                Refusal::new(Failure::Schema, format!("data.type: {pattern:?}: {reason}"))
            })?;
        }
        Ok(LetterFilter {
            limited,
            type_name: data.type_name.clone(),
            capability: data.capability.clone(),
            reason: data.reason.as_ref().map(|words| words.to_lowercase()),
            before_ms: data.older_than_ms.map(|Whole(ms)| now_ms.saturating_sub(ms)),
            since_ms: data.younger_than_ms.map(|Whole(ms)| now_ms.saturating_sub(ms)),
        })
    }

    /// Whether nothing was asked for in particular.
    fn is_none(&self) -> bool {
        let Self { limited: _, type_name, capability, reason, before_ms, since_ms } = self;
        type_name.is_none()
            && capability.is_none()
            && reason.is_none()
            && before_ms.is_none()
            && since_ms.is_none()
    }

    fn fits(&self, kernel: &Kernel, letter: &DeadLetter, capability: Option<&str>) -> bool {
        let type_name = letter.message().type_name();
        self.limited.is_none_or(|who| kernel.may_see(who, type_name))
            && self.type_name.as_ref().is_none_or(|pattern| covers(pattern, type_name))
            && self.capability.as_ref().is_none_or(|id| capability == Some(id))
            && self.reason.as_ref().is_none_or(|words| letter.reason().to_lowercase().contains(words))
            && self.before_ms.is_none_or(|before_ms| letter.unix_ms() <= before_ms)
            && self.since_ms.is_none_or(|since_ms| letter.unix_ms() >= since_ms)
    }
}

/// The list as far as it was made.
#[derive(Debug)]
pub(crate) struct ListLetters {
    filter: LetterFilter,
    /// Letters up to this number are not asked for, or in the list already.
    after: u64,
    /// How many more may follow.
    left: usize,
    text: String,
}

impl ListLetters {
    pub(in crate::builtins) fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
        let dead = &kernel.dead_letters;
        for (number, letter) in dead.after(self.after) {
            if self.left == 0 {
                break;
            }
            if slice.is_over() {
                return None;
            }
            self.after = number;
            let capability = kernel.capability_of_letter(number);
            if !self.filter.fits(kernel, letter, capability) {
                slice.spend(work::LOOK);
                continue;
            }
            self.left -= 1;
            let before = self.text.len();
            let mut headline = letter.headline();
            headline["capabilityId"] = json!(capability);
            append(&mut self.text, &headline);
            slice.spend(work::ITEM + 2 * (self.text.len() - before) as u64);
        }
        let (letters, total, dropped) = (&self.text, dead.len(), dead.dropped());
        Some(Ok(format!("{{\"letters\":[{letters}],\"total\":{total},\"dropped\":{dropped}}}")))
    }
}

impl Kernel {
    /// The capability that a letter was for: the one that failed over it, or that handles its type
    /// now.
    fn capability_of_letter(&self, number: u64) -> Option<&str> {
        if let Some(Owner::Capability(capability)) = self.dead_letters.owner(number) {
            return Some(self.actors.id(capability));
        }
        let message = self.dead_letters.get(number)?.message();
        match self.routes.handler(message.kind(), message.type_name()) {
            Some(Handler::Capability(capability)) => Some(self.actors.id(capability)),
            _ => None,
        }
    }

    pub(in crate::builtins) fn serve_dead_letters(
        &mut self,
        request: &Envelope,
        caller: Caller,
    ) -> Result<Served, Refusal> {
        let data: DeadLettersData<'_> = read(request)?;
        if matches!(data.action, Action::Requeue | Action::Drop) && request.kind() == Kind::Query {
            let text = "kind: a query changes nothing; send requeue and drop as a command";
            return Err(Refusal::new(Failure::Schema, text));
        }
        let limit = data.limit.map_or(LIST_LIMIT, |Whole(limit)| limit.clamp(1, LIST_LIMIT_MAX) as usize);
        let limited = self.is_limited_operator(caller.recipient).then_some(caller.recipient);
        let Some(Whole(number)) = data.number else {
            let filter = LetterFilter::of(&data, limited, self.out.now.unix_ms)?;
            return match data.action {
                Action::List => {
                    let (after, text) = (data.after.0, String::new());
                    Ok(Served::In(Task::DeadLetters(ListLetters { filter, after, left: limit, text })))
                }
                Action::Show => Err(Refusal::new(Failure::Schema, "data.number: is missing")),
                Action::Drop => Ok(Served::AtOnce(self.drop_letters(&filter))),
                Action::Requeue if filter.is_none() && !data.all => {
                    let text = "data: needs number, a filter (type, capability, reason, olderThanMs, youngerThanMs) or all";
                    Err(Refusal::new(Failure::Schema, text))
                }
                Action::Requeue => Ok(Served::AtOnce(self.requeue_many(&filter, limit, request, caller))),
            };
        };
        let letter = self.dead_letters.get(number).cloned();
        let may_see =
            |letter: &DeadLetter| limited.is_none_or(|who| self.may_see(who, letter.message().type_name()));
        let Some(letter) = letter.filter(may_see) else {
            let text = format!("data.number: there is no dead letter {number}");
            return Err(Refusal::new(Failure::Routing, text));
        };
        let answer = match data.action {
            Action::Show | Action::List => {
                let mut headline = letter.headline();
                headline["capabilityId"] = json!(self.capability_of_letter(number));
                Ok(with_verbatim(&headline, "message", letter.message().line()))
            }
            Action::Requeue => {
                let data = data.data.map(|data| Json::parse(data.get())).transpose();
                let data =
                    data.map_err(|error| Refusal::new(Failure::Schema, format!("data.data: {error}")))?;
                let id = self.requeue(number, letter.message(), data, request, caller)?;
                Ok(json!({ "requeued": number, "id": id }).to_string())
            }
            Action::Drop => {
                self.drop_letter(number);
                Ok(json!({ "dropped": 1 }).to_string())
            }
        };
        answer.map(Served::AtOnce)
    }

    /// The numbers of the letters that fit, oldest first.
    fn fitting(&self, filter: &LetterFilter) -> Vec<u64> {
        let all = self.dead_letters.after(0);
        all.filter(|(number, letter)| filter.fits(self, letter, self.capability_of_letter(*number)))
            .map(|(number, _)| number)
            .collect()
    }

    fn drop_letters(&mut self, filter: &LetterFilter) -> String {
        if filter.is_none() && filter.limited.is_none() {
            if let Some((first, last)) = self.dead_letters.range() {
                self.dead_letters.note(LetterChange::Dropped(first, last), &self.out);
            }
            return json!({ "dropped": self.dead_letters.clear() }).to_string();
        }
        let numbers = self.fitting(filter);
        self.out.work += numbers.len() as u64 * work::ITEM;
        for number in &numbers {
            self.drop_letter(*number);
        }
        json!({ "dropped": numbers.len() }).to_string()
    }

    /// Drops one letter, also from what survives the process.
    fn drop_letter(&mut self, number: u64) {
        self.dead_letters.take(number);
        self.dead_letters.note(LetterChange::Dropped(number, number), &self.out);
    }

    /// Puts the oldest letters that fit back; each that cannot be is told with its reason, and
    /// stays.
    fn requeue_many(
        &mut self,
        filter: &LetterFilter,
        limit: usize,
        request: &Envelope,
        caller: Caller,
    ) -> String {
        let mut numbers = self.fitting(filter);
        let left = numbers.len().saturating_sub(limit);
        numbers.truncate(limit);
        self.out.work += numbers.len() as u64 * work::ITEM;
        let (mut requeued, mut refused) = (Vec::new(), Vec::new());
        for number in numbers {
            let Some(message) = self.dead_letters.get(number).map(|letter| letter.message().clone()) else {
                continue;
            };
            match self.requeue(number, &message, None, request, caller) {
                Ok(id) => requeued.push(json!({ "number": number, "id": id, "type": message.type_name() })),
                Err(refusal) => refused.push(
                    json!({ "number": number, "code": refusal.failure.code(), "message": refusal.text }),
                ),
            }
        }
        json!({ "requeued": requeued, "refused": refused, "left": left }).to_string()
    }

    /// Puts a message back under a fresh id, caused by the request that does so.
    fn requeue(
        &mut self,
        number: u64,
        dead: &Envelope,
        data: Option<Json>,
        request: &Envelope,
        caller: Caller,
    ) -> Result<String, Refusal> {
        if !self.may_see(caller.recipient, dead.type_name()) {
            let text = format!("{} is not among the types that this connection may send", dead.type_name());
            return Err(Refusal::new(Failure::Forbidden, text));
        }
        if dead.kind().is_outcome() {
            let text = "data.number: an outcome has nowhere to go; show or drop it";
            return Err(Refusal::new(Failure::Schema, text));
        }
        let data = data.unwrap_or_else(|| dead.data_json());
        let mut draft = Draft::caused_by(request, dead.kind(), dead.type_text(), data);
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
        Ok(id)
    }
}
