//! What clients and actors do before, between and after power cuts, and the ledger of what was
//! told.

use super::PowerReport;
use super::daemon::{Daemon, Out};
use super::disk::Disk;
use crate::random::Random;
use crate::world::{Checked, Violation, must};
use mainspring_kernel::{ActorExit, ActorRef, ConnectionId, Manifest, Now, Redeliver, RetryPolicy};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

const TYPES: [(&str, Redeliver); 3] =
    [("Once.Do", Redeliver::IfNotStarted), ("Again.Do", Redeliver::Always), ("Never.Do", Redeliver::Never)];

fn capabilities() -> Vec<Manifest> {
    let manifest = |(name, redeliver): &(&str, Redeliver)| {
        let read: Result<Manifest, _> = serde_json::from_value(json!({
            "id": name.to_lowercase().replace('.', "-"),
            "description": "Takes part in a simulation.",
            "inbound": { "properties": { "kind": { "const": "command" }, "type": { "const": name } } },
            "durable_events": true,
            "limits": { "concurrency": 3 },
        }));
        read.map(|manifest| Manifest {
            redeliver: *redeliver,
            retry: RetryPolicy { attempts: 50, backoff_ms: 10 },
            ..manifest
        })
    };
    TYPES.iter().filter_map(|entry| manifest(entry).ok()).collect()
}

fn line(type_name: &str, id: &str, data: &Value) -> String {
    json!({ "kind": "command", "type": type_name, "data": data, "metadata": { "id": id, "timestamp": 1 } })
        .to_string()
}

/// What is known of a command from outside.
#[derive(Default)]
struct Account {
    type_name: &'static str,
    deliveries: u64,
    /// The outcome that was told: a reply, or an error after an actor had it.
    told: Option<Value>,
}

/// What the subscriber of durable events knows.
#[derive(Default)]
struct Subscriber {
    connection: Option<ConnectionId>,
    /// The event that it must get next on this connection, and the last one that the daemon says is
    /// acknowledged.
    next: u64,
    acknowledged: u64,
    /// Every event that it ever got, by number: it is the same each time.
    got: BTreeMap<u64, String>,
}

pub(super) struct PowerStory {
    random: Random,
    disk: Disk,
    daemon: Daemon,
    accounts: BTreeMap<String, Account>,
    in_progress: Vec<(ActorRef, Envelope)>,
    subscriber: Subscriber,
    connections: u64,
    serial: u64,
    report: PowerReport,
    digest: DefaultHasher,
}

impl PowerStory {
    pub(super) fn new(mut random: Random) -> Result<PowerStory, Violation> {
        let mut disk = Disk::new();
        let now = Now { mono_ns: 5_000_000_000, unix_ms: 1_767_910_000_000 };
        let durable = disk.open()?;
        let daemon = Daemon::start(durable, capabilities(), random.word(), now, &mut disk)?;
        Ok(PowerStory {
            random,
            disk,
            daemon,
            accounts: BTreeMap::new(),
            in_progress: Vec::new(),
            subscriber: Subscriber::default(),
            connections: 0,
            serial: 0,
            report: PowerReport::default(),
            digest: DefaultHasher::new(),
        })
    }

    pub(super) fn step(&mut self) -> Checked {
        match self.random.below(40) {
            0..=10 => self.send_new()?,
            11..=13 => self.send_again()?,
            14..=21 => self.reply()?,
            22..=28 => self.flush()?,
            29 => {
                let ms = self.random.pick(&[1, 50, 5_000]);
                self.daemon.pass_ms(ms, &mut self.disk)?;
            }
            30 => self.crash_actor()?,
            31 => self.say_event()?,
            32 => self.subscribe()?,
            33 | 34 => self.acknowledge()?,
            35 | 36 => self.snapshot()?,
            37 => {
                self.disk.crash_soon(&mut self.random);
                self.report.torn += 1;
            }
            38 if self.random.percent(50) => self.cut_power()?,
            _ => {}
        }
        self.look()
    }

    /// Everything that was told is told again by one more run, and the accounts agree.
    pub(super) fn end(mut self) -> Result<PowerReport, Violation> {
        self.flush()?;
        self.look()?;
        self.cut_power()?;
        self.look()?;
        let told: Vec<(String, &'static str, Value)> = self
            .accounts
            .iter()
            .filter_map(|(id, account)| Some((id.clone(), account.type_name, account.told.clone()?)))
            .collect();
        for (id, type_name, expected) in told {
            self.report.told += 1;
            let connection = self.connect("alice");
            self.daemon.send(connection, &line(type_name, &id, &json!({})), &mut self.disk)?;
            self.flush()?;
            let answer = self.daemon.out.drain(..).find_map(|out| match out {
                Out::Written(_, answer) if answer.causation() == Some(&id) => Some(outcome(&answer)),
                _ => None,
            });
            must!(answer.as_ref() == Some(&expected), "{id} was told {expected}, and is {answer:?} now");
        }
        self.subscribe()?;
        self.flush()?;
        self.look()?;
        self.report.facts = self.disk.facts();
        self.report.snapshots = self.disk.snapshots;
        self.report.digest = self.digest.finish();
        Ok(self.report)
    }

    fn connect(&mut self, peer: &str) -> ConnectionId {
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        self.daemon.connect(connection, peer);
        connection
    }

    fn fresh(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn send_new(&mut self) -> Checked {
        let (type_name, _) = self.random.pick(&TYPES);
        let id = format!("c-{}", self.accounts.len());
        self.accounts.insert(id.clone(), Account { type_name, ..Account::default() });
        let connection = self.connect("alice");
        self.daemon.send(connection, &line(type_name, &id, &json!({})), &mut self.disk)
    }

    fn send_again(&mut self) -> Checked {
        let Some(at) = (!self.accounts.is_empty()).then(|| self.random.below(self.accounts.len() as u64))
        else {
            return Ok(());
        };
        let id = format!("c-{at}");
        let type_name = self.accounts.get(&id).map_or("Once.Do", |account| account.type_name);
        let connection = self.connect("alice");
        self.daemon.send(connection, &line(type_name, &id, &json!({})), &mut self.disk)
    }

    /// An actor answers something that it has, often with an event before.
    fn reply(&mut self) -> Checked {
        if self.in_progress.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.in_progress.len() as u64) as usize;
        let (actor, request) = self.in_progress.swap_remove(at);
        if self.random.percent(40) {
            self.emit(actor, &request);
        }
        let data = json!({ "by": self.random.below(1000) });
        self.daemon.kernel.actor_message(actor, Draft::reply(&request, Json::from(data)), self.daemon.now);
        self.daemon.run(&mut self.disk)
    }

    fn say_event(&mut self) -> Checked {
        if let Some((actor, request)) = self.in_progress.first().cloned() {
            self.emit(actor, &request);
        }
        self.daemon.run(&mut self.disk)
    }

    fn emit(&mut self, actor: ActorRef, request: &Envelope) {
        // Some of them are large, so that segments become full.
        let padding = "x".repeat(self.random.pick(&[0, 100, 9_000]));
        let data = json!({ "n": self.fresh(), "padding": padding });
        let event = Draft::caused_by(request, Kind::Event, "Shop.Sold", Json::from(data));
        self.daemon.kernel.actor_message(actor, event, self.daemon.now);
    }

    fn crash_actor(&mut self) -> Checked {
        let Some((actor, _)) = self.in_progress.first().cloned() else { return Ok(()) };
        self.in_progress.retain(|(other, _)| *other != actor);
        let exit = ActorExit::Failed("exit code 7".into());
        self.daemon.kernel.actor_exited(actor, exit, self.daemon.now);
        self.daemon.pass_ms(1_100, &mut self.disk)
    }

    fn subscribe(&mut self) -> Checked {
        if let Some(old) = self.subscriber.connection.take() {
            self.daemon.kernel.connection_closed(old, self.daemon.now);
        }
        let connection = self.connect("bob");
        (self.subscriber.connection, self.subscriber.next) = (Some(connection), 0);
        let id = format!("s-{}", self.fresh());
        let data = json!({ "types": ["Shop.*"], "cursor": "billing" });
        self.daemon.send(connection, &line("Sys.Subscribe", &id, &data), &mut self.disk)
    }

    /// Acknowledges something of what it got.
    fn acknowledge(&mut self) -> Checked {
        let (Some(connection), true) = (self.subscriber.connection, self.subscriber.next > 1) else {
            return Ok(());
        };
        let event = self.subscriber.next - 1 - self.random.below(2);
        let id = format!("a-{}", self.fresh());
        let data = json!({ "cursor": "billing", "event": event });
        self.daemon.send(connection, &line("Sys.Acknowledge", &id, &data), &mut self.disk)
    }

    fn flush(&mut self) -> Checked {
        match self.disk.flush(self.daemon.now.unix_ms) {
            Some(facts) => self.daemon.note_flushed(facts, &mut self.disk),
            None => self.cut_power(),
        }
    }

    fn snapshot(&mut self) -> Checked {
        if self.disk.make_snapshot(self.daemon.now.unix_ms)? {
            return Ok(());
        }
        self.cut_power()
    }

    fn cut_power(&mut self) -> Checked {
        // What has left until now has left.
        self.look()?;
        self.report.cuts += 1;
        self.in_progress.clear();
        self.subscriber.connection = None;
        self.disk.cut_power(&mut self.random);
        let down_ms = self.random.pick(&[1, 100, 40_000]);
        // Monotonic time begins anew with the machine.
        let now = Now { mono_ns: 1_000_000, unix_ms: self.daemon.now.unix_ms + down_ms };
        let durable = self.disk.open()?;
        self.daemon.check_tape()?;
        self.daemon = Daemon::start(durable, capabilities(), self.random.word(), now, &mut self.disk)?;
        Ok(())
    }

    /// Takes note of what left the daemon, and checks it.
    fn look(&mut self) -> Checked {
        for out in std::mem::take(&mut self.daemon.out) {
            match out {
                Out::Delivered(actor, message) => self.delivered(actor, message)?,
                Out::Written(connection, message) => self.written(connection, &message)?,
            }
        }
        self.daemon.kernel.audit().map(|_| ()).map_err(Violation)
    }

    fn delivered(&mut self, actor: ActorRef, message: Envelope) -> Checked {
        self.digest.write(message.line().as_bytes());
        let Some(account) = self.accounts.get_mut(message.id()) else {
            return Err(Violation(format!("nobody sent {message:?}")));
        };
        account.deliveries += 1;
        let metadata: Value = serde_json::from_str(message.metadata()).unwrap_or_default();
        let attempt = metadata["attempt"].as_u64().unwrap_or(1);
        must!(account.told.is_none(), "{} is delivered after its end", message.id());
        must!(attempt >= account.deliveries, "{} counts its deliveries wrong", message.id());
        self.in_progress.push((actor, message));
        Ok(())
    }

    fn written(&mut self, connection: ConnectionId, message: &Envelope) -> Checked {
        self.digest.write(message.line().as_bytes());
        if message.kind() == Kind::Event {
            return self.got_event(connection, message);
        }
        let data: Value = message.data_as().unwrap_or_default();
        let Some(id) = message.causation() else { return Ok(()) };
        if message.kind() == Kind::Reply && message.type_name() == "Sys.Subscribe" {
            let after = data["after"].as_u64().unwrap_or(0);
            let known = self.subscriber.acknowledged;
            must!(after >= known, "a cursor went back from {known} to {after}");
            if self.subscriber.connection == Some(connection) {
                self.subscriber.next = after + 1;
            }
        } else if message.kind() == Kind::Reply && message.type_name() == "Sys.Acknowledge" {
            let event = data["event"].as_u64().unwrap_or(0);
            self.subscriber.acknowledged = self.subscriber.acknowledged.max(event);
        }
        let Some(account) = self.accounts.get_mut(id) else { return Ok(()) };
        if message.kind() == Kind::Error && data["started"] == "no" {
            must!(account.deliveries == 0, "`started: no` is wrong for {id}: {data}");
            return Ok(());
        }
        // The answer is no longer remembered, or too many wait: neither is an outcome.
        if data["code"] == 409 || data["code"] == 429 {
            return Ok(());
        }
        let told = outcome(message);
        match &account.told {
            Some(before) => must!(*before == told, "{id} has two outcomes: {before} and {told}"),
            None => account.told = Some(told),
        }
        Ok(())
    }

    /// A subscriber gets every durable event, in order, and each is what it was.
    fn got_event(&mut self, connection: ConnectionId, event: &Envelope) -> Checked {
        let metadata: Value = serde_json::from_str(event.metadata()).unwrap_or_default();
        let Some(number) = metadata["event"].as_u64() else { return Ok(()) };
        if self.subscriber.connection != Some(connection) {
            return Ok(());
        }
        let next = self.subscriber.next;
        must!(number == next, "the event {number} came where {next} was due");
        self.subscriber.next += 1;
        self.report.events += 1;
        let line = event.line().to_owned();
        let before = self.subscriber.got.entry(number).or_insert_with(|| line.clone());
        must!(*before == line, "the event {number} is another one now: {before} and {line}");
        Ok(())
    }
}

fn outcome(answer: &Envelope) -> Value {
    let data: Value = answer.data_as().unwrap_or_default();
    json!({ "type": answer.type_name(), "data": data })
}
