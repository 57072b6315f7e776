//! Changes of the capabilities of a running loop: checked as a whole, then made as a whole or not at all.

use crate::api::effect::Level;
use crate::api::ids::Now;
use crate::api::manifest::Manifest;
use crate::flow::ingest::Refusal;
use crate::flow::routes::Handler;
use crate::kernel::{Kernel, Life};
use crate::records::dead_letters::Owner;
use crate::requests::{Phase, RequestKey};
use crate::supervision::actors::Mail;
use crate::supervision::candidate::{Candidate, check_manifest};
use crate::supervision::succession::News;
use mainspring_message::Envelope;
use serde_json::json;
use std::collections::VecDeque;

/// The most capabilities of a loop, with those that were removed. Beyond: a reload that adds one is refused.
const CAPABILITIES_MAX: usize = 4096;

/// One change of the capabilities.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// There is one more. One that was removed before comes back in its old place.
    Add(Manifest),
    /// The capability of that id has this manifest, and a new life.
    Replace(Manifest),
    /// The capability of this id has a new life (of another program, perhaps) under the same manifest.
    Restart(String),
    /// The capability of this id is no more. It finishes what was accepted for it; what is new is refused (404).
    Remove(String),
}

impl Change {
    /// The capability that it concerns.
    pub fn id(&self) -> &str {
        match self {
            Change::Add(manifest) | Change::Replace(manifest) => &manifest.id,
            Change::Restart(id) | Change::Remove(id) => id,
        }
    }
}

/// A reload that was refused: nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing was reloaded: {reason}")]
pub struct ReloadRefused {
    /// What is wrong.
    pub reason: String,
}

/// A change that was checked.
struct Step {
    capability: u32,
    what: What,
}

enum What {
    Install(Box<Candidate>, News),
    Restart,
    Remove,
}

/// Where a request that waits belongs after a reload.
enum Way {
    Stays,
    Moves(u32),
    Ends(Refusal),
}

impl Kernel {
    /// Changes the capabilities of the running loop, all as asked or not at all.
    ///
    /// Routes and schemas change at once. What waits for a capability is routed anew: it stays, moves to whoever handles
    /// its type now, or ends with the error that it would get if it came now. A life that runs is retired: it gets
    /// nothing new, finishes what it has, and is followed by the next, which gets the mailbox.
    ///
    /// Returns the number of each changed capability, as in [`ActorRef::capability`](crate::ActorRef::capability).
    ///
    /// # Errors
    /// When a manifest is bad, two handlers would claim one type, an id is unknown or taken, or the loop does not run.
    /// Nothing has changed then, and the event `Sys.ReloadFailed` says why.
    pub fn reload(&mut self, changes: Vec<Change>, now: Now) -> Result<Vec<u32>, ReloadRefused> {
        match self.check_reload(changes) {
            Ok(steps) => Ok(self.carry_out_reload(steps, now)),
            Err(reason) => {
                self.counters.reloads_refused += 1;
                self.log(Level::Error, format!("nothing was reloaded: {reason}"));
                self.announce("Sys.ReloadFailed", json!({ "message": reason }), now);
                Err(ReloadRefused { reason })
            }
        }
    }

    fn check_reload(&self, changes: Vec<Change>) -> Result<Vec<Step>, String> {
        match self.life {
            Life::Running => {}
            Life::Booting => return Err("the boot is not complete".to_owned()),
            _ => return Err("the loop is shutting down".to_owned()),
        }
        let mut places = Vec::new();
        let mut fresh = self.actors.len() as u32;
        for (at, change) in changes.iter().enumerate() {
            if changes[..at].iter().any(|other| other.id() == change.id()) {
                return Err(format!("{:?} is named twice", change.id()));
            }
            places.push(self.place_of(change, &mut fresh)?);
        }
        if fresh as usize > CAPABILITIES_MAX {
            return Err(format!("more than {CAPABILITIES_MAX} capabilities, with those that were removed"));
        }
        let steps = places.into_iter().zip(changes).map(|(capability, change)| {
            let what = match change {
                Change::Add(manifest) => What::Install(read(manifest)?, News::Added),
                Change::Replace(manifest) => What::Install(read(manifest)?, News::Replaced),
                Change::Restart(_) => What::Restart,
                Change::Remove(_) => What::Remove,
            };
            Ok(Step { capability, what })
        });
        let steps = steps.collect::<Result<Vec<Step>, String>>()?;
        let candidates: Vec<&Candidate> = steps
            .iter()
            .filter_map(
                |step| if let What::Install(candidate, _) = &step.what { Some(&**candidate) } else { None },
            )
            .collect();
        self.check_claims(&candidates, |capability| is_vacated(&steps, capability))?;
        Ok(steps)
    }

    /// The number of the capability that a change concerns, or a fresh one.
    fn place_of(&self, change: &Change, fresh: &mut u32) -> Result<u32, String> {
        let id = change.id();
        let found = self.actors.iter().position(|actor| actor.manifest.id == id);
        let there = found.is_some_and(|at| !self.actors[at].succession.removed);
        match (change, found) {
            (Change::Add(_), _) if there => Err(format!("there is a capability {id:?} already")),
            (Change::Add(_), Some(removed)) => Ok(removed as u32),
            (Change::Add(_), None) => {
                *fresh += 1;
                Ok(*fresh - 1)
            }
            (_, Some(at)) if there => Ok(at as u32),
            _ => Err(format!("there is no capability {id:?}")),
        }
    }

    fn carry_out_reload(&mut self, steps: Vec<Step>, now: Now) -> Vec<u32> {
        let numbers: Vec<u32> = steps.iter().map(|step| step.capability).collect();
        self.routes.vacate(|capability| is_vacated(&steps, capability));
        for Step { capability, what } in steps {
            self.counters.reloads += 1;
            match what {
                What::Install(candidate, _) if capability as usize == self.actors.len() => {
                    self.add_capability(*candidate);
                    self.actors[capability as usize].succession.news = Some(News::Added);
                }
                What::Install(candidate, news) => {
                    let contract = self.add_routes(capability, *candidate);
                    let succession = &mut self.actors[capability as usize].succession;
                    succession.removed = false;
                    succession.next = Some(Box::new(contract));
                    succession.news = Some(news);
                }
                What::Restart => {
                    let succession = &mut self.actors[capability as usize].succession;
                    succession.news.get_or_insert(News::Restarted);
                }
                What::Remove => self.actors[capability as usize].succession.removed = true,
            }
        }
        let mut moving = Vec::new();
        for capability in &numbers {
            self.reroute(*capability, &mut moving, now);
        }
        for capability in &numbers {
            self.begin_succession(*capability, now);
        }
        for (capability, key) in moving {
            self.post(capability, key, now);
        }
        numbers
    }

    /// Finds the new way of everything that waits for a capability.
    fn reroute(&mut self, capability: u32, moving: &mut Vec<(u32, RequestKey)>, now: Now) {
        let mut kept = VecDeque::new();
        for mail in std::mem::take(&mut self.actors[capability as usize].mailbox) {
            match mail {
                Mail::Request(key) => {
                    let waits = self.requests.get(key).is_some_and(|live| live.phase == Phase::Mailbox);
                    if waits && self.reroute_request(capability, key, moving, now) {
                        kept.push_back(mail);
                    }
                }
                Mail::Event(event) => {
                    if self.still_wants(capability, &event) {
                        kept.push_back(Mail::Event(event));
                        continue;
                    }
                    let it = &mut self.actors[capability as usize];
                    it.mail_len -= 1;
                    it.mail_bytes -= event.line().len();
                    let reason = format!("{} does not take it since it was reloaded", it.manifest.id);
                    self.bury(Owner::Capability(capability), event, &reason, 0, now);
                }
            }
        }
        self.actors[capability as usize].mailbox = kept;
        for key in self.requests.live_keys() {
            let waits = self
                .requests
                .get(key)
                .is_some_and(|live| matches!(live.phase, Phase::Lane | Phase::Retrying(_)));
            if waits && self.requests.entry(key.slot()).handler == Handler::Capability(capability) {
                self.reroute_request(capability, key, moving, now);
            }
        }
    }

    /// Finds the new way of one request; returns whether it stays.
    fn reroute_request(
        &mut self,
        capability: u32,
        key: RequestKey,
        moving: &mut Vec<(u32, RequestKey)>,
        now: Now,
    ) -> bool {
        match self.way_of(capability, key) {
            Way::Stays => return true,
            Way::Ends(refusal) => self.fail(key, refusal.failure, &refusal.text, now),
            Way::Moves(to) => {
                self.actors[capability as usize].pending -= 1;
                self.actors[to as usize].pending += 1;
                self.requests.hand_over(key, to);
                let Some(live) = self.requests.get_mut(key) else { return false };
                if live.phase == Phase::Mailbox {
                    // Until it is in the other mailbox it counts for none.
                    live.phase = Phase::Lane;
                    let it = &mut self.actors[capability as usize];
                    it.mail_len -= 1;
                    it.mail_bytes -= live.message.line().len();
                    moving.push((to, key));
                }
            }
        }
        false
    }

    fn way_of(&self, capability: u32, key: RequestKey) -> Way {
        let Some(live) = self.requests.get(key) else { return Way::Stays };
        let succession = &self.actors[capability as usize].succession;
        match self.route_request(&live.message) {
            Ok(Handler::Capability(to)) if to != capability => Way::Moves(to),
            Ok(_) => Way::Stays,
            // The program that it was accepted for is still there, and finishes it.
            Err(_) if succession.removed && succession.next.is_none() => Way::Stays,
            Err(refusal) => Way::Ends(refusal),
        }
    }

    fn still_wants(&self, capability: u32, event: &Envelope) -> bool {
        let succession = &self.actors[capability as usize].succession;
        if succession.removed {
            return succession.next.is_none();
        }
        let subscribers = self.routes.subscribers(event.type_name());
        let Some(subscriber) = subscribers.iter().find(|it| it.capability == capability) else {
            return false;
        };
        subscriber
            .inbound
            .as_ref()
            .is_none_or(|inbound| inbound.check(event.data(), event.metadata()).is_ok())
    }

    /// Whether a request that this life of a capability failed over may be given to the next.
    pub(crate) fn next_life_takes(&self, capability: u32, message: &Envelope) -> bool {
        let succession = &self.actors[capability as usize].succession;
        (succession.next.is_none() && !succession.removed)
            || matches!(self.route_request(message), Ok(Handler::Capability(to)) if to == capability)
    }
}

fn read(manifest: Manifest) -> Result<Box<Candidate>, String> {
    check_manifest(&manifest)?;
    Candidate::discover(manifest).map(Box::new)
}

/// Whether the routes to a capability are free for others.
fn is_vacated(steps: &[Step], capability: u32) -> bool {
    steps.iter().any(|step| step.capability == capability && !matches!(step.what, What::Restart))
}
