//! The flight recorder: the kernel's tape, kept in a ring of files by a thread of its own.
//!
//! The loop appends to a buffer and never waits for the disk. The thread takes what is there a few
//! times a second; while nothing happens, nobody wakes up. Nothing is flushed: a recording is for
//! what goes wrong in this program, not for power cuts.

mod crash;
mod ring;
#[cfg(test)]
mod tests;

pub(in crate::daemon) use crash::forgiving;

use crash::Crash;
use mainspring_journal::DiskFolder;
use mainspring_kernel::TapeSink;
use ring::Ring;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread lets records gather.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes that wait for the thread before it is in a hurry.
const HURRY_BYTES: usize = 1 << 20;
/// Bytes of a frame, unless one record has more: what is kept goes frame by frame.
const FRAME_BYTES: usize = 64 << 10;
/// Bytes that wait for the disk. Beyond: records are lost, and that is recorded.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How long an end waits for the last records, and a crash for its report.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// What the loop and the thread share.
#[derive(Debug, Default)]
struct FlightShared {
    state: Mutex<FlightState>,
    work: Condvar,
    /// A report was written, or cannot be.
    reported: Condvar,
}

#[derive(Debug, Default)]
struct FlightState {
    /// Whole records.
    bytes: Vec<u8>,
    records: u64,
    /// Where frames end in them, each with the number of records up to there.
    cuts: Vec<(usize, u64)>,
    /// Records that found no room since the last ones that did.
    lost: u64,
    /// Records that found no room in this run.
    lost_in_all: u64,
    closing: bool,
    is_closed: bool,
    crash: Option<Box<Crash>>,
    /// Whether somebody waits for the report of a crash.
    is_reporting: bool,
    /// Why nothing more is recorded, if that is so.
    failure: Option<String>,
    /// What the ring holds on disk.
    kept_bytes: u64,
    kept_records: u64,
    has_beginning: bool,
}

impl FlightShared {
    fn lock(&self) -> MutexGuard<'_, FlightState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A recorder that has started, and what the kernel records to.
pub(in crate::daemon) type RecorderAndSink = (Recorder, Box<dyn TapeSink>);

/// The loop's side of a recorder.
#[derive(Debug)]
pub(in crate::daemon) struct Recorder {
    shared: Arc<FlightShared>,
    thread: RefCell<Option<JoinHandle<()>>>,
    path: String,
}

/// The kernel's end of the buffer.
#[derive(Debug)]
struct FlightSink {
    shared: Arc<FlightShared>,
    #[cfg(debug_assertions)]
    panic_after: Option<u64>,
}

impl TapeSink for FlightSink {
    fn take(&mut self, record: &[u8]) {
        #[cfg(debug_assertions)]
        self.panic_if_told();
        let mut state = self.shared.lock();
        // One record always finds room: that of a start may be larger than everything else.
        if state.bytes.len() >= WAITING_BYTES_MAX || state.failure.is_some() {
            state.lost += 1;
            state.lost_in_all += 1;
            return;
        }
        let was_empty = state.bytes.is_empty();
        state.bytes.extend_from_slice(record);
        state.records += 1;
        if state.bytes.len() - state.cuts.last().map_or(0, |(end, _)| *end) >= FRAME_BYTES {
            let cut = (state.bytes.len(), state.records);
            state.cuts.push(cut);
        }
        let is_urgent = state.bytes.len() >= HURRY_BYTES && state.bytes.len() - record.len() < HURRY_BYTES;
        drop(state);
        if was_empty || is_urgent {
            self.shared.work.notify_one();
        }
    }
}

#[cfg(debug_assertions)]
impl FlightSink {
    /// Tests have a daemon panic where the kernel would.
    fn panic_if_told(&mut self) {
        if let Some(left) = &mut self.panic_after {
            *left = left.saturating_sub(1);
            assert!(*left > 0, "a panic that a test asked for");
        }
    }
}

impl Recorder {
    /// Opens the folder and starts to record; gives what the kernel records to. `Err` says in words
    /// why not.
    pub(in crate::daemon) fn start(path: &Path, bytes: u64) -> Result<RecorderAndSink, String> {
        let shown = path.display().to_string();
        let told = |error: &dyn std::fmt::Display| format!("the flight recordings in {shown}: {error}");
        let folder = DiskFolder::open(path).map_err(|error| told(&error))?;
        let ring = Ring::prepare(folder, bytes).map_err(|error| told(&error))?;
        let shared = Arc::new(FlightShared::default());
        shared.lock().has_beginning = true;
        let writing = Arc::clone(&shared);
        let thread = crate::system::signal_mask::spawn_without_signals("flight", move || run(&writing, ring))
            .map_err(|error| told(&error))?;
        crash::watch(&shared);
        let sink = FlightSink {
            shared: Arc::clone(&shared),
            #[cfg(debug_assertions)]
            panic_after: std::env::var("MAINSPRING_TEST_PANIC_AFTER").ok().and_then(|text| text.parse().ok()),
        };
        Ok((Recorder { shared, thread: RefCell::new(Some(thread)), path: shown }, Box::new(sink)))
    }

    /// Ends the recording: everything that was recorded is in the files then.
    pub(in crate::daemon) fn close(&self) {
        let Some(thread) = self.thread.borrow_mut().take() else { return };
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.work.notify_one();
        let wait = self.shared.reported.wait_timeout_while(state, WRITE_TIMEOUT, |state| !state.is_closed);
        let (state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        // A disk that hangs holds up no end.
        if state.is_closed {
            drop(state);
            // What it has to say, it has said.
            let _ = thread.join();
        }
    }

    /// Numbers for `Sys.Stats`.
    pub(in crate::daemon) fn stats(&self) -> Value {
        let state = self.shared.lock();
        json!({
            "folder": self.path,
            "bytes": state.kept_bytes,
            "records": state.kept_records,
            "lost": state.lost_in_all,
            "replayable": state.has_beginning && state.lost_in_all == 0,
            "failed": state.failure,
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread: takes what is there, writes it, and waits.
fn run(shared: &FlightShared, mut ring: Ring) {
    loop {
        let FlightTaken { bytes, cuts, lost, crash, closing } = take(shared);
        let written = ring.write(&bytes, &cuts, lost);
        drop(bytes);
        let had_crash = crash.is_some();
        let result = written.and_then(|()| crash.map_or(Ok(()), |crash| crash.report(&ring)));
        let mut state = shared.lock();
        state.is_reporting &= !had_crash;
        (state.kept_bytes, state.kept_records) = (ring.bytes(), ring.records());
        state.has_beginning = ring.has_beginning();
        if let Err(error) = result {
            (state.bytes, state.cuts, state.records) = (Vec::new(), Vec::new(), 0);
            if state.failure.is_none() {
                tracing::warn!("nothing more is recorded in {}: {error}", ring.path());
                state.failure = Some(error);
            }
        }
        state.is_closed = closing;
        drop(state);
        shared.reported.notify_all();
        if closing {
            return;
        }
    }
}

/// What is to be written.
struct FlightTaken {
    bytes: Vec<u8>,
    cuts: Vec<(usize, u64)>,
    /// Records that are missing behind these.
    lost: u64,
    crash: Option<Box<Crash>>,
    closing: bool,
}

/// Waits for records and lets some gather; takes what is to be written.
fn take(shared: &FlightShared) -> FlightTaken {
    let is_urgent = |state: &FlightState| state.closing || state.crash.is_some();
    let state = shared.lock();
    let state = shared
        .work
        .wait_while(state, |state| state.bytes.is_empty() && !is_urgent(state))
        .unwrap_or_else(PoisonError::into_inner);
    let (mut state, _) = shared
        .work
        .wait_timeout_while(state, PAUSE, |state| state.bytes.len() < HURRY_BYTES && !is_urgent(state))
        .unwrap_or_else(PoisonError::into_inner);
    let rest = (state.bytes.len(), std::mem::take(&mut state.records));
    let mut cuts = std::mem::take(&mut state.cuts);
    if cuts.last().is_none_or(|(end, _)| *end < rest.0) && rest.1 > 0 {
        cuts.push(rest);
    }
    FlightTaken {
        bytes: std::mem::take(&mut state.bytes),
        cuts,
        lost: std::mem::take(&mut state.lost),
        crash: state.crash.take(),
        closing: state.closing,
    }
}
