//! Two ways to commit without a server: the raw loop (one write, one flush), and SQLite.

use crate::load::{Load, Outcome, WARM_UP_PART};
use bench_support::monotonic_ns;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a durable command takes in a journal, about.
const RECORD_BYTES: usize = 200;
const PAGE: usize = 4096;
/// The file is filled with zeros before, as a segment of a journal is.
const FILE_BYTES: usize = 64 << 20;

/// Writes all that is under way at once and flushes it, again and again: nobody can acknowledge
/// more.
pub(crate) fn raw(load: &Load) -> Result<Outcome, String> {
    let path = Path::new(&load.address).join(format!("raw-{}.log", std::process::id()));
    let outcome = raw_in(&path, load).map_err(|error| format!("{}: {error}", path.display()));
    let _ = std::fs::remove_file(&path);
    outcome
}

fn raw_in(path: &Path, load: &Load) -> std::io::Result<Outcome> {
    let file = File::create(path)?;
    let zeros = vec![0; 1 << 20];
    for at in 0..FILE_BYTES >> 20 {
        file.write_all_at(&zeros, (at << 20) as u64)?;
    }
    file.sync_all()?;
    let in_flight = load.connections * load.depth;
    let batch = vec![b'x'; (in_flight * RECORD_BYTES).next_multiple_of(PAGE)];
    let mut outcome = Outcome::default();
    let (now_ns, length_ns) = (monotonic_ns(), load.duration.as_nanos() as u64);
    let (counts_from_ns, ends_ns) = (now_ns + length_ns / u64::from(WARM_UP_PART), now_ns + length_ns);
    let mut offset = 0;
    loop {
        let began_ns = monotonic_ns();
        if began_ns >= ends_ns {
            break;
        }
        if offset + batch.len() > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(&batch, offset as u64)?;
        file.sync_data()?;
        offset += batch.len();
        let took_ns = monotonic_ns() - began_ns;
        outcome.flushes += 1;
        outcome.requests += in_flight as u64;
        if began_ns >= counts_from_ns {
            outcome.latencies_ns.extend(std::iter::repeat_n(took_ns, in_flight));
        }
    }
    outcome.counted_ns = ends_ns - counts_from_ns;
    Ok(outcome)
}

/// SQLite by the module of Python's own library: WAL, `synchronous = FULL`, all that is under way
/// in one transaction. Prints when each began and how long it took, in nanoseconds.
const SQLITE: &str = r#"
import sqlite3, sys, time
path, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
base = sqlite3.connect(path, isolation_level=None)
base.execute("PRAGMA journal_mode=WAL")
base.execute("PRAGMA synchronous=FULL")
base.execute("CREATE TABLE IF NOT EXISTS kept (id INTEGER PRIMARY KEY, data TEXT)")
number, ends, out = 0, time.monotonic_ns() + int(seconds * 1e9), []
while True:
    began = time.monotonic_ns()
    if began >= ends:
        break
    base.execute("BEGIN IMMEDIATE")
    base.executemany("INSERT INTO kept (data) VALUES (?)", (("0123456789abcdef" * 12 + str(number + at),) for at in range(count)))
    base.execute("COMMIT")
    number += count
    out.append("%d %d" % (ends - began, time.monotonic_ns() - began))
print("\n".join(out))
"#;

pub(crate) fn sqlite(load: &Load) -> Result<Outcome, String> {
    let path = Path::new(&load.address).join(format!("sqlite-{}.db", std::process::id()));
    let in_flight = load.connections * load.depth;
    let mut python = Command::new("python3");
    python.args(["-", &path.display().to_string(), &in_flight.to_string()]);
    python.arg(load.duration.as_secs_f64().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().map_err(|error| format!("cannot start python3: {error}"))?;
    let told = (|| {
        child.stdin.take()?.write_all(SQLITE.as_bytes()).ok()?;
        let mut told = String::new();
        child.stdout.take()?.read_to_string(&mut told).ok()?;
        Some(told)
    })();
    let status = child.wait().map_err(|error| error.to_string())?;
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    let told = told.filter(|_| status.success()).ok_or("python3 could not run SQLite")?;
    let length_ns = load.duration.as_nanos() as u64;
    let counted_ns = length_ns - length_ns / u64::from(WARM_UP_PART);
    let mut outcome = Outcome { counted_ns, ..Outcome::default() };
    for line in told.lines() {
        let mut numbers = line.split(' ').filter_map(|word| word.parse::<u64>().ok());
        let (Some(left_ns), Some(took_ns)) = (numbers.next(), numbers.next()) else { continue };
        outcome.flushes += 1;
        outcome.requests += in_flight as u64;
        if left_ns <= counted_ns {
            outcome.latencies_ns.extend(std::iter::repeat_n(took_ns, in_flight));
        }
    }
    Ok(outcome)
}
