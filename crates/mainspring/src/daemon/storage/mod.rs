//! What survives the process: the journal as the pump uses it.
//!
//! [`open`] reads a journal before the boot and gives the state that its facts come to. [`Storage`]
//! is the loop's side while the daemon runs: facts are appended to a buffer, handed over when that
//! is due (`gathering`), and known to be on disk later. `writer` is the thread that writes and
//! flushes, `snapshots` what is done beside it. Nothing here blocks the loop but opening and
//! closing.

mod disk;
mod gathering;
mod opening;
mod snapshots;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use opening::{Opening, open};

use gathering::Gathering;
use mainspring_journal::Batch;
use mainspring_kernel::Records;
use mainspring_reactor::{Handle, Instant, Wakeup};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use writer::{BATCH_BYTES_MAX, Shared, State};

/// Bytes of facts that are not on disk yet. Beyond: whoever sends durable messages is paused.
const UNFLUSHED_BYTES_MAX: usize = 8 << 20;

/// What the writing thread tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last fact of this run that is on disk, counted from 1.
    pub(crate) flushed: u64,
    /// Why nothing more is written, if that is so.
    pub(crate) failure: Option<String>,
    /// Whether the disk has no room for the next segment.
    pub(crate) is_full: bool,
    /// Whether so much waits for the disk that senders should be paused.
    pub(crate) is_congested: bool,
    /// Lines for the log since this was last asked.
    pub(crate) notices: Vec<Notice>,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Info(String),
    Warn(String),
    Error(String),
}

/// The loop's side of a journal.
pub(crate) struct Storage {
    shared: Arc<Shared>,
    thread: RefCell<Option<JoinHandle<()>>>,
    /// Facts that were not handed over.
    batch: RefCell<Batch>,
    gathering: Gathering,
    /// The number of the record before the first fact of this run.
    base: u64,
    /// How often the thread had told something when it was last asked.
    heard: Cell<u64>,
    /// Whether too much waited for the disk when something was last handed over, and nobody has
    /// asked since.
    congested: Cell<bool>,
    path: String,
}

impl Storage {
    /// Starts to write to a journal that was opened. `stir` is called on the loop when the thread
    /// has told something.
    pub(crate) fn start(
        opening: Opening,
        reactor: &Handle,
        stir: impl Fn() + 'static,
    ) -> Result<Storage, String> {
        let wakeup: Wakeup = reactor.wakeup(move |_| stir()).map_err(|error| error.to_string())?;
        let Opening { journal, next, path, plan, .. } = opening;
        let shared = Arc::new(Shared::new(next, journal.bytes(), journal.segments()));
        let writer = writer::Writer::new(journal, Arc::clone(&shared), plan, move || wakeup.signal());
        let thread = crate::system::signal_mask::spawn_without_signals("journal", move || writer.run())
            .map_err(|error| format!("no thread for the journal: {error}"))?;
        Ok(Storage {
            shared,
            thread: RefCell::new(Some(thread)),
            batch: RefCell::new(Batch::new(next)),
            gathering: Gathering::default(),
            base: next - 1,
            heard: Cell::new(0),
            congested: Cell::new(false),
            path,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Appends facts; they are written after [`Storage::hand_over`], or before if the turn records
    /// more than a batch holds: gives the last one that the thread has then.
    pub(crate) fn append(&self, records: &Records) -> Option<u64> {
        let mut batch = self.batch.borrow_mut();
        let mut handed_over = false;
        let appended = if batch.bytes() + records.as_bytes().len() < BATCH_BYTES_MAX {
            batch.push_records(records.as_bytes())
        } else {
            records.iter().try_for_each(|record| {
                batch.push(record.kind, record.version, &[record.data])?;
                // What is kept, and the end of the command that had it kept, stay together if they
                // can.
                if batch.bytes() >= BATCH_BYTES_MAX << u32::from(record.has_sequel()) {
                    self.give(&mut batch);
                    handed_over = true;
                }
                Ok(())
            })
        };
        // Messages are bounded far below what a record may be.
        if let Err(error) = appended {
            self.state().fail(format!("a fact does not fit into a record: {error}"));
        }
        handed_over.then(|| self.handed_over(&batch))
    }

    /// The last fact that is not in the batch any more.
    fn handed_over(&self, batch: &Batch) -> u64 {
        batch.next() - u64::from(batch.count()) - 1 - self.base
    }

    /// Whether facts wait to be handed over.
    pub(crate) fn has_gathered(&self) -> bool {
        !self.batch.borrow().is_empty()
    }

    /// Whether those are to be handed over now; if not, this is asked again after the next turn.
    /// `expects_more` tells that facts of others may come soon, and `turn_began` when this turn
    /// began.
    #[inline]
    pub(crate) fn is_due(
        &self,
        expects_more: bool,
        turn_began: Instant,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        self.gathering.is_over(self.batch.borrow().bytes(), expects_more, turn_began, now)
    }

    /// Gives the thread what was appended, if anything was; gives the last fact that it has now.
    pub(crate) fn hand_over(&self) -> u64 {
        let mut batch = self.batch.borrow_mut();
        if !batch.is_empty() {
            self.give(&mut batch);
        }
        self.handed_over(&batch)
    }

    fn give(&self, batch: &mut Batch) {
        let unflushed = self.shared.hand_over(batch);
        self.congested.set(unflushed > UNFLUSHED_BYTES_MAX);
    }

    /// Whether what was handed over since this was last asked made it too much for the disk. The
    /// thread does not tell: it may be in the middle of a flush that takes very long.
    pub(crate) fn take_congestion(&self) -> bool {
        self.congested.take()
    }

    /// What the thread has told since this was last asked, if anything.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let told = self.shared.told();
        if self.heard.replace(told) == told {
            return None;
        }
        let mut state = self.state();
        // What is told now is newer.
        self.congested.set(false);
        Some(Progress {
            flushed: state.durable.saturating_sub(self.base),
            failure: state.failure.clone(),
            is_full: state.is_full,
            is_congested: state.unflushed_bytes > UNFLUSHED_BYTES_MAX,
            notices: std::mem::take(&mut state.notices),
        })
    }

    /// Numbers for `Sys.Stats`.
    pub(crate) fn stats(&self) -> Value {
        let state = self.state();
        let mean_us = state.flush_ns.checked_div(state.flushes).unwrap_or(0) / 1000;
        json!({
            "folder": self.path,
            "bytes": state.bytes,
            "segments": state.segments,
            "facts": state.durable.saturating_sub(self.base),
            "flushes": state.flushes,
            "flushMeanUs": mean_us,
            "flushMaxUs": state.flush_max_ns / 1000,
            "unflushedBytes": state.unflushed_bytes,
            "snapshots": state.snapshots,
            "full": state.is_full,
            "failed": state.failure,
        })
    }

    /// Writes what is left, ends the journal in order, and ends the thread. Gives what was still to
    /// be told.
    pub(crate) fn close(&self) -> Vec<Notice> {
        self.hand_over();
        self.shared.close();
        if let Some(thread) = self.thread.borrow_mut().take()
            && thread.join().is_err()
        {
            return vec![Notice::Error("the thread of the journal panicked".into())];
        }
        std::mem::take(&mut self.state().notices)
    }
}
