//! Messages for later: `--delay`, `--at`, `--every` on `send`, `query` and `emit` become
//! `Timer.Schedule`.

use crate::cli::support::target::{Failure, Target, time_above_zero};
use crate::cli::support::{local_time, text};
use crate::text::units;
use mainspring_message::{Draft, Json, Kind};
use serde_json::Value;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Later")]
pub(super) struct Schedule {
    /// Send it after this time.
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Send it at this moment: 14:30, 2026-12-24T18:00, 2026-12-24T18:00:00Z.
    #[arg(long, value_name = "MOMENT", value_parser = local_time::read_moment)]
    at: Option<u64>,
    /// Send it over and over, this time apart.
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    every: Option<Duration>,
    /// How often [default: until it is cancelled].
    #[arg(long, value_name = "NUMBER", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
    /// The name of the timer, to list and cancel it by [default: a fresh one].
    #[arg(long, value_name = "ID")]
    timer: Option<String>,
}

impl Schedule {
    /// Whether the message is for later.
    pub(super) fn is_asked(&self) -> Result<bool, Failure> {
        let is_asked = self.delay.is_some() || self.at.is_some() || self.every.is_some();
        if !is_asked && self.timer.is_some() {
            return Err(Failure::Usage(
                "--timer names a message for later: add --delay, --at or --every".into(),
            ));
        }
        Ok(is_asked)
    }

    /// Has the daemon send a message later; returns what to tell.
    pub(super) fn make(&self, draft: &Draft, target: &Target) -> Result<String, Failure> {
        if draft.id.is_some() {
            return Err(Failure::Usage(
                "--id: each time it is sent, a message for later gets a fresh id".into(),
            ));
        }
        let reply = target.request_json(Kind::Command, "Timer.Schedule", self.request(draft))?;
        let data: Value = serde_json::from_str(reply.data()).unwrap_or_default();
        let timer = text::visible(data["timerId"].as_str().unwrap_or_default()).into_owned();
        Ok(format!("{timer}: {} {}\n", draft.type_name.as_str(), self.words()))
    }

    /// The data of the message travels as it was written.
    fn request(&self, draft: &Draft) -> Json {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let members = [
            ("delay", self.delay.map(ms).map(Value::from)),
            ("at", self.at.map(Value::from)),
            ("repeat", self.every.map(ms).map(Value::from)),
            ("count", self.times.map(Value::from)),
            ("timerId", self.timer.as_deref().map(Value::from)),
        ];
        let members = members.into_iter().filter_map(|(name, value)| Some(format!("{name:?}:{},", value?)));
        let metadata = [
            ("correlation", draft.correlation.as_ref().map(|id| Value::from(id.as_str()))),
            ("timeout", draft.timeout_ms.map(Value::from)),
        ];
        let metadata: serde_json::Map<String, Value> =
            metadata.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let text = format!(
            "{{{}\"message\":{{\"kind\":\"{}\",\"type\":{},\"data\":{},\"metadata\":{}}}}}",
            members.collect::<String>(),
            draft.kind.as_str(),
            Value::from(draft.type_name.as_str()),
            draft.data.as_str(),
            Value::Object(metadata),
        );
        // Every part of it is JSON already.
        Json::parse(&text).unwrap_or_else(|_| Json::null())
    }

    /// When it will be sent.
    fn words(&self) -> String {
        let first = match (self.delay, self.at) {
            (Some(delay), _) => format!("in {}", units::show_duration(delay)),
            (None, Some(at)) => format!("at {}", local_time::moment(at)),
            (None, None) => String::new(),
        };
        let every = match (self.every, self.times) {
            (Some(every), Some(times)) => {
                format!("every {}, {}", units::show_duration(every), text::count(times, "time", "times"))
            }
            (Some(every), None) => format!("every {}, until cancelled", units::show_duration(every)),
            (None, _) => String::new(),
        };
        [first, every].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", then ")
    }
}
