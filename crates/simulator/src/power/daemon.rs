//! One run of a daemon: a kernel whose facts go to the disk, and what rests on them waits until
//! they are there.

use super::disk::Disk;
use crate::tape::MemoryTape;
use crate::world::{Checked, Violation, must};
use mainspring_kernel::{
    ActorExit, ActorRef, BootPlan, Config, ConnectionId, Durable, Effect, Kernel, Manifest, Now, Rights, Turn,
};
use mainspring_message::Envelope;

/// The most turns in which a kernel without new inputs must come to rest.
const SETTLE_TURNS_MAX: u32 = 100_000;

/// What leaves the daemon.
#[derive(Debug)]
pub(super) enum Out {
    Delivered(ActorRef, Envelope),
    Written(ConnectionId, Envelope),
}

pub(super) struct Daemon {
    pub(super) kernel: Kernel,
    /// What happened to it, in some runs.
    tape: Option<MemoryTape>,
    pub(super) now: Now,
    /// Facts of this run that are on disk.
    flushed: u64,
    /// What waits, each with the fact that it rests on.
    held: Vec<(u64, Effect)>,
    after: u64,
    /// What has left, until somebody takes it.
    pub(super) out: Vec<Out>,
}

impl Daemon {
    pub(super) fn start(
        durable: Durable,
        capabilities: Vec<Manifest>,
        nonce: u64,
        now: Now,
        disk: &mut Disk,
    ) -> Result<Daemon, Violation> {
        let config = Config { window_ms: 24 * 3_600_000, ..Config::default() };
        let (mut kernel, tape) = MemoryTape::kernel(config, nonce, nonce.is_multiple_of(4));
        kernel.restore(durable, now);
        kernel.boot(BootPlan { capabilities, adapters: vec!["simulated".into()] }, now);
        let mut daemon =
            Daemon { kernel, tape, now, flushed: 0, held: Vec::new(), after: 0, out: Vec::new() };
        daemon.run(disk)?;
        Ok(daemon)
    }

    /// What happened in this run comes to the same effects again.
    pub(super) fn check_tape(&self) -> Checked {
        self.tape.as_ref().map_or(Ok(()), MemoryTape::check)
    }

    /// So many facts of this run are on disk.
    pub(super) fn note_flushed(&mut self, facts: u64, disk: &mut Disk) -> Checked {
        self.flushed = self.flushed.max(facts);
        self.kernel.flushed(self.flushed, self.now);
        for (fact, effect) in std::mem::take(&mut self.held) {
            self.offer(fact, effect)?;
        }
        self.run(disk)
    }

    /// Carries an effect out, or keeps it: for each target first in, first out.
    fn offer(&mut self, fact: u64, effect: Effect) -> Checked {
        let own = effect.target();
        let waits = own.is_some() && self.held.iter().any(|(_, held)| held.target() == own);
        if waits || fact > self.flushed {
            must!(own.is_some(), "{effect:?} rests on a fact, and goes nowhere");
            self.held.push((fact, effect));
        } else {
            self.carry_out(effect);
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Spawn { actor } => self.kernel.actor_spawned(actor, Ok(()), now),
            Effect::Attach { actor } => self.kernel.actor_attached(actor, Ok(()), now),
            Effect::StartAdapter { adapter } => {
                self.kernel.adapter_started(adapter, Ok("simulated".into()), now);
            }
            Effect::Stop { actor } => self.kernel.actor_exited(actor, ActorExit::Done, now),
            Effect::Write { connection, message } => {
                self.kernel.written(connection, message.line().len() + 1, now);
                self.out.push(Out::Written(connection, message));
            }
            Effect::Deliver { actor, message } => self.out.push(Out::Delivered(actor, message)),
            _ => {}
        }
    }

    fn settle(&mut self, disk: &mut Disk) -> Result<bool, Violation> {
        let mut effects = Vec::new();
        self.kernel.drain_effects(&mut effects);
        let any = !effects.is_empty();
        for effect in effects {
            match effect {
                Effect::Record(records) => {
                    for record in records.iter() {
                        disk.record(record)?;
                    }
                }
                Effect::After { fact } => self.after = fact,
                effect => {
                    let after = std::mem::take(&mut self.after);
                    self.offer(after, effect)?;
                }
            }
        }
        Ok(any)
    }

    /// Runs until nothing is left to do at this time.
    pub(super) fn run(&mut self, disk: &mut Disk) -> Checked {
        self.settle(disk)?;
        for _ in 0..SETTLE_TURNS_MAX {
            let turn = self.kernel.turn(self.now);
            if !self.settle(disk)? && turn != Turn::More {
                return Ok(());
            }
        }
        Err(Violation("the kernel does not come to rest without new inputs".to_owned()))
    }

    /// Lets time pass, from one deadline to the next.
    pub(super) fn pass_ms(&mut self, ms: u64, disk: &mut Disk) -> Checked {
        let end = self.now.mono_ns + ms as i64 * 1_000_000;
        while let Some(deadline) = self.kernel.next_deadline().filter(|deadline| *deadline <= end) {
            self.set_time(deadline.max(self.now.mono_ns));
            self.run(disk)?;
        }
        self.set_time(end);
        self.run(disk)
    }

    fn set_time(&mut self, mono_ns: i64) {
        let passed_ms = (mono_ns / 1_000_000 - self.now.mono_ns / 1_000_000) as u64;
        self.now = Now { mono_ns, unix_ms: self.now.unix_ms + passed_ms };
    }

    pub(super) fn connect(&mut self, connection: ConnectionId, peer: &str) {
        self.kernel.connection_opened(connection, peer, self.now);
        self.kernel.connection_has(connection, Rights::of_operator(), self.now);
    }

    pub(super) fn send(&mut self, connection: ConnectionId, line: &str, disk: &mut Disk) -> Checked {
        self.kernel.ingest(connection, line.as_bytes(), self.now);
        self.run(disk)
    }
}
