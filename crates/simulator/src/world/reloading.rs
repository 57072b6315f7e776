//! Reloads: capabilities are replaced, restarted, removed and added while everything else goes on.

use mainspring_kernel::{Change, Manifest};
use serde_json::json;

use crate::random::Random;
use crate::world::action::Reload;
use crate::world::actor::{Actor, Presence};
use crate::world::ledger::Ledger;
use crate::world::scenario::{CAPABILITIES_MAX, manifest};
use crate::world::{Checked, World, must};

impl World {
    pub(crate) fn reload(&mut self, actor: u8, how: Reload) -> Checked {
        if !self.booted || self.adapter_stopped {
            return Ok(());
        }
        let capability = actor as usize % self.actors.len();
        let removed = self.ledgers[capability].removed;
        match how {
            Reload::Bad(way) => self.reload_badly(capability, way),
            Reload::AddNew(seed) if self.actors.len() < CAPABILITIES_MAX as usize => {
                let at = self.actors.len();
                let added = manifest(&mut Random::new(seed.into()), at, at + 1);
                self.actors.push(Actor::new());
                self.ledgers.push(Ledger::new(&added));
                self.scenario.native.push(seed.is_multiple_of(2));
                // Events from before were never for it.
                self.ledgers[at].always_wants.clear();
                self.scenario.plan.capabilities.push(added.clone());
                self.reload_well(at, Change::Add(added))
            }
            Reload::Remove if !removed => {
                self.ledgers[capability].removed = true;
                self.ledgers[capability].always_wants.clear();
                self.reload_well(capability, Change::Remove(format!("cap{capability}")))
            }
            Reload::Restart if !removed => {
                self.reload_well(capability, Change::Restart(format!("cap{capability}")))
            }
            Reload::Replace(seed) | Reload::AddNew(seed) => {
                let other = self.other_manifest(capability, seed);
                self.ledgers[capability].replace(&other);
                self.scenario.plan.capabilities[capability] = other.clone();
                let change = if removed { Change::Add(other) } else { Change::Replace(other) };
                self.reload_well(capability, change)
            }
            Reload::Remove | Reload::Restart => Ok(()),
        }
    }

    /// A manifest of the same capability with other limits, policies, subscriptions and schemas.
    fn other_manifest(&self, capability: usize, seed: u16) -> Manifest {
        let mut random = Random::new(seed.into());
        let mut other = manifest(&mut random, capability, self.actors.len());
        if random.percent(15) {
            // It answers no queries any more.
            if let Some(branches) = other.inbound["anyOf"].as_array_mut() {
                branches.truncate(1);
            }
        }
        other
    }

    fn reload_well(&mut self, capability: usize, change: Change) -> Checked {
        let replaces = matches!(change, Change::Replace(_) | Change::Add(_));
        let removes = matches!(change, Change::Remove(_));
        self.note(|_| format!("reload: {change:?}"));
        let (it, ledger) = (&self.actors[capability], &mut self.ledgers[capability]);
        ledger.succession = true;
        if it.presence != Presence::Absent {
            let over_by_ns = self.now.mono_ns + self.scenario.config.drain_ms as i64 * 1_000_000;
            if ledger.over_by_ns.is_none_or(|(incarnation, _)| incarnation != it.incarnation) {
                ledger.over_by_ns = Some((it.incarnation, over_by_ns));
            }
            let held_by_manifest = ledger.held.is_some_and(|held| held == (it.incarnation, true));
            if removes && !held_by_manifest {
                ledger.held = None;
            } else {
                ledger.held = Some((it.incarnation, replaces || held_by_manifest));
            }
        }
        let result = self.kernel.reload(vec![change], self.now);
        must!(
            result == Ok(vec![mainspring_kernel::CapabilityId(capability as u32)]),
            "cap{capability} is not reloaded: {result:?}"
        );
        self.counts.reloads += 1;
        self.carry_out()
    }

    /// A reload with something wrong in it, beside something that is right.
    fn reload_badly(&mut self, capability: usize, way: u8) -> Checked {
        let mut bad = self.scenario.plan.capabilities[capability].clone();
        let other = (capability + 1) % self.actors.len();
        let mut changes = vec![Change::Restart(format!("cap{other}"))];
        match way % 4 {
            0 => bad.inbound = json!({ "properties": { "kind": { "const": "command" } } }),
            1 => bad.inbound["anyOf"][0]["properties"]["type"] = json!({ "const": format!("Cap{other}.Do") }),
            2 => bad.description.clear(),
            _ => bad.id = "nobody".to_owned(),
        }
        if self.ledgers[other].removed {
            changes.clear();
        }
        // Without its rightful owner, a claim is nothing bad.
        if self.ledgers[capability].removed || (way % 4 == 1 && self.ledgers[other].removed) {
            return Ok(());
        }
        changes.push(Change::Replace(bad));
        let before = self.kernel.census();
        let refused = self.kernel.reload(changes, self.now).is_err();
        must!(refused, "a bad reload of cap{capability} was not refused");
        let mut after = self.kernel.census();
        // The event that tells of it.
        (after.system_lane, after.memory_bytes) = (before.system_lane, before.memory_bytes);
        must!(after == before, "a refused reload changed {before:?} to {after:?}");
        let effects = self.counts.effects;
        self.carry_out()?;
        must!(self.counts.effects <= effects + 1, "a refused reload did more than to say so");
        Ok(())
    }

    /// An incarnation that was to end has ended in time.
    pub(crate) fn check_successions(&self) -> Checked {
        if self.adapter_stopped {
            return Ok(());
        }
        for (capability, (it, ledger)) in self.actors.iter().zip(&self.ledgers).enumerate() {
            let Some((incarnation, by_ns)) = ledger.over_by_ns else { continue };
            let late =
                it.incarnation == incarnation && it.presence != Presence::Absent && self.now.mono_ns > by_ns;
            must!(!late, "incarnation {incarnation} of cap{capability} goes on though it was to end");
        }
        Ok(())
    }
}
