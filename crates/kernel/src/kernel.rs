//! The state machine.

use crate::config::Config;
use crate::effect::Effect;
use crate::ids::{ActorRef, ConnectionId, Now};
use crate::input::{ActorExit, BootPlan};
use mainspring_message::{Draft, Json};

/// The CQRS event loop: inputs go in by methods, effects come out by [`Kernel::drain_effects`].
#[derive(Debug)]
pub struct Kernel {
    effects: Vec<Effect>,
}

/// What a turn left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More can be done at once.
    More,
    /// Nothing until the next input or [`Kernel::next_deadline`].
    Idle,
    /// The loop has ended.
    Ended,
}

#[allow(unused_variables)]
impl Kernel {
    /// A kernel before its boot. `nonce` makes its ids differ from those of any other run.
    pub fn new(config: Config, nonce: u64) -> Kernel {
        Kernel { effects: Vec::new() }
    }

    /// Moves the effects to the end of `into`, oldest first. An empty buffer is swapped, not copied.
    pub fn drain_effects(&mut self, into: &mut Vec<Effect>) {
        if into.is_empty() {
            std::mem::swap(&mut self.effects, into);
        } else {
            into.append(&mut self.effects);
        }
    }

    /// The earliest monotonic time at which [`Kernel::turn`] has something to do without a further input.
    pub fn next_deadline(&self) -> Option<i64> {
        None
    }

    /// Runs one turn: due timers, then the System lane, then Completions (both up to a bound), then one User message.
    pub fn turn(&mut self, now: Now) -> Turn {
        Turn::Idle
    }

    /// Boots: LOAD, DISCOVER and BUILD at once, SPAWN, ATTACH and ADAPT by effects that inputs answer, then READY.
    pub fn boot(&mut self, plan: BootPlan, now: Now) {}
    /// Answers [`Effect::Spawn`].
    pub fn actor_spawned(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {}
    /// Answers [`Effect::Attach`].
    pub fn actor_attached(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {}
    /// Answers [`Effect::StartAdapter`], with the address it listens on.
    pub fn adapter_started(&mut self, adapter: u32, result: Result<String, String>, now: Now) {}
    /// The transport will bring no more messages (the end of standard input, in a batch).
    pub fn adapter_ended(&mut self, adapter: u32, now: Now) {}
    /// A client has connected. `peer` is who it is (a user, a token): ids are unique per peer.
    pub fn connection_opened(&mut self, connection: ConnectionId, peer: &str, now: Now) {}
    /// A client is gone.
    pub fn connection_closed(&mut self, connection: ConnectionId, now: Now) {}
    /// A client sent a line (without its line break).
    pub fn ingest(&mut self, connection: ConnectionId, line: &[u8], now: Now) {}
    /// A client sent a line beyond the limit; the daemon skipped it.
    pub fn line_too_long(&mut self, connection: ConnectionId, now: Now) {}
    /// `bytes` of the lines handed out by [`Effect::Write`] (each line plus one for its break) have left.
    pub fn written(&mut self, connection: ConnectionId, bytes: usize, now: Now) {}
    /// An actor said a line.
    pub fn actor_line(&mut self, actor: ActorRef, line: &[u8], now: Now) {}
    /// A native actor said a message.
    pub fn actor_message(&mut self, actor: ActorRef, draft: Draft, now: Now) {}
    /// An actor ended.
    pub fn actor_exited(&mut self, actor: ActorRef, exit: ActorExit, now: Now) {}
    /// An actor takes no more for now (its pipe is full): nothing is delivered until [`Kernel::actor_ready`].
    pub fn actor_blocked(&mut self, actor: ActorRef, now: Now) {}
    /// A blocked actor takes messages again.
    pub fn actor_ready(&mut self, actor: ActorRef, now: Now) {}
    /// Answers [`Effect::CollectStats`] with a JSON object.
    pub fn stats_collected(&mut self, ticket: u64, numbers: Json, now: Now) {}
    /// Begins the shutdown: drain, answer the rest, end.
    pub fn shutdown(&mut self, reason: &str, now: Now) {}
}
