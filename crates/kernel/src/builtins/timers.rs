//! `Timer.Schedule`, `Timer.Cancel` and `Timer.List`: messages for later.

use super::chores::{Slice, Task};
use super::{Answer, Caller, Served, Whole, append, read};
use crate::flow::lanes::Sender;
use crate::flow::refusal::{Refusal, is_reserved};
use crate::flow::rights::check_type;
use crate::flow::work;
use crate::kernel::Kernel;
use crate::requests::{PeerId, Recipient};
use crate::time::schedules::{NewSchedule, Start};
use mainspring_message::{Draft, Envelope, Failure, Json, Kind};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// Scheduled messages, as far as they were listed.
#[derive(Debug)]
pub(crate) struct ListTimers {
    /// Whose; nothing for everybody's.
    peer: Option<PeerId>,
    /// Whose view it is, if that one may not see every type.
    limited: Option<Recipient>,
    /// The last one in the list.
    after: Option<(PeerId, Box<str>)>,
    text: String,
}

impl ListTimers {
    /// Works for a slice; the answer when it is done.
    pub(super) fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
        let after = self.after.take();
        let now = kernel.out.now;
        match self.peer {
            Some(peer) => {
                for (name, schedule) in kernel.schedules.after(peer, after.as_ref().map(|(_, name)| &**name))
                {
                    append(&mut self.text, &schedule.describe(now));
                    slice.spend(work::ITEM);
                    if slice.is_over() {
                        self.after = Some((peer, name.into()));
                        return None;
                    }
                }
            }
            None => {
                for (name, schedule) in kernel.schedules.all_after(after.as_ref()) {
                    let is_shown = |who| kernel.may_see(who, schedule.type_name());
                    if !self.limited.is_none_or(is_shown) {
                        slice.spend(work::LOOK);
                        continue;
                    }
                    let mut item = schedule.describe(now);
                    item["peer"] = json!(kernel.peer_name(name.0));
                    append(&mut self.text, &item);
                    slice.spend(work::ITEM);
                    if slice.is_over() {
                        self.after = Some(name.clone());
                        return None;
                    }
                }
            }
        }
        Some(Ok(format!("{{\"timers\":[{}]}}", self.text)))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListData {
    all: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScheduleData<'a> {
    delay: Option<Whole>,
    at: Option<Whole>,
    repeat: Option<Whole>,
    count: Option<Whole>,
    timer_id: Option<String>,
    #[serde(borrow)]
    message: InnerMessage<'a>,
}

#[derive(Deserialize)]
struct InnerMessage<'a> {
    kind: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    metadata: InnerMetadata,
}

/// Of the inner metadata only these count: the kernel makes the id and the timestamp.
#[derive(Default, Deserialize)]
struct InnerMetadata {
    correlation: Option<String>,
    traceparent: Option<String>,
    timeout: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CancelTimerData {
    timer_id: String,
    peer: Option<String>,
}

fn wrong(text: impl Into<String>) -> Refusal {
    Refusal::new(Failure::Schema, text)
}

impl ScheduleData<'_> {
    fn start(&self) -> Result<Start, Refusal> {
        match (&self.delay, &self.at) {
            (Some(Whole(delay)), None) => Ok(Start::In(*delay)),
            (None, Some(Whole(at))) => Ok(Start::At(*at)),
            (None, None) => match &self.repeat {
                // A schedule that only repeats starts one period from now.
                Some(Whole(repeat)) => Ok(Start::In(*repeat)),
                None => Err(wrong("data: needs delay, at or repeat")),
            },
            (Some(_), Some(_)) => Err(wrong("data: delay and at exclude each other")),
        }
    }
}

impl Kernel {
    pub(super) fn timer_schedule(&mut self, request: &Envelope, caller: Caller) -> Answer {
        if self.lifecycle.is_ending() {
            return Err(Refusal::shutting_down());
        }
        let data: ScheduleData<'_> = read(request)?;
        let (repeat_ms, count) =
            (data.repeat.as_ref().map(|Whole(ms)| *ms), data.count.as_ref().map(|Whole(count)| *count));
        let start = data.start()?;
        if repeat_ms == Some(0) || count == Some(0) {
            return Err(wrong("data: repeat and count must be at least 1"));
        }
        if count.is_some() && repeat_ms.is_none() {
            return Err(wrong("data.count: says how often to repeat, so it needs data.repeat"));
        }
        let draft = self.inner_draft(request, &data.message)?;
        let rights = match caller.recipient {
            Recipient::Connection(connection) => self.connections.rights(connection),
            Recipient::Actor(_) => None,
        };
        let rights = rights.filter(|rights| rights.leaves_types_out()).cloned();
        if let Some(rights) = &rights {
            check_type(rights, draft.type_name.as_str())
                .map_err(|refusal| Refusal { text: format!("data.message.{}", refusal.text), ..refusal })?;
        }
        let timer_id = match data.timer_id {
            Some(id) if id.is_empty() || id.len() > 256 => {
                return Err(wrong("data.timerId: must be 1 to 256 bytes long"));
            }
            Some(id) => id,
            None => self.out.fresh_id().to_owned(),
        };
        let (peer, bytes) = (caller.peer, request.line().len());
        self.schedules.check(peer, &timer_id, bytes)?;
        let answer = json!({ "timerId": timer_id }).to_string();
        let to = caller.recipient;
        let is_durable = self.is_durable() && request.durable() != Some(false);
        let name = timer_id.clone();
        let new =
            NewSchedule { timer_id, draft, peer, to, start, repeat_ms, count, bytes, rights, is_durable };
        self.requests.retain_peer(peer);
        let queue = self.schedules.queue_of(peer).unwrap_or_else(|| self.lanes.open(Sender::Kernel));
        self.schedules.add(new, queue, &mut self.out);
        if is_durable {
            self.record_scheduled(peer, &name);
        }
        Ok(answer)
    }

    /// Checks the message to be sent as if it were sent now, so that mistakes show while somebody
    /// listens.
    fn inner_draft(&mut self, request: &Envelope, inner: &InnerMessage<'_>) -> Result<Draft, Refusal> {
        let kind = Kind::from_wire(&inner.kind)
            .filter(|kind| !kind.is_outcome())
            .ok_or_else(|| wrong("data.message.kind: must be command, query or event"))?;
        let data =
            Json::parse(inner.data.get()).map_err(|error| wrong(format!("data.message.data: {error}")))?;
        let mut draft = Draft::caused_by(request, kind, inner.type_name.as_str(), data);
        if let Some(correlation) = &inner.metadata.correlation {
            draft.correlation = Some(correlation.as_str().into());
        }
        if let Some(traceparent) = &inner.metadata.traceparent {
            draft.traceparent = Some(traceparent.as_str().into());
        }
        draft.timeout_ms = inner.metadata.timeout.as_ref().map(|Whole(ms)| *ms);
        draft.check().map_err(|(field, reason)| wrong(format!("data.message.{field}: {reason}")))?;
        if is_reserved(&inner.type_name) {
            return Err(Refusal::new(
                Failure::Forbidden,
                format!("data.message.type: {} cannot be scheduled", inner.type_name),
            ));
        }
        if draft.timeout_ms.is_some_and(|timeout_ms| timeout_ms > self.config.timeout_ms_max) {
            return Err(wrong("data.message.metadata.timeout: is above the limit"));
        }
        if kind.is_request() {
            let sample = self.out.compose(&draft);
            self.routes
                .find(&sample)
                .map_err(|refusal| Refusal { text: format!("data.message: {}", refusal.text), ..refusal })?;
        }
        Ok(draft)
    }

    pub(super) fn list_timers(&self, request: &Envelope, caller: Caller) -> Result<Served, Refusal> {
        let data: ListData = read(request)?;
        if data.all && !self.is_operator(caller.recipient) {
            return Err(self.needs_operator("data.all", caller.recipient));
        }
        let peer = (!data.all).then_some(caller.peer);
        let limited = self.is_limited_operator(caller.recipient).then_some(caller.recipient);
        Ok(Served::In(Task::Timers(ListTimers { peer, limited, after: None, text: String::new() })))
    }

    pub(super) fn timer_cancel(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let data: CancelTimerData = read(request)?;
        let peer = match data.peer {
            None => Some(caller.peer),
            Some(_) if !self.is_operator(caller.recipient) => {
                return Err(self.needs_operator("data.peer", caller.recipient));
            }
            Some(name) => self.peer_of_name(&name).filter(|peer| {
                // Whoever may not see a type finds no schedule of it.
                let type_name = self.schedules.type_name(*peer, &data.timer_id);
                type_name.is_none_or(|type_name| self.may_see(caller.recipient, type_name))
            }),
        };
        if let Some(peer) = peer
            && self.schedules.is_durable(peer, &data.timer_id)
        {
            self.record_cancelled(peer, data.timer_id.as_str());
        }
        let gone = peer.and_then(|peer| self.schedules.cancel(peer, &data.timer_id, &mut self.out));
        if let Some(gone) = gone {
            self.schedule_gone(gone);
        }
        Ok(json!({ "cancelled": gone.is_some() }).to_string())
    }
}
