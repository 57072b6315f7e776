//! Facts as people and programs read them.

use crate::cli::support::local_time::{clock, moment};
use crate::cli::support::text;
use mainspring_kernel::{Answer, Ending, Fact, PeerName};
use mainspring_message::{Envelope, write_json_string};
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The type of the message that a fact is about.
pub(super) fn type_of(fact: &Fact<&str>) -> Option<String> {
    let message = Envelope::parse(message_of(fact)?.as_bytes()).ok()?;
    Some(message.type_name().to_owned())
}

fn message_of<'a>(fact: &Fact<&'a str>) -> Option<Cow<'a, str>> {
    match fact {
        Fact::Accepted { message, .. }
        | Fact::Scheduled { message, .. }
        | Fact::DeadLettered { message, .. }
        | Fact::Emitted { message, .. } => Some(Cow::Borrowed(message)),
        Fact::Ended { answer, .. } => answer.as_ref().map(Answer::line),
        _ => None,
    }
}

fn peer(name: &PeerName<&str>) -> String {
    match name {
        PeerName::Client(name) => name.to_string(),
        PeerName::Capability(name) => format!("capability:{name}"),
    }
}

/// The members of a fact, in order: texts are written as JSON strings, JSON as it is.
struct Members(Vec<(&'static str, String)>);

impl Members {
    fn number(mut self, name: &'static str, number: u64) -> Members {
        self.0.push((name, number.to_string()));
        self
    }

    fn maybe(self, name: &'static str, number: Option<u64>) -> Members {
        match number {
            Some(number) => self.number(name, number),
            None => self,
        }
    }

    fn text(mut self, name: &'static str, text: &str) -> Members {
        let mut written = String::new();
        write_json_string(text, &mut written);
        self.0.push((name, written));
        self
    }

    fn json(mut self, name: &'static str, json: &str) -> Members {
        self.0.push((name, json.to_owned()));
        self
    }
}

fn members(fact: &Fact<&str>) -> Members {
    let all = Members(Vec::new());
    match fact {
        Fact::Started { build, .. } => all.text("build", build),
        Fact::Stopped { .. } => all,
        Fact::Accepted { request, peer: by, timer_id, deadline_ms, message, .. } => {
            let all =
                all.number("request", *request).text("peer", &peer(by)).number("deadline", *deadline_ms);
            let all = match timer_id {
                Some(timer_id) => all.text("timerId", timer_id),
                None => all,
            };
            all.json("message", message)
        }
        Fact::Delivered { request, attempt, .. } => {
            all.number("request", *request).number("attempt", u64::from(*attempt))
        }
        Fact::Ended { which, until_ms, answer, .. } => {
            let all = match which {
                Ending::Accepted(request) => all.number("request", *request),
                Ending::Whole { peer: by, id, .. } => all.text("peer", &peer(by)).text("id", id),
            };
            all.number("until", *until_ms)
                .json("answer", answer.as_ref().map_or(Cow::Borrowed("null"), Answer::line).as_ref())
        }
        Fact::Scheduled { peer: by, timer_id, due_ms, repeat_ms, left, fired, rights, message, .. } => {
            let all = all
                .text("peer", &peer(by))
                .text("timerId", timer_id)
                .number("due", *due_ms)
                .maybe("repeat", *repeat_ms)
                .maybe("left", *left)
                .number("fired", *fired);
            let all = match rights {
                Some(rights) => {
                    let told = json!({ "allow": rights.patterns(), "operator": rights.is_operator() });
                    all.json("rights", &told.to_string())
                }
                None => all,
            };
            all.json("message", message)
        }
        Fact::Fired { peer: by, timer_id, fired, left, next_ms } => all
            .text("peer", &peer(by))
            .text("timerId", timer_id)
            .number("fired", *fired)
            .maybe("left", *left)
            .maybe("next", *next_ms),
        Fact::Cancelled { peer: by, timer_id } => all.text("peer", &peer(by)).text("timerId", timer_id),
        Fact::DeadLettered { letter, owner, attempts, reason, message, .. } => all
            .number("letter", *letter)
            .text("owner", &peer(owner))
            .number("attempts", u64::from(*attempts))
            .text("reason", reason)
            .json("message", message),
        Fact::Requeued { letter } => all.number("letter", *letter),
        Fact::Dropped { first, last } => all.number("first", *first).number("last", *last),
        Fact::Emitted { event, message, .. } => all.number("event", *event).json("message", message),
        Fact::CursorMoved { peer: by, name, event } => {
            all.text("peer", &peer(by)).text("cursor", name).number("event", *event)
        }
        Fact::CursorForgotten { peer: by, name } => all.text("peer", &peer(by)).text("cursor", name),
        Fact::Put { store, key, value } => all.text("store", store).text("key", key).json("value", value),
        Fact::Deleted { store, key } => all.text("store", store).text("key", key),
        Fact::Numbered { request, letter, event, starts, .. } => all
            .number("request", *request)
            .number("letter", *letter)
            .number("event", *event)
            .number("starts", *starts),
    }
}

/// One line of JSON.
pub(super) fn json_line(number: u64, unix_ms: u64, fact: &Fact<&str>) -> String {
    let mut line = format!("{{\"number\":{number},\"time\":{unix_ms},\"fact\":\"{}\"", fact.name());
    for (name, value) in members(fact).0 {
        let _ = write!(line, ",\"{name}\":{value}");
    }
    line.push_str("}\n");
    line
}

/// A time beside another one: with its date, unless it is soon.
fn time(unix_ms: u64, beside_ms: u64) -> String {
    const SOON_MS: u64 = 12 * 3_600_000;
    if unix_ms.abs_diff(beside_ms) < SOON_MS { clock(unix_ms) } else { moment(unix_ms).replace(' ', "T") }
}

/// One line for people. Messages are shown by type and id.
pub(super) fn readable_line(number: u64, unix_ms: u64, fact: &Fact<&str>) -> String {
    let mut line = format!("{} {number:>10} {:<13}", clock(unix_ms), fact.name());
    for (name, value) in members(fact).0 {
        match name {
            "message" | "answer" => {
                if let Ok(message) = Envelope::parse(value.as_bytes()) {
                    let (type_name, id) = (text::visible(message.type_name()), text::visible(message.id()));
                    let _ = write!(line, " {} {type_name} {id}", message.kind());
                }
            }
            "deadline" | "until" | "due" | "next" => {
                let _ = write!(line, " {name}={}", time(value.parse().unwrap_or(0), unix_ms));
            }
            _ => {
                let _ = write!(line, " {name}={}", text::visible(value.trim_matches('"')));
            }
        }
    }
    line.push('\n');
    line
}
