//! What clients send.

use std::collections::BTreeMap;

use mainspring_message::{Kind, Parts};
use serde_json::json;

use crate::world::action::{Builtin, How, What};
use crate::world::tokens::{Sender, Token};
use crate::world::{Checked, World};

/// Timeouts that requests ask for, in milliseconds.
const TIMEOUTS_MS: [u64; 6] = [1, 5, 20, 500, 5_000, 60_000];
/// Delays of schedules, in milliseconds.
const DELAYS_MS: [u64; 5] = [0, 1, 50, 3_000, 100_000];
/// Periods of repeating schedules, in milliseconds.
const PERIODS_MS: [u64; 3] = [40, 1_000, 30_000];
/// Patterns of subscriptions.
const PATTERNS: [&str; 7] =
    ["*", "World.*", "World.Happened", "Cap0.Happened", "Cap1.*", "Sys.*", "Sys.ActorFault"];
/// How many ids all peers use, so that they collide.
const COMMON_IDS: u64 = 6;

/// The span that every message of a client says has asked for it.
pub(crate) const SPAN: &str = "00-ab";

/// The workflow of a message, which its id decides: so a repetition has the same.
pub(crate) fn correlation_of(id: &str) -> Option<String> {
    id.ends_with('w').then(|| format!("flow-{id}"))
}

struct Outgoing<'a> {
    kind: Kind,
    type_name: &'a str,
    data: String,
    timeout_ms: Option<u64>,
    id: String,
}

impl World {
    pub(crate) fn send(&mut self, client: u8, what: What, how: How) -> Checked {
        if self.clients.is_empty() || self.adapter_stopped || self.ended.is_some() {
            return Ok(());
        }
        let at = client as usize % self.clients.len();
        if self.clients[at].paused && !how.ignore_pause {
            return Ok(());
        }
        self.counts.lines += 1;
        let capabilities = self.actors.len();
        let of = |capability: u8| capability as usize % capabilities;
        let token = self.tokens.next();
        let data = json!({ "token": token }).to_string();
        match what {
            What::Command(capability) => {
                self.request(at, Kind::Command, &format!("Cap{}.Do", of(capability)), data, how)
            }
            What::Query(capability) => {
                self.request(at, Kind::Query, &format!("Cap{}.Ask", of(capability)), data, how)
            }
            What::BadData(capability) => {
                let data = json!({ "token": -1 }).to_string();
                self.request(at, Kind::Command, &format!("Cap{}.Do", of(capability)), data, how)
            }
            What::Unknown => self.request(at, Kind::Command, "Nobody.Knows", data, how),
            What::Event(_) => self.other(at, Kind::Event, "World.Happened", data, how),
            What::Reply => self.other(at, Kind::Reply, "World.Happened", data, how),
            What::Error => self.other(
                at,
                Kind::Error,
                "World.Happened",
                json!({ "code": 500, "message": "no" }).to_string(),
                how,
            ),
            What::Malformed(way) => self.malformed(at, way),
            What::TooLong => {
                let connection = self.clients[at].connection;
                self.clients[at].unreadable += 1;
                self.kernel.line_too_long(connection, self.now);
                self.carry_out()
            }
            What::Again { which, same_body } => self.again(at, which, same_body, how),
            What::Builtin(builtin) => self.builtin(at, builtin, how),
            What::Schedule { capability, delay, repeat } => {
                self.schedule(at, of(capability), delay, repeat, how)
            }
            What::CancelSchedule { which } => {
                let timer = match self.schedules.len() {
                    0 => "none".to_owned(),
                    count => self.schedules[which as usize % count].clone(),
                };
                self.request(at, Kind::Command, "Timer.Cancel", json!({ "timerId": timer }).to_string(), how)
            }
            What::Subscribe { pattern, disconnect } => {
                let pattern = PATTERNS[pattern as usize % PATTERNS.len()];
                // From here on it may get such events: later than this it may not, unless the
                // kernel forgets.
                self.clients[at].patterns.push(pattern.to_owned());
                let policy = if disconnect { "disconnect" } else { "drop_oldest" };
                let data = json!({ "types": [pattern], "slow": policy }).to_string();
                self.request(at, Kind::Command, "Sys.Subscribe", data, how)
            }
            What::Unsubscribe { pattern } => {
                let pattern = PATTERNS[pattern as usize % PATTERNS.len()];
                let data = json!({ "types": [pattern] }).to_string();
                self.request(at, Kind::Command, "Sys.Unsubscribe", data, how)
            }
        }
    }

    fn builtin(&mut self, at: usize, builtin: Builtin, how: How) -> Checked {
        let capability = |which: u8| format!("cap{}", which as usize % self.actors.len());
        let (kind, type_name, data) = match builtin {
            Builtin::Ping => (Kind::Query, "Syscall.Ping", json!({ "payload": "x" })),
            Builtin::Describe => (Kind::Query, "Syscall.Describe", json!({})),
            Builtin::Timers => (Kind::Query, "Timer.List", json!({})),
            Builtin::Actors => (Kind::Query, "Sys.Actors", json!({})),
            Builtin::Stats => (Kind::Query, "Sys.Stats", json!({})),
            Builtin::Trace(which) => {
                let key = if which.is_multiple_of(2) { "correlation" } else { "id" };
                (Kind::Query, "Sys.Trace", json!({ key: self.known_name(which) }))
            }
            Builtin::ResetActor(which) => {
                (Kind::Command, "Sys.ResetActor", json!({ "capabilityId": capability(which) }))
            }
            Builtin::DeadLetters => (Kind::Query, "Sys.DeadLetters", json!({})),
            Builtin::Requeue(number) => {
                (Kind::Command, "Sys.DeadLetters", json!({ "action": "requeue", "number": 1 + number % 32 }))
            }
            Builtin::DropDead(number) => {
                (Kind::Command, "Sys.DeadLetters", json!({ "action": "drop", "number": 1 + number % 32 }))
            }
        };
        match builtin {
            Builtin::Requeue(_) => {
                self.counts.requeues += 1;
                self.clients[at].has_delegates = true;
            }
            Builtin::ResetActor(_) => self.resets_pending += 1,
            _ => {}
        }
        self.request(at, kind, type_name, data.to_string(), how)
    }

    /// The id of one of the last requests, or its workflow.
    fn known_name(&self, which: u8) -> String {
        let Some((_, id, ..)) = self.sent_lines.iter().rev().nth(which as usize % 16) else {
            return "nothing".to_owned();
        };
        correlation_of(id).filter(|_| which.is_multiple_of(2)).unwrap_or_else(|| id.clone())
    }

    /// The first client, if there is one, asks the daemon to shut down.
    pub(crate) fn ask_for_shutdown(&mut self) -> Checked {
        if self.clients.is_empty() || self.adapter_stopped {
            return Ok(());
        }
        let how = How { correlated: true, timeout: 0, common_id: false, ignore_pause: true };
        self.request(0, Kind::Command, "Syscall.Shutdown", "{}".to_owned(), how)
    }

    /// Sends a command or query, to which an outcome is owed from now on.
    fn request(&mut self, at: usize, kind: Kind, type_name: &str, data: String, how: How) -> Checked {
        let timeout_ms = (how.timeout > 0).then(|| TIMEOUTS_MS[how.timeout as usize % TIMEOUTS_MS.len()]);
        let id = self.fresh_id(how);
        self.post(at, Outgoing { kind, type_name, data, timeout_ms, id })
    }

    fn other(&mut self, at: usize, kind: Kind, type_name: &str, data: String, how: How) -> Checked {
        let id = self.fresh_id(how);
        self.post(at, Outgoing { kind, type_name, data, timeout_ms: None, id })
    }

    fn fresh_id(&self, how: How) -> String {
        let number = self.tokens.next();
        let flow = if how.correlated { "w" } else { "" };
        if how.common_id {
            format!("common-{}{flow}", number % COMMON_IDS)
        } else {
            format!("m{number}{flow}")
        }
    }

    fn post(&mut self, at: usize, message: Outgoing<'_>) -> Checked {
        let Outgoing { kind, type_name, data, timeout_ms, id } = message;
        let correlation = correlation_of(&id);
        let parts = Parts {
            kind,
            type_name,
            data: &data,
            id: &id,
            timestamp_ms: self.now.unix_ms,
            causation: (kind.is_outcome()).then_some("nothing"),
            correlation: correlation.as_deref(),
            traceparent: Some(SPAN),
            timeout_ms,
            extra: "",
        };
        let line = parts.compose(&mut String::new()).line().as_bytes().to_vec();
        let timeout_ms = timeout_ms.unwrap_or(self.scenario.config.default_timeout_ms);
        let deadline_ns = self.now.mono_ns + timeout_ms as i64 * 1_000_000;
        let client = &self.clients[at];
        self.tokens.add(Token {
            sender: Sender::Connection(client.connection.0),
            peer: Some(client.peer),
            id: id.clone(),
            correlation,
            due_ns: i64::MIN,
            period_ns: None,
            sends: 1,
            accepted_event: None,
            deliveries: BTreeMap::new(),
            answered_ns: i64::MIN,
            replied: None,
        });
        if kind.is_request() {
            self.sent_lines.push((client.peer, id.clone(), line.clone(), timeout_ms as i64 * 1_000_000));
        }
        let (token, outcomes) = (self.tokens.next() - 1, self.counts.outcomes);
        self.transmit(at, kind, &id, &line, deadline_ns)?;
        // A refusal comes at once.
        if kind == Kind::Event && self.counts.outcomes == outcomes {
            self.accept_event(token, type_name);
        }
        Ok(())
    }

    pub(crate) fn accept_event(&mut self, token: u64, type_name: &str) {
        if let Some(token) = self.tokens.get_mut(token) {
            token.accepted_event = Some(type_name.to_owned());
        }
    }

    fn transmit(&mut self, at: usize, kind: Kind, id: &str, line: &[u8], deadline_ns: i64) -> Checked {
        let client = &mut self.clients[at];
        if kind.is_request() {
            self.counts.requests += 1;
            client.owe_request(id, deadline_ns);
            let earliest = self.timeouts.entry((client.peer, id.to_owned())).or_insert(i64::MAX);
            *earliest = (*earliest).min(deadline_ns);
        } else {
            client.owe_other(id);
        }
        let connection = client.connection;
        self.note(|_| format!("{connection} sends {}", String::from_utf8_lossy(line)));
        self.kernel.ingest(connection, line, self.now);
        self.carry_out()
    }

    /// Sends a request of the same peer again, as it was or with other data.
    fn again(&mut self, at: usize, which: u8, same_body: bool, how: How) -> Checked {
        let peer = self.clients[at].peer;
        let recent = self.sent_lines.iter().rev().filter(|sent| sent.0 == peer).take(12);
        let recent: Vec<_> = recent.cloned().collect();
        if recent.is_empty() {
            return Ok(());
        }
        let (_, id, line, timeout_ns) = &recent[which as usize % recent.len()];
        if !same_body {
            let data = json!({ "token": self.tokens.next() }).to_string();
            let timeout_ms = (how.timeout > 0).then(|| TIMEOUTS_MS[how.timeout as usize % TIMEOUTS_MS.len()]);
            let id = id.clone();
            return self
                .post(at, Outgoing { kind: Kind::Command, type_name: "Cap0.Do", data, timeout_ms, id });
        }
        let message = mainspring_message::Envelope::parse(line).expect("it was composed");
        if message.type_name() == "Timer.Schedule" {
            return Ok(());
        }
        if message.type_name() == "Sys.DeadLetters" {
            self.counts.requeues += 1;
            self.clients[at].has_delegates = true;
        }
        if message.type_name() == "Sys.ResetActor" {
            self.resets_pending += 1;
        }
        if message.type_name() == "Sys.Subscribe" {
            self.clients[at].patterns.extend(PATTERNS.map(str::to_owned));
        }
        if let Some(token) =
            crate::world::tokens::token_of(&message).and_then(|number| self.tokens.get_mut(number))
        {
            token.sends += 1;
        }
        self.transmit(at, message.kind(), id, line, self.now.mono_ns + timeout_ns)
    }

    fn schedule(&mut self, at: usize, capability: usize, delay: u8, repeat: bool, how: How) -> Checked {
        let delay_ms = DELAYS_MS[delay as usize % DELAYS_MS.len()];
        let period_ms = PERIODS_MS[delay as usize % PERIODS_MS.len()];
        // The schedule's own token, which `request` is about to use, is followed by the token of
        // what is scheduled.
        let inner = self.tokens.next() + 1;
        let timer = format!("timer-{inner}");
        let message = if inner.is_multiple_of(4) {
            json!({ "kind": "event", "type": "World.Happened", "data": { "token": inner } })
        } else {
            json!({ "kind": "command", "type": format!("Cap{capability}.Do"), "data": { "token": inner } })
        };
        let mut data = json!({ "delay": delay_ms, "timerId": timer, "message": message });
        if repeat {
            data["repeat"] = json!(period_ms);
        }
        self.schedules.push(timer);
        self.clients[at].has_delegates = true;
        let peer = self.clients[at].peer;
        let id = self.fresh_id(How { common_id: false, ..how });
        let token = Token {
            sender: Sender::Schedule,
            peer: Some(peer),
            id: id.clone(),
            correlation: correlation_of(&id),
            due_ns: self.now.mono_ns + delay_ms as i64 * 1_000_000,
            period_ns: repeat.then_some(period_ms as i64 * 1_000_000),
            sends: 1,
            accepted_event: None,
            deliveries: BTreeMap::new(),
            answered_ns: i64::MIN,
            replied: None,
        };
        let message = Outgoing {
            kind: Kind::Command,
            type_name: "Timer.Schedule",
            data: data.to_string(),
            timeout_ms: None,
            id,
        };
        let sent = self.post(at, message);
        self.tokens.add(token);
        sent
    }

    fn malformed(&mut self, at: usize, way: u8) -> Checked {
        const LINES: [&[u8]; 8] = [
            b"",
            b"{",
            b"not json",
            b"\xff\xfe",
            b"[]",
            b"{\"kind\":\"command\"}",
            b"{\"kind\":\"order\",\"type\":\"A.B\",\"data\":1,\"metadata\":{\"timestamp\":1}}",
            b"{\"kind\":\"query\",\"type\":\"a\",\"data\":1,\"metadata\":{\"timestamp\":-1}}",
        ];
        let connection = self.clients[at].connection;
        self.clients[at].unreadable += 1;
        self.kernel.ingest(connection, LINES[way as usize % LINES.len()], self.now);
        self.carry_out()
    }
}
