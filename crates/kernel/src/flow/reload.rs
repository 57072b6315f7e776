//! Changes of the capabilities of a running kernel: checked as a whole, then made as a whole or not
//! at all.

use crate::actors::contract::{Candidate, check_manifest};
use crate::actors::{Mail, News, NextStep};
use crate::api::effect::Level;
use crate::api::ids::{CapabilityId, Now};
use crate::api::manifest::Manifest;
use crate::flow::refusal::Refusal;
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use mainspring_message::Envelope;
use serde_json::json;
use std::collections::VecDeque;

/// The most capabilities, with those that were removed. Beyond: a reload that adds one is refused.
const CAPABILITIES_MAX: usize = 4096;

/// One change of the capabilities.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// There is one more. One that was removed before comes back in its old place.
    Add(Manifest),
    /// The capability of that id has this manifest, and a new incarnation.
    Replace(Manifest),
    /// The capability of this id has a new incarnation (of another program, perhaps) under the same
    /// manifest.
    Restart(String),
    /// The capability of this id is no more. It finishes what was accepted for it; what is new is
    /// refused (404).
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
struct ReloadStep {
    capability: CapabilityId,
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
    Moves(CapabilityId),
    Ends(Refusal),
}

impl Kernel {
    /// Changes the capabilities of the running kernel, all as asked or not at all.
    ///
    /// Routes and schemas change at once. What waits for a capability is routed anew: it stays,
    /// moves to whoever handles its type now, or ends with the error that it would get if it came
    /// now. An incarnation that runs is retired: it gets nothing new, finishes what it has, and is
    /// followed by the next, which gets the mailbox.
    ///
    /// Returns the number of each changed capability, as in
    /// [`ActorRef::capability`](crate::ActorRef::capability).
    ///
    /// # Errors
    /// When a manifest is bad, two handlers would claim one type, an id is unknown or taken, or the
    /// kernel does not run. Nothing has changed then, and the event `Sys.ReloadFailed` says why.
    pub fn reload(&mut self, changes: Vec<Change>, now: Now) -> Result<Vec<CapabilityId>, ReloadRefused> {
        self.out.now = now;
        self.note(now, |pen| pen.reload(&changes));
        self.change(changes)
    }

    pub(crate) fn change(&mut self, changes: Vec<Change>) -> Result<Vec<CapabilityId>, ReloadRefused> {
        match self.check_reload(changes) {
            Ok(steps) => Ok(self.carry_out_reload(steps)),
            Err(reason) => {
                self.out.counters.reloads_refused += 1;
                self.out.log(Level::Error, format!("nothing was reloaded: {reason}"));
                self.out.announce("Sys.ReloadFailed", json!({ "message": reason }));
                Err(ReloadRefused { reason })
            }
        }
    }

    fn check_reload(&self, changes: Vec<Change>) -> Result<Vec<ReloadStep>, String> {
        self.lifecycle.check_running()?;
        let mut places = Vec::new();
        let mut fresh = self.actors.next_id();
        for (at, change) in changes.iter().enumerate() {
            if changes[..at].iter().any(|other| other.id() == change.id()) {
                return Err(format!("{:?} is named twice", change.id()));
            }
            places.push(self.place_of(change, &mut fresh)?);
        }
        if fresh.index() > CAPABILITIES_MAX {
            return Err(format!("more than {CAPABILITIES_MAX} capabilities, with those that were removed"));
        }
        let steps = places.into_iter().zip(changes).map(|(capability, change)| {
            let what = match change {
                Change::Add(manifest) => What::Install(read(manifest)?, News::Added),
                Change::Replace(manifest) => What::Install(read(manifest)?, News::Replaced),
                Change::Restart(_) => What::Restart,
                Change::Remove(_) => What::Remove,
            };
            Ok(ReloadStep { capability, what })
        });
        let steps = steps.collect::<Result<Vec<ReloadStep>, String>>()?;
        let candidates: Vec<&Candidate> = steps
            .iter()
            .filter_map(
                |step| if let What::Install(candidate, _) = &step.what { Some(&**candidate) } else { None },
            )
            .collect();
        let vacated = |capability| is_vacated(&steps, capability);
        self.routes.check_claims(&candidates, vacated, |capability| self.actors.id(capability))?;
        Ok(steps)
    }

    /// The number of the capability that a change concerns, or a fresh one.
    fn place_of(&self, change: &Change, fresh: &mut CapabilityId) -> Result<CapabilityId, String> {
        let id = change.id();
        match (change, self.actors.find(id)) {
            (Change::Add(_), Some((_, false))) => Err(format!("there is a capability {id:?} already")),
            (Change::Add(_), Some((removed, true))) => Ok(removed),
            (Change::Add(_), None) => {
                let place = *fresh;
                fresh.0 += 1;
                Ok(place)
            }
            (_, Some((there, false))) => Ok(there),
            _ => Err(format!("there is no capability {id:?}")),
        }
    }

    fn carry_out_reload(&mut self, steps: Vec<ReloadStep>) -> Vec<CapabilityId> {
        let numbers: Vec<CapabilityId> = steps.iter().map(|step| step.capability).collect();
        self.routes.vacate(|capability| is_vacated(&steps, capability));
        for ReloadStep { capability, what } in steps {
            self.out.counters.reloads += 1;
            match what {
                What::Install(candidate, news) if capability == self.actors.next_id() => {
                    self.add_capability(*candidate);
                    self.actors.set_news(capability, news);
                }
                What::Install(candidate, news) => {
                    let contract = self.routes.add(capability, *candidate);
                    self.actors.install(capability, contract, news);
                }
                What::Restart => self.actors.set_news(capability, News::Restarted),
                What::Remove => self.actors.remove(capability),
            }
        }
        let mut moving = Vec::new();
        for capability in &numbers {
            self.reroute(*capability, &mut moving);
        }
        for capability in &numbers {
            match self.actors.begin_succession(*capability, &mut self.out) {
                NextStep::Pump => self.deliver_mail(*capability),
                NextStep::Wait => {}
                NextStep::Next => self.next_incarnation(*capability),
            }
        }
        for (capability, key) in moving {
            self.post(capability, key);
        }
        numbers
    }

    /// Finds the new way of everything that waits for a capability.
    fn reroute(&mut self, capability: CapabilityId, moving: &mut Vec<(CapabilityId, RequestKey)>) {
        let mut kept = VecDeque::new();
        for mail in self.actors.take_mail(capability) {
            match mail {
                Mail::Request(key, _) => {
                    if self.requests.waits_in_mailbox(key) && self.reroute_request(capability, key, moving) {
                        kept.push_back(mail);
                    }
                }
                Mail::Event(event) if self.still_wants(capability, &event) => {
                    kept.push_back(Mail::Event(event));
                }
                Mail::Event(event) => {
                    let id = self.actors.id(capability);
                    let reason = format!("{id} does not take it since it was reloaded");
                    self.bury_mail(capability, event, &reason);
                }
            }
        }
        self.actors.put_back(capability, kept);
        for key in self.requests.on_the_way_to(capability) {
            self.reroute_request(capability, key, moving);
        }
    }

    /// Finds the new way of one request; returns whether it stays.
    fn reroute_request(
        &mut self,
        capability: CapabilityId,
        key: RequestKey,
        moving: &mut Vec<(CapabilityId, RequestKey)>,
    ) -> bool {
        match self.way_of(capability, key) {
            Way::Stays => return true,
            Way::Ends(refusal) => self.fail(key, refusal.failure, &refusal.text),
            Way::Moves(to) => {
                if let Some(bytes) = self.requests.hand_over(key, to) {
                    self.actors.forget_mail(capability, bytes);
                    moving.push((to, key));
                }
            }
        }
        false
    }

    fn way_of(&self, capability: CapabilityId, key: RequestKey) -> Way {
        let Some(message) = self.requests.message(key) else { return Way::Stays };
        match self.routes.find(message) {
            Ok(Handler::Capability(to)) if to != capability => Way::Moves(to),
            Ok(_) => Way::Stays,
            // The program that it was accepted for is still there, and finishes it.
            Err(_) if self.actors.finishes_for_removal(capability) => Way::Stays,
            Err(refusal) => Way::Ends(refusal),
        }
    }

    fn still_wants(&self, capability: CapabilityId, event: &Envelope) -> bool {
        match self.actors.is_removed(capability) {
            true => self.actors.finishes_for_removal(capability),
            false => self.routes.wants(capability, event),
        }
    }

    /// Whether a request that this incarnation of a capability failed over may be given to the
    /// next.
    pub(super) fn next_incarnation_takes(&self, capability: CapabilityId, message: &Envelope) -> bool {
        self.actors.next_is_the_same(capability)
            || matches!(self.routes.find(message), Ok(Handler::Capability(to)) if to == capability)
    }
}

fn read(manifest: Manifest) -> Result<Box<Candidate>, String> {
    check_manifest(&manifest)?;
    Candidate::discover(manifest).map(Box::new)
}

/// Whether the routes to a capability are free for others.
fn is_vacated(steps: &[ReloadStep], capability: CapabilityId) -> bool {
    steps.iter().any(|step| step.capability == capability && !matches!(step.what, What::Restart))
}
