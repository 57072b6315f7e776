//! What actors do.

use std::collections::BTreeMap;

use mainspring_kernel::{ActorExit, ActorRef};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::json;

use crate::world::action::Act;
use crate::world::actor::Presence;
use crate::world::tokens::{Sender, Token, token_of};
use crate::world::{Checked, World};

impl World {
    pub(crate) fn act(&mut self, actor: u8, held: u8, act: Act) -> Checked {
        let capability = actor as usize % self.actors.len();
        let it = &self.actors[capability];
        if act == Act::SpeakFromTheGrave {
            return self.speak_from_the_grave(capability);
        }
        if it.presence != Presence::Up || it.paused {
            return Ok(());
        }
        let request = (!it.in_progress.is_empty())
            .then(|| it.in_progress[held as usize % it.in_progress.len()].clone());
        match (act, request) {
            (Act::Crash, _) => self.leave(capability, ActorExit::Failed("the simulation says so".to_owned())),
            (Act::Leave, _) => self.leave(capability, ActorExit::Done),
            (Act::Babble, _) => {
                self.doom(capability, "it babbled");
                let reference = self.actors[capability].reference(capability);
                self.kernel.actor_line(reference, b"segmentation fault", self.now);
                self.carry_out()
            }
            (Act::ReplyToNothing, _) => {
                self.doom(capability, "it answered what it was never asked");
                let draft = Draft {
                    causation: Some("never-asked".into()),
                    ..Draft::new(Kind::Reply, format!("Cap{capability}.Do"), json!({ "token": 0 }).into())
                };
                self.say(capability, draft)
            }
            (Act::EmitUncaused, _) => {
                if !self.ledgers[capability].contract.uncaused {
                    self.doom(capability, "it spoke unasked");
                }
                self.emit(capability, None)
            }
            (Act::Emit(count), cause) => {
                let cause = cause.or_else(|| self.actors[capability].taken.clone());
                let Some(cause) = cause else { return Ok(()) };
                for _ in 0..count {
                    if self.actors[capability].presence == Presence::Up {
                        self.emit(capability, Some(&cause))?;
                    }
                }
                Ok(())
            }
            (Act::Ask(other), Some(cause)) => {
                self.ask(capability, other as usize % self.actors.len(), &cause)
            }
            (Act::AskBuiltin, Some(cause)) => {
                let id = format!("a{}", self.tokens.next());
                self.add_token(capability, &id, Some(&cause));
                self.actors[capability].asked.insert(id.clone(), 0);
                let data = json!({ "payload": 1 }).into();
                let draft = Draft::caused_by(&cause, Kind::Query, "Syscall.Ping", data);
                self.say(capability, Draft { id: Some(id.as_str().into()), ..draft })
            }
            (_, None) => Ok(()),
            (act, Some(request)) => self.answer_request(capability, &request, act),
        }
    }

    fn answer_request(&mut self, capability: usize, request: &Envelope, act: Act) -> Checked {
        self.actors[capability].in_progress.retain(|held| held.id() != request.id());
        let token = token_of(request).unwrap_or(u64::MAX);
        let reply = Draft::reply(request, json!({ "token": token }).into());
        if let Some(token) = self.tokens.get_mut(token) {
            token.answered_ns = self.now.mono_ns;
        }
        match act {
            Act::Fail => self.say(capability, Draft::error(request, 500, "the simulation says so")),
            Act::ReplyTwice => {
                self.say(capability, reply.clone())?;
                // A repetition would be a late answer to a request of the same id that timed out
                // before.
                if self.actors[capability].presence == Presence::Up && !self.is_held(capability, request.id())
                {
                    self.doom(capability, "it answered twice");
                    self.say(capability, reply)?;
                }
                Ok(())
            }
            Act::ReplyBadData => self.say(capability, Draft { data: Json::null(), ..reply }),
            Act::ReplyWrongCorrelation => {
                self.say(capability, Draft { correlation: Some("elsewhere".into()), ..reply })
            }
            // Half of the actors leave correlation and span to the kernel.
            _ if token.is_multiple_of(2) => {
                self.say(capability, Draft { correlation: None, traceparent: None, ..reply })
            }
            _ => self.say(capability, reply),
        }
    }

    fn is_held(&self, capability: usize, id: &str) -> bool {
        self.actors[capability].in_progress.iter().any(|held| held.id() == id)
    }

    fn emit(&mut self, capability: usize, cause: Option<&Envelope>) -> Checked {
        let token = self.tokens.next();
        let id = format!("e{token}");
        self.add_token(capability, &id, cause);
        let (type_name, data) = (format!("Cap{capability}.Happened"), Json::from(json!({ "token": token })));
        let draft = match cause {
            Some(cause) => Draft::caused_by(cause, Kind::Event, type_name.as_str(), data),
            None => Draft::new(Kind::Event, type_name.as_str(), data),
        };
        // As with replies, the kernel restores what some actors leave out.
        let correlation = if token.is_multiple_of(2) { draft.correlation.clone() } else { None };
        self.say(capability, Draft { id: Some(id.as_str().into()), correlation, ..draft })?;
        // A refusal ends the actor at once.
        if self.actors[capability].presence == Presence::Up {
            self.accept_event(token, &type_name);
        }
        Ok(())
    }

    fn ask(&mut self, capability: usize, other: usize, cause: &Envelope) -> Checked {
        let token = self.tokens.next();
        let id = format!("a{token}");
        self.add_token(capability, &id, Some(cause));
        self.actors[capability].asked.insert(id.clone(), 0);
        let (kind, what) = if token.is_multiple_of(2) { (Kind::Command, "Do") } else { (Kind::Query, "Ask") };
        let draft =
            Draft::caused_by(cause, kind, format!("Cap{other}.{what}"), json!({ "token": token }).into());
        self.say(capability, Draft { id: Some(id.as_str().into()), ..draft })
    }

    fn add_token(&mut self, capability: usize, id: &str, cause: Option<&Envelope>) {
        self.tokens.add(Token {
            sender: Sender::Capability(capability),
            peer: None,
            id: id.to_owned(),
            correlation: cause.and_then(|cause| cause.correlation().map(str::to_owned)),
            due_ns: i64::MIN,
            period_ns: None,
            sends: 1,
            accepted_event: None,
            deliveries: BTreeMap::new(),
            answered_ns: i64::MIN,
            replied: None,
        });
    }

    fn say(&mut self, capability: usize, draft: Draft) -> Checked {
        let reference = self.actors[capability].reference(capability);
        self.say_as(capability, reference, draft)
    }

    fn say_as(&mut self, capability: usize, reference: ActorRef, draft: Draft) -> Checked {
        self.counts.outputs += 1;
        self.note(|_| format!("{reference} says {draft:?}"));
        if self.scenario.native[capability] {
            self.kernel.actor_message(reference, draft, self.now);
        } else {
            let id = format!("o{}", self.counts.outputs);
            let message = draft.compose(&id, self.now.unix_ms, &mut String::new());
            self.kernel.actor_line(reference, message.line().as_bytes(), self.now);
        }
        self.carry_out()
    }

    fn leave(&mut self, capability: usize, exit: ActorExit) -> Checked {
        let it = &mut self.actors[capability];
        let reference = it.reference(capability);
        it.failed_ns = Some(self.now.mono_ns);
        it.end();
        self.kernel.actor_exited(reference, exit, self.now);
        self.carry_out()
    }

    /// Where a request is tried again, the incarnation that failed over it answers as well: the
    /// worst moment to be heard.
    pub(crate) fn haunt(&mut self) -> Checked {
        for capability in 0..self.actors.len() {
            let it = &self.actors[capability];
            let tried_again = |relic: &Envelope| it.in_progress.iter().any(|held| held.id() == relic.id());
            if it.presence == Presence::Up && it.relic.as_ref().is_some_and(tried_again) {
                self.speak_from_the_grave(capability)?;
                self.actors[capability].relic = None;
            }
        }
        Ok(())
    }

    /// An earlier incarnation answers what it had in progress; nobody may hear it.
    fn speak_from_the_grave(&mut self, capability: usize) -> Checked {
        let it = &self.actors[capability];
        let Some(relic) = it.relic.clone() else { return Ok(()) };
        let incarnation = if it.presence == Presence::Absent { it.incarnation } else { it.incarnation - 1 };
        if incarnation == 0 {
            return Ok(());
        }
        let reference = ActorRef::new(capability as u32, incarnation);
        let before = self.counts;
        self.say_as(capability, reference, Draft::reply(&relic, json!({ "token": u64::MAX }).into()))?;
        crate::world::must!(self.counts.effects == before.effects, "{reference} was heard from its grave");
        Ok(())
    }

    fn doom(&mut self, capability: usize, deed: &'static str) {
        self.actors[capability].doomed.get_or_insert(deed);
    }

    pub(crate) fn block(&mut self, actor: u8, blocked: bool) -> Checked {
        let capability = actor as usize % self.actors.len();
        let it = &mut self.actors[capability];
        if it.presence != Presence::Up || it.blocked == blocked {
            return Ok(());
        }
        it.blocked = blocked;
        let reference = it.reference(capability);
        if blocked {
            self.kernel.actor_blocked(reference, self.now);
        } else {
            self.kernel.actor_ready(reference, self.now);
        }
        self.carry_out()
    }
}
