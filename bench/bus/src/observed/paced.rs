//! So many requests a second, whatever becomes of them: a bystander who is served late waits, and
//! that is counted.

use bench_support::monotonic_ns;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Requests that are written together.
const BATCHES_PER_SECOND: u64 = 1_000;

/// What became of a load.
#[derive(Debug)]
pub(crate) struct Paced {
    /// Sorted, in nanoseconds, from the time at which each request was due.
    latencies_ns: Vec<u64>,
    pub(crate) took: Duration,
}

impl Paced {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies_ns.len() as f64 / self.took.as_secs_f64()
    }

    /// The latency that this part of all requests stayed within, in microseconds.
    pub(crate) fn latency_us(&self, part: f64) -> f64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        self.latencies_ns.get((last as f64 * part) as usize).map_or(0.0, |ns| *ns as f64 / 1_000.0)
    }
}

/// Sends `rate` requests a second on one connection for so long, and waits for all answers.
pub(crate) fn run(address: &str, rate: u64, time: Duration) -> Result<Paced, String> {
    let told = |error: std::io::Error| format!("the load on {address} failed: {error}");
    let mut stream = UnixStream::connect(address).map_err(told)?;
    let reader = stream.try_clone().map_err(told)?;
    let (per_batch, batches) =
        (rate / BATCHES_PER_SECOND, time.as_millis() as u64 * BATCHES_PER_SECOND / 1_000);
    let began_ns = monotonic_ns();
    let due_ns = move |batch: u64| began_ns + batch * (1_000_000_000 / BATCHES_PER_SECOND);
    let total = per_batch * batches;
    let reading = std::thread::spawn(move || read(reader, total, |number| due_ns(number / per_batch)));
    let run = std::process::id();
    let mut text = Vec::new();
    for batch in 0..batches {
        text.clear();
        for number in batch * per_batch..(batch + 1) * per_batch {
            // A vector takes everything. The number stands first in the id, so that a reply says
            // when it was due.
            let _ = writeln!(
                text,
                r#"{{"kind":"command","type":"Memory.Set","data":{{"key":"key-{}","value":"{began_ns}-{number}"}},"metadata":{{"id":"{number}-{run}-{began_ns}","timestamp":1767910000000}}}}"#,
                number % 1000
            );
        }
        let wait_ns = due_ns(batch).saturating_sub(monotonic_ns());
        std::thread::sleep(Duration::from_nanos(wait_ns));
        stream.write_all(&text).map_err(told)?;
    }
    let mut latencies_ns = reading.join().map_err(|_| "the reader failed".to_owned())??;
    latencies_ns.sort_unstable();
    Ok(Paced { latencies_ns, took: Duration::from_nanos(monotonic_ns() - began_ns) })
}

/// Reads all answers; how late each was.
fn read(stream: UnixStream, total: u64, due_ns: impl Fn(u64) -> u64) -> Result<Vec<u64>, String> {
    const MARKER: &[u8] = b"\"causation\":\"";
    let mut lines = BufReader::with_capacity(256 * 1024, stream);
    let (mut latencies_ns, mut line) = (Vec::with_capacity(total as usize), Vec::new());
    while (latencies_ns.len() as u64) < total {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(1..) => {}
            _ => return Err("the daemon closed the connection".into()),
        }
        let shown = || String::from_utf8_lossy(&line).into_owned();
        if !line.starts_with(br#"{"kind":"reply""#) {
            return Err(format!("a request failed: {}", shown()));
        }
        let at = memchr::memmem::find(&line, MARKER).map(|at| at + MARKER.len());
        let digits = at.map(|at| line[at..].iter().take_while(|byte| byte.is_ascii_digit()));
        let number = digits.map(|digits| digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')));
        let number = number.ok_or_else(|| format!("not a reply: {}", shown()))?;
        latencies_ns.push(monotonic_ns().saturating_sub(due_ns(number)));
    }
    Ok(latencies_ns)
}
