//! The thread and its snapshots, on a real disk and on simulated ones.

use super::snapshots::{Plan, Retention, fold};
use super::writer::{Shared, Writer};
use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Journal, Options};
use mainspring_kernel::{Durable, DurableBounds, Fact};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const OPTIONS: Options = Options { segment_bytes: 64 << 10 };

struct Running {
    shared: Arc<Shared>,
    batch: Batch,
    woken: Receiver<()>,
    thread: std::thread::JoinHandle<()>,
}

fn retention() -> Retention {
    Retention { age: Duration::from_secs(3600), bytes: 1 << 20 }
}

/// Opens the journal and starts its thread; gives what was there, too.
fn start(folder: &SimFolder, keep: Retention) -> (Running, Durable) {
    let folder = Arc::new(folder.clone());
    let mut durable = Durable::default();
    let (journal, opened) = Journal::open_if(Arc::clone(&folder), OPTIONS, &mut |restored| {
        let (mainspring_journal::Restored::Snapshot(record) | mainspring_journal::Restored::Record(record)) =
            restored;
        durable.apply_record(record.kind, record.version, record.data).map_err(|error| error.to_string())
    })
    .unwrap();
    let shared = Arc::new(Shared::new(opened.next, journal.bytes(), journal.segments()));
    let plan = Plan {
        folder,
        bounds: DurableBounds::default(),
        retention: keep,
        last: opened.snapshot.unwrap_or(0),
        sealed: journal.sealed_up_to().unwrap_or(0),
        sealed_bytes: OPTIONS.segment_bytes,
        segment_bytes: OPTIONS.segment_bytes,
        snapshot_bytes: 0,
    };
    let (wake, woken) = channel();
    let writer = Writer::new(journal, Arc::clone(&shared), plan, move || {
        let _ = wake.send(());
    });
    let thread = std::thread::spawn(move || writer.run());
    (Running { shared, batch: Batch::new(opened.next), woken, thread }, durable)
}

impl Running {
    fn put(&mut self, key: u64, value: &str) -> u64 {
        let fact = Fact::Put { store: "memory", key: &*key.to_string(), value };
        let mut bytes = Vec::new();
        fact.write(&mut bytes);
        self.batch.push(fact.kind(), fact.version(), &[&bytes]).unwrap()
    }

    /// Hands over, and waits until that is on disk or has failed.
    fn flush(&mut self) -> bool {
        let last = self.batch.next() - 1;
        self.shared.hand_over(&mut self.batch);
        loop {
            let state = self.shared.lock();
            if state.durable >= last || state.failure.is_some() {
                return state.failure.is_none();
            }
            drop(state);
            self.woken.recv_timeout(Duration::from_secs(30)).unwrap();
        }
    }

    fn close(self) {
        self.shared.close();
        self.thread.join().unwrap();
    }
}

#[test]
fn j1_3_one_flush_carries_all_that_waited() {
    let folder = SimFolder::default();
    let (mut running, _) = start(&folder, retention());
    assert!(running.flush());
    let before = folder.operations();
    for key in 0..500 {
        running.put(key, "1");
    }
    assert!(running.flush());
    assert_eq!(folder.operations() - before, 2, "one write and one flush");
    assert_eq!(running.shared.lock().flushes, 1);
    running.close();
    let (running, durable) = start(&folder, retention());
    assert_eq!(durable.values("memory").count(), 500);
    running.close();
}

#[test]
fn j2_4_snapshots_stand_for_the_facts_before_them_and_segments_go() {
    let folder = SimFolder::default();
    let keep = Retention { age: Duration::ZERO, bytes: 0 };
    let (mut running, _) = start(&folder, keep);
    let mut whole = Durable::default();
    let value = format!("\"{}\"", "x".repeat(2000));
    let began = std::time::Instant::now();
    for round in 0_u64.. {
        running.put(round % 7, &value);
        let key = (round % 7).to_string();
        whole.apply(Fact::Put { store: "memory", key: &key, value: &*value });
        assert!(running.flush());
        let state = running.shared.lock();
        if round >= 600 && state.snapshots >= 3 && state.segments <= 8 {
            break;
        }
        drop(state);
        assert!(began.elapsed() < Duration::from_secs(60), "no snapshots, or segments stay");
        // Snapshots are made beside this, in their own time.
        std::thread::sleep(Duration::from_micros(if round < 600 { 0 } else { 1000 }));
    }
    let last = running.shared.lock().durable;
    running.close();
    let (running, durable) = start(&folder, keep);
    assert_eq!(durable, whole);
    running.close();
    assert_eq!(fold(&folder, DurableBounds::default(), last).unwrap(), whole);
}

#[test]
fn what_a_snapshot_stands_for_is_kept_as_long_as_settings_say() {
    let folder = SimFolder::default();
    let (mut running, _) = start(&folder, Retention { age: Duration::from_secs(3600), bytes: u64::MAX });
    let value = format!("\"{}\"", "x".repeat(3000));
    let began = std::time::Instant::now();
    for round in 0.. {
        running.put(round, &value);
        assert!(running.flush());
        if round >= 100 && running.shared.lock().snapshots >= 2 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no snapshots");
    }
    running.close();
    assert!(folder.files().contains_key("0000000000000001.segment"), "it is younger than an hour");
}

#[test]
fn j3_1_a_failed_flush_is_final_and_told() {
    let folder = SimFolder::default();
    let (mut running, _) = start(&folder, retention());
    running.put(1, "1");
    assert!(running.flush());
    folder.fail_at(folder.operations() + 2, std::io::ErrorKind::Other);
    running.put(2, "2");
    assert!(!running.flush());
    // The disk is well again, and the journal is not.
    running.put(3, "3");
    assert!(!running.flush());
    let durable = running.shared.lock().durable;
    running.close();
    let told = durable;
    folder.cut_power(&mut || false);
    let (running, durable) = start(&folder, retention());
    assert_eq!(durable.values("memory").collect::<Vec<_>>(), [("1", "1")]);
    assert!(running.batch.next() > told + 2, "numbers are never used twice");
    running.close();
}

#[test]
fn j3_2_a_full_disk_is_told_and_what_waits_is_written_when_there_is_room() {
    let folder = SimFolder::default();
    let (mut running, _) = start(&folder, retention());
    assert!(running.flush());
    folder.set_capacity(Some(80 << 10));
    let value = format!("\"{}\"", "x".repeat(3000));
    let mut key = 0;
    while !running.shared.lock().is_full {
        running.put(key, &value);
        key += 1;
        assert!(running.flush());
    }
    // What was begun can end.
    running.put(1000, "1");
    assert!(running.flush());
    // No room at all any more: it waits, and nothing has failed.
    for more in 0..15 {
        running.put(2000 + more, &value);
    }
    let last = running.batch.next() - 1;
    running.shared.hand_over(&mut running.batch);
    std::thread::sleep(Duration::from_millis(300));
    assert!(running.shared.lock().durable < last && running.shared.lock().failure.is_none());
    folder.set_capacity(None);
    assert!(running.flush());
    while running.shared.lock().durable < last {
        running.woken.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    assert!(!running.shared.lock().is_full);
    running.close();
    let (running, durable) = start(&folder, retention());
    assert_eq!(durable.values("memory").count() as u64, key + 1 + 15);
    running.close();
}

#[test]
fn a_turn_that_records_more_than_a_segment_holds_does_not_end_the_journal() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("journal");
    let opening = super::open(&path, &crate::settings::JournalSettings::default(), DurableBounds::default());
    let reactor = mainspring_reactor::Reactor::new().unwrap();
    let storage = super::Storage::start(opening.unwrap(), &reactor, || ()).unwrap();
    let value = "x".repeat(1 << 20);
    let facts = (0..80).map(|at| match at % 2 {
        0 => Fact::Emitted { event: at, unix_ms: 1, message: &*value },
        _ => Fact::Put { store: "memory", key: "k", value: &*value },
    });
    // The pump is told how far it was handed over meanwhile: what rests on it waits for no more.
    assert!(storage.append(&facts.collect()).is_some_and(|last| (16..80).contains(&last)));
    let rest = [Fact::Put { store: "memory", key: "k", value: "1" }];
    assert_eq!(storage.append(&rest.into_iter().collect()), None);
    assert_eq!(storage.hand_over(), 81);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let mut flushed = 0;
    while flushed < 81 && std::time::Instant::now() < until {
        if let Some(progress) = storage.progress() {
            assert_eq!(progress.failure, None);
            flushed = progress.flushed;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(flushed, 81);
    let notices = storage.close();
    assert!(!notices.iter().any(|notice| matches!(notice, super::Notice::Error(_))), "{notices:?}");
}
