//! The thread that writes: it takes all that waits, writes once, flushes once, wakes the loop once.
//! While nothing waits it waits for the loop, without a system call.

use super::Notice;
use super::snapshots::{self, Made, Plan};
use mainspring_journal::{Batch, Folder, Journal, Space, snapshot_bytes};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of one batch, or twice as many at times, and its last record besides. A segment has room
/// for more.
pub(super) const BATCH_BYTES_MAX: usize = 16 << 20;
/// How long a full disk is left alone before it is asked again.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// How willingly the thread that makes a snapshot lets others go first.
const SNAPSHOT_NICE: i32 = 10;

/// What the loop and the thread share.
pub(super) struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// How often the thread has told something.
    told: AtomicU64,
}

pub(super) struct State {
    /// Facts that were handed over, in batches that fit into a segment.
    waiting: VecDeque<Batch>,
    waiting_bytes: usize,
    /// Whether the journal is to be closed when nothing waits.
    closing: bool,
    /// A snapshot that was finished, or why there is none.
    snapshot: Option<Result<Made, String>>,
    /// A batch that was written, for its memory.
    spare: Option<Batch>,
    /// The last record that is on disk.
    pub(super) durable: u64,
    pub(super) failure: Option<String>,
    pub(super) is_full: bool,
    /// Bytes that were handed over and are not on disk.
    pub(super) unflushed_bytes: usize,
    pub(super) notices: Vec<Notice>,
    pub(super) bytes: u64,
    pub(super) segments: usize,
    pub(super) snapshots: u64,
    pub(super) flushes: u64,
    pub(super) flush_ns: u64,
    pub(super) flush_max_ns: u64,
}

impl State {
    pub(super) fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }
}

impl Shared {
    pub(super) fn new(next: u64, bytes: u64, segments: usize) -> Shared {
        let state = State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            closing: false,
            snapshot: None,
            spare: None,
            durable: next - 1,
            failure: None,
            is_full: false,
            unflushed_bytes: 0,
            notices: Vec::new(),
            bytes,
            segments,
            snapshots: 0,
            flushes: 0,
            flush_ns: 0,
            flush_max_ns: 0,
        };
        Shared { state: Mutex::new(state), work: Condvar::new(), told: AtomicU64::new(0) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the thread has told something: where it is what it was, there is nothing new.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// Gives the thread facts to write; gives how many bytes are not on disk then. After a failure
    /// they are dropped: nothing is written any more.
    pub(super) fn hand_over(&self, batch: &mut Batch) -> usize {
        let mut state = self.lock();
        if state.failure.is_some() {
            *batch = Batch::new(batch.next());
            return 0;
        }
        state.unflushed_bytes += batch.bytes();
        state.waiting_bytes += batch.bytes();
        match state.waiting.back_mut() {
            Some(last) if last.bytes() + batch.bytes() <= BATCH_BYTES_MAX => last.append(batch),
            _ => {
                let mut taken = state.spare.take().unwrap_or_else(|| Batch::new(0));
                taken.append(batch);
                state.waiting.push_back(taken);
            }
        }
        let unflushed = state.unflushed_bytes;
        drop(state);
        self.work.notify_one();
        unflushed
    }

    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.work.notify_one();
    }
}

/// What the thread owns.
pub(super) struct Writer<D: Folder, W> {
    journal: Journal<D>,
    shared: Arc<Shared>,
    plan: Plan<D>,
    wake: W,
    /// What is being written.
    batch: Batch,
    /// Whether a snapshot is being made.
    under_way: bool,
    /// What snapshots take on disk.
    snapshot_bytes: u64,
}

/// What there is to do.
enum Task {
    Write,
    NoteSnapshot(Result<Made, String>),
    LookForSpace,
    Close,
}

impl<D, W> Writer<D, W>
where
    D: Folder + Clone + Send + 'static,
    W: Fn() + Send,
{
    pub(super) fn new(journal: Journal<D>, shared: Arc<Shared>, plan: Plan<D>, wake: W) -> Writer<D, W> {
        let batch = Batch::new(journal.durable() + 1);
        let mut writer = Writer { journal, shared, plan, wake, batch, under_way: false, snapshot_bytes: 0 };
        writer.measure_snapshots();
        writer.note_use(&mut writer.shared.lock());
        writer
    }

    pub(super) fn run(mut self) {
        self.begin_snapshot_if_due();
        loop {
            match self.next_task() {
                Task::Write => self.write(),
                Task::NoteSnapshot(snapshot) => self.note_snapshot(snapshot),
                Task::LookForSpace => {
                    let _ = self.journal.look_for_space();
                    // What did not fit may fit now.
                    self.write();
                }
                Task::Close => break,
            }
        }
        self.close();
    }

    /// Waits for something to do, and takes all facts that wait.
    fn next_task(&mut self) -> Task {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            if let Some(snapshot) = state.snapshot.take() {
                return Task::NoteSnapshot(snapshot);
            }
            let has_failed = state.failure.is_some();
            // What did not fit on a full disk comes first.
            if self.batch.is_empty()
                && !has_failed
                && let Some(mut batch) = state.waiting.pop_front()
            {
                state.waiting_bytes -= batch.bytes();
                self.batch.append(&mut batch);
                state.spare = Some(batch);
                return Task::Write;
            }
            if state.closing && (has_failed || !self.under_way) {
                return Task::Close;
            }
            if self.journal.space() == Space::Full && !has_failed {
                let (woken, pause) =
                    shared.work.wait_timeout(state, FULL_PAUSE).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if pause.timed_out() {
                    return Task::LookForSpace;
                }
                continue;
            }
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&mut self) {
        let began = Instant::now();
        let result = if self.batch.is_empty() {
            Ok(self.journal.durable())
        } else {
            self.journal.write(&mut self.batch, unix_ms())
        };
        let took_ns = began.elapsed().as_nanos() as u64;
        let mut state = self.shared.lock();
        match result {
            Ok(durable) => {
                if durable > state.durable {
                    state.flushes += 1;
                    state.flush_ns += took_ns;
                    state.flush_max_ns = state.flush_max_ns.max(took_ns);
                }
                state.durable = durable;
                state.unflushed_bytes = state.waiting_bytes;
                self.note_space(&mut state);
            }
            // The batch is kept, and tried again when there is room.
            Err(mainspring_journal::Error::Full { .. }) => self.note_space(&mut state),
            Err(error) => self.fail(&mut state, &error.to_string()),
        }
        self.note_use(&mut state);
        drop(state);
        self.tell();
        self.prepare();
        self.begin_snapshot_if_due();
    }

    /// Has the loop look at the state.
    fn tell(&self) {
        tell(&self.shared, &self.wake);
    }

    /// Makes part of the next segment: after those who waited for the batch were told.
    fn prepare(&mut self) {
        let space = self.journal.space();
        let result = self.journal.prepare();
        if result.is_ok() && self.journal.space() == space {
            return;
        }
        let mut state = self.shared.lock();
        match result {
            Ok(()) => self.note_space(&mut state),
            // A journal that failed before was told of then.
            Err(mainspring_journal::Error::Failed { .. }) => {}
            Err(error) => self.fail(&mut state, &error.to_string()),
        }
        drop(state);
        self.tell();
    }

    /// Looks how large the snapshots are; if they cannot be looked at, they are what they were.
    fn measure_snapshots(&mut self) {
        self.snapshot_bytes = snapshot_bytes(self.journal.folder()).unwrap_or(self.snapshot_bytes);
    }

    /// What the journal takes on disk.
    fn note_use(&self, state: &mut State) {
        state.bytes = self.journal.bytes() + self.snapshot_bytes;
        state.segments = self.journal.segments();
    }

    fn note_space(&self, state: &mut State) {
        let is_full = self.journal.space() == Space::Full;
        if is_full == state.is_full {
            return;
        }
        state.is_full = is_full;
        state.notices.push(match is_full {
            true => Notice::Error(
                "the disk of the journal is full: durable commands are refused until there is room".into(),
            ),
            false => Notice::Info("the disk of the journal has room again".into()),
        });
    }

    fn fail(&self, state: &mut State, reason: &str) {
        state.notices.push(Notice::Error(format!("the journal has failed for good: {reason}")));
        state.fail(reason.to_owned());
    }

    fn note_snapshot(&mut self, made: Result<Made, String>) {
        self.under_way = false;
        let segments = self.journal.segments();
        let (snapshot, result) = match made {
            Ok(Made { snapshot, deleted }) => (Ok(snapshot), self.journal.note_deleted(deleted)),
            Err(reason) => (Err(reason), Ok(())),
        };
        self.measure_snapshots();
        let mut state = self.shared.lock();
        let notice = match snapshot {
            Ok(snapshot) => {
                state.snapshots += 1;
                self.plan.note(&snapshot);
                Notice::Info(format!(
                    "journal snapshot up to fact {}: {} facts, {} ms; {} of {segments} segments deleted, {} on disk",
                    snapshot.number,
                    snapshot.facts,
                    snapshot.took_ms,
                    segments - self.journal.segments(),
                    crate::text::units::show_bytes(self.journal.bytes() + self.snapshot_bytes),
                ))
            }
            // Nothing is lost: the facts are all there, and the next full segment is the next
            // chance.
            Err(reason) => Notice::Warn(format!("no journal snapshot: {reason}")),
        };
        state.notices.push(notice);
        if let Err(error) = result {
            self.fail(&mut state, &error.to_string());
        }
        self.note_use(&mut state);
        drop(state);
        self.tell();
    }

    fn begin_snapshot_if_due(&mut self) {
        if self.under_way || self.shared.lock().closing {
            return;
        }
        let Some(up_to) = self.plan.due(self.journal.sealed_up_to()) else { return };
        let (shared, job) = (Arc::clone(&self.shared), self.plan.job(up_to, self.journal.old_segments()));
        let made = move || {
            // It is in no hurry, and takes no core from those that are.
            let _ = rustix::process::setpriority_process(None, SNAPSHOT_NICE);
            let snapshot = snapshots::make(job);
            shared.lock().snapshot = Some(snapshot);
            shared.work.notify_one();
        };
        // This thread blocks all signals, so the new one does from its beginning.
        match std::thread::Builder::new().name("journal-snapshot".into()).spawn(made) {
            Ok(_) => self.under_way = true,
            Err(error) => {
                let text = format!("no journal snapshot: no thread for it: {error}");
                self.shared.lock().notices.push(Notice::Warn(text));
            }
        }
    }

    fn close(self) {
        let has_failed = self.shared.lock().failure.is_some();
        if !has_failed
            && self.batch.is_empty()
            && let Err(error) = self.journal.close(unix_ms())
        {
            let notice = Notice::Error(format!("the journal was not closed: {error}"));
            self.shared.lock().notices.push(notice);
        }
        tell(&self.shared, &self.wake);
    }
}

fn tell(shared: &Shared, wake: impl Fn()) {
    shared.told.fetch_add(1, Ordering::Release);
    wake();
}

pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
