//! `Sys.Logs`: what capabilities wrote to standard error lately.

use crate::api::ids::{ActorRef, CapabilityId};
use crate::builtins::{Answer, Whole, read};
use crate::flow::refusal::Refusal;
use crate::kernel::Kernel;
use crate::logs::LogLine;
use mainspring_message::{Envelope, Failure};
use serde::Deserialize;
use serde_json::{Value, json};

/// Lines in one answer unless the request says otherwise, and at most.
const LINES_DEFAULT: u64 = 100;
const LINES_MAX: u64 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogsData {
    capability: Option<String>,
    lines: Option<Whole>,
    #[serde(default)]
    after: Whole,
}

impl Kernel {
    pub(in crate::builtins) fn tell_logs(&self, request: &Envelope) -> Answer {
        let data: LogsData = read(request)?;
        let capability = data.capability.map(|id| self.capability_of(&id)).transpose()?;
        let lines = data.lines.map_or(LINES_DEFAULT, |Whole(lines)| lines.clamp(1, LINES_MAX));
        let (lines, forgotten) = self.logs.last(capability, data.after.0, lines as usize);
        let lines: Vec<Value> = lines.into_iter().map(|(id, line)| self.log_line(id, line)).collect();
        Ok(json!({ "lines": lines, "forgotten": forgotten }).to_string())
    }

    fn log_line(&self, capability: CapabilityId, line: &LogLine) -> Value {
        json!({
            "number": line.number,
            "at": line.unix_ms,
            "capabilityId": self.actors.id(capability),
            "incarnation": line.incarnation,
            "text": line.text,
        })
    }

    /// Keeps a line that a capability wrote, and tells it to operators who want to know. Returns
    /// whether it was told.
    pub(crate) fn keep_log_line(&mut self, actor: ActorRef, line: &[u8]) -> bool {
        if !self.actors.is_there(actor.capability) {
            return false;
        }
        let kept = self.logs.add(actor.capability, actor.incarnation, line, self.out.now.unix_ms).clone();
        if !self.connections.is_wanted("Sys.Log") {
            return false;
        }
        let data = self.log_line(actor.capability, &kept);
        self.out.announce_to_operators("Sys.Log", data);
        true
    }

    /// The number of a capability that is there.
    pub(in crate::builtins) fn capability_of(&self, id: &str) -> Result<CapabilityId, Refusal> {
        match self.actors.find(id) {
            Some((capability, false)) => Ok(capability),
            _ => {
                Err(Refusal::new(Failure::Routing, format!("data.capability: there is no capability {id:?}")))
            }
        }
    }
}
