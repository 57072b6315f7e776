//! Power cuts at random moments of random traffic. One ledger goes over all runs of the daemon:
//! what was told, what reached actors, and that each command has one outcome.

use crate::bus::Bus;
use crate::support::{line, manifest};
use mainspring_kernel::{ActorRef, Manifest, Redeliver};
use mainspring_message::Envelope;
use serde_json::{Value, json};
use std::collections::BTreeMap;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % bound as u64) as usize
    }
}

const TYPES: [(&str, Redeliver); 3] =
    [("Once.Do", Redeliver::IfNotStarted), ("Again.Do", Redeliver::Always), ("Never.Do", Redeliver::Never)];

fn capabilities() -> Vec<Manifest> {
    TYPES
        .iter()
        .map(|(name, redeliver)| Manifest {
            redeliver: *redeliver,
            retry: mainspring_kernel::RetryPolicy { attempts: 50, backoff_ms: 10 },
            ..manifest(&name.to_lowercase().replace('.', "-"), &[&format!("command:{name}")])
        })
        .collect()
}

/// What is known of a command from outside.
#[derive(Default)]
struct Account {
    type_name: &'static str,
    deliveries: u64,
    /// The outcome that was told: a reply, or an error after an actor had it.
    told: Option<Value>,
}

struct Story {
    bus: Bus,
    dice: Dice,
    accounts: BTreeMap<String, Account>,
    in_progress: Vec<(ActorRef, Envelope)>,
    connections: u64,
    seed: u64,
}

impl Story {
    fn step(&mut self) {
        match self.dice.below(20) {
            0..=6 => self.send_new(),
            7 | 8 => self.send_again(),
            9..=13 => self.reply(),
            14..=16 => {
                let count = self.bus.flushed + self.dice.below(4);
                self.bus.flush_up_to(count);
                self.bus.run();
            }
            17 => self.bus.pass_ms([1, 50, 5_000][self.dice.below(3)]),
            18 if self.dice.below(4) == 0 => self.crash_actor(),
            18 => {}
            _ => self.cut_power(),
        }
        self.look();
    }

    fn connect(&mut self) -> mainspring_kernel::ConnectionId {
        self.connections += 1;
        let peer = "alice";
        self.bus.connect(self.connections, peer)
    }

    fn send_new(&mut self) {
        let (type_name, _) = TYPES[self.dice.below(3)];
        let id = format!("c-{}", self.accounts.len());
        self.accounts.insert(id.clone(), Account { type_name, ..Account::default() });
        let connection = self.connect();
        self.bus.send(connection, &line("command", type_name, &id, json!({})));
    }

    fn send_again(&mut self) {
        if self.accounts.is_empty() {
            return;
        }
        let id = format!("c-{}", self.dice.below(self.accounts.len()));
        let type_name = self.accounts[&id].type_name;
        let connection = self.connect();
        self.bus.send(connection, &line("command", type_name, &id, json!({})));
    }

    fn reply(&mut self) {
        if self.in_progress.is_empty() {
            return;
        }
        let at = self.dice.below(self.in_progress.len());
        let (actor, request) = self.in_progress.swap_remove(at);
        self.bus.replies(actor, &request, json!({ "by": self.dice.below(1000) }));
    }

    fn crash_actor(&mut self) {
        let Some((actor, _)) = self.in_progress.first().cloned() else { return };
        self.in_progress.retain(|(other, _)| *other != actor);
        let exit = mainspring_kernel::ActorExit::Failed("exit code 7".into());
        self.bus.kernel.actor_exited(actor, exit, self.bus.now);
        self.bus.pass_ms(1_100);
    }

    fn cut_power(&mut self) {
        // Part of what waited may have reached the disk, and nobody was told.
        let count = self.bus.flushed + self.dice.below(3);
        let unheard = self.bus.recorded.len().min(count);
        let flushed = self.bus.flushed.min(unheard);
        let more: Vec<_> = self.bus.recorded[flushed..unheard].to_vec();
        self.bus.disk.extend(more);
        self.in_progress.clear();
        let down_ms = [1, 100, 40_000][self.dice.below(3)];
        self.bus.cut_power(down_ms);
    }

    /// Takes note of what left the daemon, and checks it.
    fn look(&mut self) {
        let seed = self.seed;
        for (actor, message) in std::mem::take(&mut self.bus.delivered) {
            let account = self.accounts.get_mut(message.id()).expect("a command that somebody sent");
            account.deliveries += 1;
            let metadata: Value = serde_json::from_str(message.metadata()).unwrap();
            let attempt = metadata["attempt"].as_u64().unwrap_or(1);
            assert!(account.told.is_none(), "seed {seed}: {} is delivered after its end", message.id());
            assert!(attempt >= account.deliveries, "seed {seed}: {} counts wrong", message.id());
            self.in_progress.push((actor, message));
        }
        for (_, answer) in std::mem::take(&mut self.bus.written) {
            let Some(id) = answer.causation() else { continue };
            let Some(account) = self.accounts.get_mut(id) else { continue };
            let data: Value = answer.data_as().unwrap();
            if answer.kind().as_str() == "error" && data["started"] == "no" {
                assert_eq!(account.deliveries, 0, "seed {seed}: `started: no` is wrong for {id}: {data}");
                continue;
            }
            // The answer is no longer remembered, or too many wait: neither is an outcome.
            if data["code"] == 409 || data["code"] == 429 {
                continue;
            }
            let outcome = json!({ "type": answer.type_name(), "data": data });
            match &account.told {
                Some(before) => assert_eq!(before, &outcome, "seed {seed}: {id} has two outcomes"),
                None => account.told = Some(outcome),
            }
        }
        assert!(self.bus.kernel.audit().is_ok(), "seed {seed}: {:?}", self.bus.kernel.audit());
    }
}

#[test]
fn j1_2_power_cuts_at_random_leave_one_outcome_for_each_command_over_all_runs() {
    let (mut told, mut cuts) = (0, 0);
    for seed in 0..150 {
        let mut bus = Bus::new(capabilities());
        bus.quick = seed % 5 == 0;
        let accounts = BTreeMap::new();
        let mut story =
            Story { bus, dice: Dice(seed), accounts, in_progress: Vec::new(), connections: 0, seed };
        for _ in 0..60 + seed % 60 {
            let starts = story.bus.disk.iter().filter(|fact| fact.name() == "started").count();
            story.step();
            cuts += story.bus.disk.iter().filter(|fact| fact.name() == "started").count() - starts;
        }
        // In the end everything was told is told again, and what is left comes to an end.
        story.bus.quick = true;
        story.bus.flush();
        story.look();
        story.cut_power();
        story.look();
        let ids: Vec<String> = story.accounts.keys().cloned().collect();
        for id in ids {
            let (type_name, expected) = (story.accounts[&id].type_name, story.accounts[&id].told.clone());
            let Some(expected) = expected else { continue };
            told += 1;
            let connection = story.connect();
            story.bus.send(connection, &line("command", type_name, &id, json!({})));
            let (_, answer) = story.bus.written.pop().unwrap_or_else(|| panic!("seed {seed}: {id} is gone"));
            let data: Value = answer.data_as().unwrap();
            let outcome = json!({ "type": answer.type_name(), "data": data });
            assert_eq!(outcome, expected, "seed {seed}: {id}");
        }
    }
    assert!(told > 400 && cuts > 100, "{told} told, {cuts} cuts");
}
