//! `Sys.RestartActor` and `Sys.Reload`: capabilities anew, one or what has changed.

use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::builtins::{Answer, read};
use crate::flow::completions::Words;
use crate::flow::refusal::Refusal;
use crate::flow::reload::Change;
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use mainspring_message::{Envelope, Failure, Json, Started};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestartData {
    capability: String,
}

/// Why the settings were not read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsRefused {
    /// There is nothing to read.
    Nothing,
    /// They are being read already.
    Busy,
    /// They are faulty, in these words.
    Faulty(String),
}

impl Kernel {
    /// Ends the running incarnation when it has finished what it has, and starts the next one.
    pub(in crate::builtins) fn restart_actor(&mut self, request: &Envelope) -> Answer {
        let data: RestartData = read(request)?;
        let capability = self.capability_of(&data.capability)?;
        if self.lifecycle.is_ending() {
            return Err(Refusal::shutting_down());
        }
        let incarnation = self.actors.incarnation(capability);
        if self.actors.is_retiring(capability) {
            let text = format!("{} is being replaced already", data.capability);
            return Err(Refusal::new(Failure::Conflict, text));
        }
        if self.actors.working(capability).is_some() {
            self.change(vec![Change::Restart(data.capability.clone())])
                .map_err(|refused| Refusal::new(Failure::Internal, refused.reason))?;
            self.actors.forgive(capability);
        } else {
            self.actors.reset(capability, &mut self.out);
        }
        let state = self.actors.state_name(capability);
        Ok(json!({ "capabilityId": data.capability, "incarnation": incarnation, "state": state }).to_string())
    }

    /// Has the daemon read its settings again; answered by [`Kernel::settings_read`].
    pub(in crate::builtins) fn ask_for_settings(
        &mut self,
        key: RequestKey,
        request: &Envelope,
    ) -> Result<(), Refusal> {
        let _: Map<String, Value> = read(request)?;
        self.requests.enter_outside(key);
        let requests = &self.requests;
        let ticket = self.chores.wait_outside(key, |key| requests.message(key).is_none());
        self.out.push(Effect::ReadSettings { ticket });
        Ok(())
    }

    /// Answers [`Effect::ReadSettings`]: with what has changed (`added`, `changed`, `removed`,
    /// `notes`), or why nothing has.
    pub fn settings_read(&mut self, ticket: u64, result: Result<Json, SettingsRefused>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.settings_read(ticket, &result));
        let Some(key) = self.chores.take_outside(ticket) else { return };
        let Some(request) = self.requests.message(key).cloned() else { return };
        let (failure, text) = match result {
            Ok(changes) => return self.answer_builtin(key, &request, changes.as_str()),
            Err(SettingsRefused::Nothing) => (
                Failure::Routing,
                "the daemon runs without a configuration that could be read again".to_owned(),
            ),
            Err(SettingsRefused::Busy) => {
                (Failure::Conflict, "the configuration is being read already".to_owned())
            }
            Err(SettingsRefused::Faulty(words)) => (Failure::Schema, words),
        };
        let answer = self.out.failure(&request, failure, &text, Started::No);
        self.finish(key, answer, false, Words::OfHandler);
    }
}
