//! The tape: every input of a kernel, and a digest of the effects that they came to, as bytes.
//!
//! The kernel is pure, so whoever has the tape of a run has the run: [`Replay`] gives the same
//! inputs to a new kernel, and compares what it wants done. A tape belongs to the build that made
//! it. Another build may do the same things in another order, or other things, and nothing here
//! could tell that from a fault.
//!
//! Where the bytes go is not the kernel's business: a [`TapeSink`] takes each record as it is made,
//! before the kernel works on the input. `daemon/flight` keeps them in files.

mod digest;
mod reading;
mod replay;
mod settings;
#[cfg(test)]
mod tests;
mod writing;

pub use reading::{Recorded, TapeError, TapeReader};
pub use replay::{Replay, ReplayError};

use crate::api::config::Config;
use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::facts::wire::Writer;
use crate::kernel::Kernel;
use writing::Pen;

/// What a record is, by its first byte. A tape is read by the build that wrote it, so the numbers
/// may change at will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Begin,
    Now,
    Effects,
    Gap,
    Boot,
    ActorSpawned,
    ActorAttached,
    AdapterStarted,
    AdapterEnded,
    ConnectionOpened,
    ConnectionHas,
    PeersHave,
    ConnectionClosed,
    Line,
    LineTooLong,
    Written,
    ActorLine,
    ActorLineTooLong,
    ActorMessage,
    ActorEvent,
    ActorComplained,
    ActorExited,
    ActorBlocked,
    ActorReady,
    ActorFailed,
    ActorProgress,
    KeepValue,
    SettingsRead,
    ConsoleOpened,
    NodeTraceFetched,
    StatsCollected,
    Reload,
    Restore,
    ActorRecord,
    Flushed,
    StorageFull,
    StorageCongested,
    StorageFailed,
    WriteLost,
    DeliverLost,
    OutsideBytes,
    Shutdown,
    Hasten,
    Turn,
}

/// Takes the records of a tape, one after the other, each whole. What it does must be quick: the
/// kernel waits for it.
pub trait TapeSink: std::fmt::Debug + Send {
    /// The next record.
    fn take(&mut self, record: &[u8]);
}

/// Where a kernel records what happens to it.
#[derive(Debug)]
pub(crate) struct Tape {
    sink: Box<dyn TapeSink>,
    /// The record that is being made; kept for its room.
    record: Vec<u8>,
    now: Option<Now>,
    /// Of all effects so far.
    digest: u64,
    /// What was left out of the tape, and stands in effects all the same.
    secrets: Vec<Box<str>>,
}

impl Tape {
    fn new(sink: Box<dyn TapeSink>) -> Tape {
        Tape { sink, record: Vec::new(), now: None, digest: 0, secrets: Vec::new() }
    }

    fn put(&mut self, write: impl FnOnce(&mut Pen<'_>)) {
        self.record.clear();
        write(&mut Pen::new(Writer(&mut self.record), &mut self.secrets));
        if !self.record.is_empty() {
            self.sink.take(&self.record);
        }
    }

    fn input(&mut self, now: Now, write: impl FnOnce(&mut Pen<'_>)) {
        if self.now != Some(now) {
            self.now = Some(now);
            self.put(|pen| pen.now(now));
        }
        self.put(write);
    }

    fn effects(&mut self, effects: &[Effect]) {
        self.digest = digest::of(self.digest, effects, &self.secrets);
        let digest = self.digest;
        self.put(|pen| pen.effects(effects.len(), digest));
    }
}

impl Kernel {
    /// A kernel before its boot, as [`Kernel::new`] makes it, which records everything that happens
    /// to it.
    pub fn recorded(config: Config, nonce: u64, sink: Box<dyn TapeSink>) -> Kernel {
        let mut tape = Tape::new(sink);
        tape.put(|pen| pen.begin(&config, nonce));
        let mut kernel = Kernel::new(config, nonce);
        kernel.tape = Some(Box::new(tape));
        kernel
    }

    /// Records an input, if anybody wants that.
    #[inline]
    pub(crate) fn note(&mut self, now: Now, write: impl FnOnce(&mut Pen<'_>)) {
        if let Some(tape) = &mut self.tape {
            tape.input(now, write);
        }
    }

    /// Records what is to happen, if anybody wants that.
    #[inline]
    pub(crate) fn note_effects(&mut self) {
        if let Some(tape) = &mut self.tape {
            tape.effects(self.out.effects());
        }
    }
}

/// The record that stands where so many are missing.
pub fn gap(missing: u64) -> Vec<u8> {
    let mut record = vec![Tag::Gap as u8];
    Writer(&mut record).number(missing);
    record
}
