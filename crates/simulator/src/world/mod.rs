//! Everything around one kernel: clients, actors, the floors below, and time. `action` and
//! `scenario` say what may happen, `acting` and `sending` do it, `check`, `ledger` and `client`
//! hold the kernel to what it promises. `run` drives it; `nodes` and `power` are worlds of their
//! own.

pub(crate) mod acting;
pub(crate) mod action;
pub(crate) mod actor;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod effects;
pub(crate) mod ledger;
pub(crate) mod reloading;
pub(crate) mod scenario;
pub(crate) mod sending;
pub(crate) mod tokens;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};

use mainspring_kernel::{ActorExit, ConnectionId, Effect, Kernel, Mode, Now, Rights, Turn};

use crate::tape::MemoryTape;
use crate::world::action::{Action, Pass};
use crate::world::actor::{Actor, Presence};
use crate::world::check::{Lane, Lanes};
use crate::world::client::Client;
use crate::world::ledger::Ledger;
use crate::world::scenario::Scenario;
use crate::world::tokens::Tokens;

/// A broken promise of the kernel, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

pub(crate) type Checked = Result<(), Violation>;

/// Fails with a formatted violation unless the condition holds.
macro_rules! must {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::world::Violation(format!($($words)+)));
        }
    };
}
pub(crate) use must;

/// The most turns in which a kernel without new inputs must come to rest.
const SETTLE_TURNS_MAX: u32 = 200_000;
/// One in so many worlds is recorded, and replayed at its end.
const RECORDED_EVERY: u64 = 8;
/// The most rounds of answering everything after which nothing may be owed any more.
const CALM_ROUNDS_MAX: u32 = 3_000;

/// Something that the kernel asked of the floors below, and that was not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    Spawn(mainspring_kernel::ActorRef),
    Attach(mainspring_kernel::ActorRef),
    Adapter(u32),
    Stats(u64),
    /// A stopped actor ends in its own time.
    Exit(mainspring_kernel::ActorRef),
}

/// The world around one kernel.
pub struct World {
    pub(crate) kernel: Kernel,
    /// What happened to the kernel, in some worlds.
    pub(crate) tape: Option<MemoryTape>,
    pub(crate) scenario: Scenario,
    pub(crate) now: Now,
    pub(crate) clients: Vec<Client>,
    pub(crate) actors: Vec<Actor>,
    pub(crate) ledgers: Vec<Ledger>,
    pub(crate) questions: Vec<Question>,
    pub(crate) tokens: Tokens,
    /// When a request of this peer and id times out, at the earliest.
    pub(crate) timeouts: BTreeMap<(usize, String), i64>,
    pub(crate) next_connection: u64,
    /// Ids and schedules that clients know.
    pub(crate) sent_lines: Vec<(usize, String, Vec<u8>, i64)>,
    pub(crate) schedules: Vec<String>,
    /// Resets that were asked for and not answered: one of them does not wait for the backoff.
    pub(crate) resets_pending: u64,
    /// While the effects of a turn are carried out: the lane that the last of them came from.
    pub(crate) lane: Option<Lane>,
    /// The replies to queries that clients got, with the turn in which they did.
    pub(crate) query_replies: BTreeMap<String, u64>,
    pub(crate) counts: Counts,
    pub(crate) booted: bool,
    pub(crate) adapter_stopped: bool,
    pub(crate) ended: Option<i32>,
    /// Commands that the kernel had forgotten early before its last turn.
    pub(crate) forgotten: u64,
    effects: Vec<Effect>,
    digest: DefaultHasher,
    text: String,
    /// What happened, line by line, if somebody wants to read it.
    pub(crate) trace: Option<Vec<String>>,
}

/// What a simulation consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that clients sent.
    pub lines: u64,
    /// Commands and queries among them.
    pub requests: u64,
    /// Outcomes that clients got.
    pub outcomes: u64,
    /// Messages that actors got.
    pub deliveries: u64,
    /// Outputs of actors.
    pub outputs: u64,
    /// Actors spawned.
    pub spawns: u64,
    /// Turns of the kernel.
    pub turns: u64,
    /// Dead letters put back.
    pub requeues: u64,
    /// Changes of capabilities.
    pub reloads: u64,
    /// Effects.
    pub effects: u64,
}

impl World {
    /// A world whose kernel has not booted.
    #[must_use]
    pub fn new(scenario: Scenario, with_trace: bool) -> World {
        let is_recorded = scenario.nonce.is_multiple_of(RECORDED_EVERY);
        let (kernel, tape) = MemoryTape::kernel(scenario.config.clone(), scenario.nonce, is_recorded);
        let actors = scenario.plan.capabilities.iter().map(|_| Actor::new()).collect();
        let ledgers = scenario.plan.capabilities.iter().map(Ledger::new).collect();
        World {
            kernel,
            tape,
            scenario,
            now: Now { mono_ns: 1_000_000_000, unix_ms: 1_767_910_000_000 },
            clients: Vec::new(),
            actors,
            ledgers,
            questions: Vec::new(),
            tokens: Tokens::default(),
            timeouts: BTreeMap::new(),
            next_connection: 0,
            sent_lines: Vec::new(),
            schedules: Vec::new(),
            resets_pending: 0,
            lane: None,
            query_replies: BTreeMap::new(),
            counts: Counts::default(),
            booted: false,
            adapter_stopped: false,
            ended: None,
            forgotten: 0,
            effects: Vec::new(),
            digest: DefaultHasher::new(),
            text: String::new(),
            trace: with_trace.then(Vec::new),
        }
    }

    /// Boots the kernel. With `boot_fails`, one of the floors below fails it.
    ///
    /// # Errors
    ///
    /// When the kernel breaks a promise.
    pub fn boot(&mut self) -> Checked {
        self.kernel.boot(self.scenario.plan.clone(), self.now);
        self.carry_out()?;
        let fails = self.scenario.boot_fails;
        let mut answered = 0;
        while !self.questions.is_empty() && self.ended.is_none() {
            let well = !(fails && answered == self.scenario.nonce % 5);
            self.answer(0, well)?;
            self.settle()?;
            answered += 1;
        }
        self.settle()?;
        if self.ended.is_some() {
            must!(fails, "the boot failed though every floor answered well");
            must!(self.ended != Some(0), "a failed boot exits with success");
            let alive = self.actors.iter().filter(|actor| actor.presence != Presence::Absent).count();
            must!(alive == 0, "{alive} actors were left behind by a failed boot");
        } else {
            must!(self.booted, "the boot neither completed nor failed");
        }
        Ok(())
    }

    /// Takes one step and checks every promise.
    ///
    /// # Errors
    ///
    /// When the kernel breaks a promise.
    pub fn step(&mut self, action: Action) -> Checked {
        if self.ended.is_some() {
            return Ok(());
        }
        self.note(|_| format!("{action:?}"));
        match action {
            Action::Connect { peer } => self.connect(peer)?,
            Action::Disconnect { client } => self.disconnect(client)?,
            Action::Send { client, what, how, times } => {
                for _ in 0..times {
                    self.send(client, what, how)?;
                }
            }
            Action::Read { client, share } => self.read(client, share)?,
            Action::Act { actor, held, act } => self.act(actor, held, act)?,
            Action::Block { actor, blocked } => self.block(actor, blocked)?,
            Action::Answer { which, well } => {
                if !self.questions.is_empty() {
                    self.answer(which as usize % self.questions.len(), well)?;
                }
            }
            Action::Pass(pass) => self.pass(pass),
            Action::Turn => {
                self.turn()?;
            }
            Action::Settle => self.settle()?,
            Action::Reload { actor, how } => self.reload(actor, how)?,
            Action::Shutdown => self.shutdown()?,
        }
        self.haunt()?;
        self.check_bounds()
    }

    /// Lets everybody behave until nothing is owed, then checks that everything came to its one
    /// end.
    ///
    /// # Errors
    ///
    /// When the kernel breaks a promise.
    pub fn calm_down(&mut self) -> Checked {
        for _ in 0..CALM_ROUNDS_MAX {
            if self.ended.is_some() {
                break;
            }
            self.behave()?;
            self.settle()?;
            if self.owed() == 0 {
                // What answers a client has not read holds what it sent.
                if self.clients.iter().all(|client| client.unread_bytes == 0) {
                    return self.check_at_rest();
                }
                continue;
            }
            if self.actors.iter().all(|actor| actor.in_progress.is_empty()) && self.questions.is_empty() {
                self.pass(Pass::ToDeadline);
            }
        }
        must!(
            self.ended.is_some(),
            "{} outcomes are owed though everybody behaves: {}",
            self.owed(),
            self.debts()
        );
        Ok(())
    }

    /// Shuts the kernel down and checks that it ends in good time, with everything answered.
    ///
    /// # Errors
    ///
    /// When the kernel breaks a promise.
    pub fn end(&mut self) -> Checked {
        self.settle()?;
        if self.ended.is_none()
            && self.scenario.config.mode == Mode::Batch
            && self.kernel.census().schedules == 0
        {
            return self.run_out();
        }
        let start_ns = self.now.mono_ns;
        // A client may ask for it; the operator has the last word.
        if self.ended.is_none() && self.scenario.nonce.is_multiple_of(2) {
            self.ask_for_shutdown()?;
            self.settle()?;
        }
        if self.ended.is_none() {
            self.shutdown()?;
        }
        for _ in 0..CALM_ROUNDS_MAX {
            if self.ended.is_some() {
                break;
            }
            self.settle()?;
            while !self.questions.is_empty() && self.ended.is_none() {
                self.answer(0, true)?;
                self.settle()?;
            }
            if self.ended.is_none() {
                must!(self.kernel.next_deadline().is_some(), "the shutdown waits for nothing, for ever");
                self.pass(Pass::ToDeadline);
            }
        }
        must!(self.ended.is_some(), "the shutdown does not end");
        let took_ms = (self.now.mono_ns - start_ns) / 1_000_000;
        let allowed_ms = 2 * self.scenario.config.drain_ms as i64 + 1;
        must!(took_ms <= allowed_ms, "the shutdown took {took_ms} ms of {allowed_ms}");
        must!(
            self.client_debts() == 0,
            "the kernel ended owing {} outcomes: {}",
            self.client_debts(),
            self.debts()
        );
        Ok(())
    }

    /// Ends the input of a batch: the kernel must end by itself when everything is done, and not
    /// before.
    fn run_out(&mut self) -> Checked {
        self.adapter_stopped = true;
        self.kernel.adapter_ended(0, self.now);
        self.carry_out()?;
        for _ in 0..CALM_ROUNDS_MAX {
            let owed = self.owed();
            self.behave()?;
            self.settle()?;
            if self.ended.is_some() {
                must!(
                    self.client_debts() == 0,
                    "the batch ended owing {} of {owed} outcomes",
                    self.client_debts()
                );
                return Ok(());
            }
            self.pass(Pass::ToDeadline);
        }
        must!(false, "the batch does not end: {:?}", self.kernel.census());
        Ok(())
    }

    /// A digest of all effects so far, byte for byte.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// What happened so far, in numbers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the kernel has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes the trace collected so far.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn note(&mut self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>12.6} ms  {}", self.now.mono_ns as f64 / 1e6, line(self));
            if let Some(trace) = &mut self.trace {
                trace.push(line);
            }
        }
    }

    fn connect(&mut self, peer: u8) -> Checked {
        if self.adapter_stopped {
            return Ok(());
        }
        let peer = peer as usize % PEERS.len();
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        self.clients.push(Client::new(connection, peer));
        self.kernel.connection_opened(connection, PEERS[peer], self.now);
        self.kernel.connection_has(connection, Rights::of_operator(), self.now);
        self.carry_out()
    }

    fn disconnect(&mut self, client: u8) -> Checked {
        if self.clients.is_empty() {
            return Ok(());
        }
        let gone = self.clients.swap_remove(client as usize % self.clients.len());
        self.kernel.connection_closed(gone.connection, self.now);
        self.carry_out()
    }

    fn read(&mut self, client: u8, share: u8) -> Checked {
        if self.clients.is_empty() {
            return Ok(());
        }
        let at = client as usize % self.clients.len();
        let client = &mut self.clients[at];
        let bytes = (client.unread_bytes * share as usize).div_ceil(255);
        if bytes == 0 {
            return Ok(());
        }
        client.unread_bytes -= bytes;
        client.moved_ns = self.now.mono_ns;
        let connection = client.connection;
        self.kernel.written(connection, bytes, self.now);
        self.carry_out()
    }

    fn shutdown(&mut self) -> Checked {
        self.kernel.shutdown("the simulation says so", self.now);
        self.carry_out()
    }

    pub(crate) fn pass(&mut self, pass: Pass) {
        let next = self.kernel.next_deadline();
        let until =
            |deadline: Option<i64>| deadline.map_or(0, |deadline| (deadline - self.now.mono_ns).max(0));
        let by_ns = match pass {
            Pass::Micros(micros) => i64::from(micros) * 1_000,
            Pass::Millis(millis) => i64::from(millis) * 1_000_000,
            Pass::AlmostToDeadline => (until(next) - 1).max(0),
            Pass::ToDeadline => until(next),
            Pass::PastDeadline(seconds) => until(next) + i64::from(seconds) * 1_000_000_000,
            Pass::WallClockJump(seconds) => {
                self.now.unix_ms = self.now.unix_ms.saturating_add_signed(i64::from(seconds) * 1_000);
                return;
            }
        };
        self.now.mono_ns += by_ns;
        self.now.unix_ms += by_ns as u64 / 1_000_000;
    }

    /// Makes one turn and checks the order of the lanes.
    pub(crate) fn turn(&mut self) -> Result<Turn, Violation> {
        let before = self.lanes();
        let turn = self.kernel.turn(self.now);
        self.counts.turns += 1;
        let after = self.lanes();
        self.check_turn(&before, &after)?;
        if turn == Turn::Idle
            && let Some(deadline) = self.kernel.next_deadline()
        {
            must!(deadline > self.now.mono_ns, "idle though a deadline has passed: the daemon would spin");
        }
        self.lane = Some(Lane::System);
        let carried_out = self.carry_out();
        self.lane = None;
        carried_out.map(|()| turn)
    }

    fn lanes(&self) -> Lanes {
        Lanes { census: self.kernel.census(), counters: *self.kernel.counters() }
    }

    /// Makes turns until nothing is left to do at this time.
    pub(crate) fn settle(&mut self) -> Checked {
        for _ in 0..SETTLE_TURNS_MAX {
            if self.ended.is_some() || self.turn()? != Turn::More {
                return self.check_settled();
            }
        }
        Err(Violation("the kernel does not come to rest without new inputs".to_owned()))
    }

    /// Everybody does what is expected of them, once.
    fn behave(&mut self) -> Checked {
        while !self.questions.is_empty() && self.ended.is_none() {
            self.answer(0, true)?;
        }
        for at in 0..self.clients.len() {
            self.read(at as u8, 255)?;
        }
        for at in 0..self.actors.len() {
            if self.actors[at].blocked {
                self.block(at as u8, false)?;
            }
            if !self.actors[at].in_progress.is_empty() {
                self.act(at as u8, 0, crate::world::action::Act::Reply)?;
            }
        }
        Ok(())
    }

    /// Answers one question of the kernel to the floors below.
    pub(crate) fn answer(&mut self, which: usize, well: bool) -> Checked {
        let question = self.questions.remove(which);
        self.note(|_| {
            format!("the floors below answer {question:?} {}", if well { "well" } else { "badly" })
        });
        let result = if well { Ok(()) } else { Err("the simulation says no".to_owned()) };
        match question {
            Question::Spawn(actor) => {
                let it = &mut self.actors[actor.capability.index()];
                if it.incarnation == actor.incarnation && !well {
                    it.failed_ns = Some(self.now.mono_ns);
                    it.end();
                }
                self.kernel.actor_spawned(actor, result, self.now);
            }
            Question::Attach(actor) => {
                let it = &mut self.actors[actor.capability.index()];
                if it.incarnation == actor.incarnation {
                    if well {
                        it.presence = Presence::Up;
                    } else {
                        it.failed_ns = Some(self.now.mono_ns);
                    }
                }
                self.kernel.actor_attached(actor, result, self.now);
            }
            Question::Adapter(adapter) => {
                self.kernel.adapter_started(adapter, result.map(|()| "simulated".to_owned()), self.now);
            }
            Question::Stats(ticket) => {
                let numbers = serde_json::json!({ "reactor": { "turns": self.counts.turns } });
                self.kernel.stats_collected(ticket, numbers.into(), self.now);
            }
            Question::Exit(actor) => {
                let it = &mut self.actors[actor.capability.index()];
                if it.incarnation == actor.incarnation {
                    it.end();
                }
                let exit = if well { ActorExit::Done } else { ActorExit::Failed("at its end".to_owned()) };
                self.kernel.actor_exited(actor, exit, self.now);
            }
        }
        self.carry_out()
    }

    /// Carries out what the kernel wants done, in order.
    pub(crate) fn carry_out(&mut self) -> Checked {
        let mut effects = std::mem::take(&mut self.effects);
        self.kernel.drain_effects(&mut effects);
        for effect in effects.drain(..) {
            self.counts.effects += 1;
            self.text.clear();
            let _ = write!(self.text, "{effect:?}");
            self.digest.write(self.text.as_bytes());
            if self.trace.is_some() {
                let text = self.text.clone();
                self.note(|_| format!("  -> {text}"));
            }
            self.carry_out_one(effect)?;
        }
        self.effects = effects;
        self.forgotten = self.kernel.counters().window_forgotten;
        Ok(())
    }
}

/// The identities of clients.
pub(crate) const PEERS: [&str; 6] = ["ada", "bob", "cleo", "dan", "eve", "token:f"];
