use super::*;
use crate::flight::reading::{Recording, runs};
use mainspring_kernel::{Config, ConnectionId, Kernel, Now, Replay, TapeReader};
use std::path::PathBuf;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("flight");
    (place, path)
}

const NOW: Now = Now { mono_ns: 1, unix_ms: 1_767_910_000_000 };

/// A kernel that is asked so many times, by lines of so many bytes.
fn record(path: &Path, bytes: u64, times: u64, size: usize) -> (Recorder, Kernel) {
    let (recorder, sink) = Recorder::start(path, bytes).unwrap();
    let mut kernel = Kernel::recorded(Config::default(), 7, sink);
    kernel.boot(mainspring_kernel::BootPlan::default(), NOW);
    kernel.connection_opened(ConnectionId(1), "ada", NOW);
    let text = "x".repeat(size);
    for at in 0..times {
        let line = format!(
            r#"{{"kind":"query","type":"Syscall.Ping","data":"{text}","metadata":{{"id":"q-{at}","timestamp":1}}}}"#
        );
        kernel.ingest(ConnectionId(1), line.as_bytes(), NOW);
        kernel.turn(NOW);
        let mut effects = Vec::new();
        kernel.drain_effects(&mut effects);
    }
    (recorder, kernel)
}

fn newest(path: &Path) -> (DiskFolder, Recording) {
    let folder = DiskFolder::open_to_read(path).unwrap();
    let run = *runs(&folder).unwrap().last().unwrap();
    let recording = Recording::open(&folder, run).unwrap();
    (folder, recording)
}

fn replay(path: &Path) -> Result<Replay, String> {
    let (folder, recording) = newest(path);
    let mut replay = Replay::default();
    recording.read(&folder, &mut |records| {
        for recorded in TapeReader::new(records) {
            replay.take(recorded.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        }
        Ok(())
    })?;
    Ok(replay)
}

#[test]
fn j8_1_a_recording_in_files_replays() {
    let (_place, path) = folder();
    let (recorder, kernel) = record(&path, 64 << 20, 100, 10);
    drop((recorder, kernel));
    let replay = replay(&path).unwrap();
    assert_eq!(replay.inputs(), 202);
    assert!(replay.effects() >= 100);
}

#[test]
fn j8_3_the_ring_is_bounded_its_oldest_goes_and_the_run_before_is_kept() {
    let (_place, path) = folder();
    let bytes = || -> u64 {
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    for run in 1..=4_u64 {
        let (recorder, sink) = Recorder::start(&path, 1 << 20).unwrap();
        let mut kernel = Kernel::recorded(Config::default(), 7, sink);
        kernel.connection_opened(ConnectionId(1), "ada", NOW);
        for _ in 0..40 {
            kernel.ingest(ConnectionId(1), &vec![b'x'; 100_000], NOW);
            while recorder.shared.lock().records > 0 {
                std::thread::yield_now();
            }
        }
        let stats = recorder.stats();
        drop((kernel, recorder));
        assert!(bytes() <= run.min(2) * (1 << 20), "{} bytes in run {run}", bytes());
        assert!(stats["bytes"].as_u64().unwrap() <= 1 << 20, "{stats}");
        let (folder, recording) = newest(&path);
        assert!(recording.header.before > 0, "the beginning has gone");
        assert_eq!(runs(&folder).unwrap().len() as u64, run.min(2));
    }
    let words = replay(&path).unwrap_err();
    assert!(words.contains("beginning is missing"), "{words}");
}

#[test]
fn j8_3_a_burst_is_kept_within_the_bound_and_its_newest_stays() {
    let (_place, path) = folder();
    let (recorder, kernel) = record(&path, 1 << 20, 300, 20_000);
    drop((recorder, kernel));
    let folder = DiskFolder::open_to_read(&path).unwrap();
    let bytes: u64 =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 1 << 20, "{bytes}");
    let mut text = Vec::new();
    let run = *runs(&folder).unwrap().last().unwrap();
    let read = Recording::open(&folder, run).unwrap().read(&folder, &mut |records| {
        text.extend_from_slice(records);
        Ok(())
    });
    read.unwrap();
    assert!(text.windows(7).any(|window| window == b"\"q-299\""), "the newest is there");
}

#[test]
fn j8_3_what_has_no_room_is_lost_and_told() {
    let shared = Arc::new(FlightShared::default());
    let mut sink = FlightSink {
        shared: Arc::clone(&shared),
        #[cfg(debug_assertions)]
        panic_after: None,
    };
    let record = vec![0; 1 << 20];
    for _ in 0..20 {
        sink.take(&record);
    }
    let state = shared.lock();
    assert_eq!((state.records, state.lost, state.lost_in_all), (16, 4, 4));
    drop(state);
    let (_place, path) = folder();
    let mut ring = Ring::prepare(DiskFolder::open(&path).unwrap(), 1 << 20).unwrap();
    ring.write(&[], &[], 4).unwrap();
    let words = replay(&path).unwrap_err();
    assert!(words.contains("4 records are missing"), "{words}");
}

/// Where the frames of a segment end.
fn frame_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    while let Some(head) = bytes.get(ends[ends.len() - 1]..).and_then(|rest| rest.first_chunk::<4>()) {
        ends.push(ends[ends.len() - 1] + 8 + u32::from_le_bytes(*head) as usize);
    }
    ends
}

#[test]
fn a_recording_that_ends_in_the_middle_of_a_frame_is_read_up_to_there() {
    let (_place, path) = folder();
    drop(record(&path, 64 << 20, 3, 10));
    drop(record(&path, 64 << 20, 3, 10));
    let (folder, recording) = newest(&path);
    let name = crate::flight::segments(&folder).unwrap().into_iter().rfind(|name| name.run == recording.run);
    let file = path.join(name.unwrap().file());
    let whole = std::fs::read(&file).unwrap();
    let ends = frame_ends(&whole);
    for length in (0..whole.len()).rev().step_by(7) {
        std::fs::write(&file, &whole[..length]).unwrap();
        let folder = DiskFolder::open_to_read(&path).unwrap();
        match Recording::open(&folder, recording.run) {
            Ok(recording) => {
                let mut read = 0;
                let mut visit = |records: &[u8]| {
                    read += 8 + records.len() as u64;
                    Ok(())
                };
                let left_out = recording.read(&folder, &mut visit).unwrap();
                let left_out = left_out.map_or(0, |left_out| left_out.bytes);
                assert!(read + left_out < length as u64, "there is a header, too");
                assert_eq!(left_out > 0, !ends.contains(&length), "at {length}");
            }
            Err(words) => assert!(words.contains("no beginning"), "{words}"),
        }
    }
}

#[test]
fn a_damaged_recording_does_not_pass_for_one_that_ends_there() {
    let (_place, path) = folder();
    let mut ring = Ring::prepare(DiskFolder::open(&path).unwrap(), 1 << 10).unwrap();
    for _ in 0..8 {
        ring.write(&[7; 60], &[(20, 1), (40, 2), (60, 3)], 0).unwrap();
    }
    let (folder, recording) = newest(&path);
    let names = crate::flight::segments(&folder).unwrap();
    assert!(names.len() > 2, "{names:?}");
    let frames = |recording: &Recording| {
        let mut frames = 0;
        recording
            .read(&folder, &mut |_| {
                frames += 1;
                Ok(())
            })
            .map(|left_out| (frames, left_out))
    };
    let (all, none) = frames(&recording).unwrap();
    assert_eq!(none, None);
    for (at, name) in names.iter().enumerate() {
        let file = path.join(name.file());
        let whole = std::fs::read(&file).unwrap();
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 0x10;
            std::fs::write(&file, &changed).unwrap();
            let Ok(recording) = Recording::open(&folder, recording.run) else { continue };
            match frames(&recording) {
                Err(_) => {}
                Ok((read, left_out)) => {
                    assert_eq!(at + 1, names.len(), "only the last segment can end early");
                    assert!(read < all && left_out.is_some(), "byte {place} of {file:?}");
                }
            }
        }
        std::fs::write(&file, &whole).unwrap();
    }
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (_place, path) = folder();
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = Recorder::start(&path, 1 << 20).unwrap_err();
    assert!(words.contains("chmod 700"), "{words}");
}

#[test]
fn j8_3_a_failed_write_ends_the_recording_and_nothing_else() {
    let (_place, path) = folder();
    let (recorder, mut kernel) = record(&path, 64 << 20, 3, 10);
    // Whoever takes the folder away takes the next segment's place with it.
    std::fs::remove_dir_all(&path).unwrap();
    let told = |recorder: &Recorder| recorder.stats()["failed"].as_str().map(str::to_owned);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while told(&recorder).is_none() {
        assert!(std::time::Instant::now() < deadline, "it never failed");
        for _ in 0..200 {
            kernel.ingest(ConnectionId(1), &vec![b'x'; 100_000], NOW);
        }
    }
    kernel.ingest(ConnectionId(1), b"more", NOW);
    assert!(recorder.stats()["lost"].as_u64().unwrap() > 0);
    assert_eq!(recorder.stats()["replayable"], false);
    recorder.close();
}
