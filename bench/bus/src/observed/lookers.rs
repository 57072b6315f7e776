//! Operators that look at a daemon all the time, each on a thread and a connection of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Where the numbers of the next operator's requests begin.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Taps every message, with its data.
    Tap,
    /// Taps, and asks for the latest thousand roots again and again.
    TapAndTrace,
    /// Taps, and lists actors, dead letters, timers and numbers again and again.
    TapAndList,
}

/// An operator at work.
pub(crate) struct Looker {
    stream: UnixStream,
    thread: JoinHandle<()>,
    seen: Arc<AtomicU64>,
}

impl Looker {
    pub(crate) fn start(address: &str, work: Work) -> Result<Looker, String> {
        let told = |error: std::io::Error| format!("cannot look at {address}: {error}");
        let mut stream = UnixStream::connect(address).map_err(told)?;
        let seen = Arc::new(AtomicU64::new(0));
        let (reader, count) = (stream.try_clone().map_err(told)?, Arc::clone(&seen));
        // Answers are remembered by the id of the request, so each operator has ids of its own.
        let first = FIRST.fetch_add(1 << 32, Ordering::Relaxed);
        let tap = request("command", "Sys.Tap", r#"{"data":true}"#, first);
        stream.write_all(tap.as_bytes()).map_err(told)?;
        let mut lines = BufReader::with_capacity(256 * 1024, reader);
        let mut line = Vec::new();
        // From the answer on it taps.
        lines.read_until(b'\n', &mut line).map_err(told)?;
        if !line.starts_with(br#"{"kind":"reply""#) {
            return Err(format!("the tap is refused: {}", String::from_utf8_lossy(&line)));
        }
        let thread = std::thread::spawn(move || look(lines, work, first, &count));
        Ok(Looker { stream, thread, seen })
    }

    /// Ends it; how many records it saw, or how many answers it got.
    pub(crate) fn end(self) -> Result<u64, String> {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        self.thread.join().map_err(|_| "an operator failed".to_owned())?;
        Ok(self.seen.load(Ordering::Relaxed))
    }
}

/// Reads, and asks the next question whenever one was answered.
fn look(mut lines: BufReader<UnixStream>, work: Work, first: u64, seen: &AtomicU64) {
    let questions: &[(&str, &str)] = match work {
        Work::Tap => &[],
        Work::TapAndTrace => &[("Sys.Trace", r#"{"latest":1000}"#)],
        Work::TapAndList => &[
            ("Sys.Actors", "{}"),
            ("Sys.DeadLetters", "{}"),
            ("Timer.List", r#"{"all":true}"#),
            ("Sys.Stats", "{}"),
        ],
    };
    let ask = |lines: &mut BufReader<UnixStream>, number: u64| match questions {
        [] => Ok(()),
        all => {
            let (name, data) = all[number as usize % all.len()];
            lines.get_mut().write_all(request("query", name, data, number).as_bytes())
        }
    };
    let (mut number, mut line) = (first + 1, Vec::new());
    if ask(&mut lines, number).is_err() {
        return;
    }
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(1..) => {}
            _ => return,
        }
        if line.starts_with(br#"{"kind":"event""#) {
            if work == Work::Tap {
                let records = memchr::memmem::find_iter(&line, b"{\"at\":").count() as u64;
                seen.fetch_add(records, Ordering::Relaxed);
            }
            continue;
        }
        number += 1;
        seen.fetch_add(1, Ordering::Relaxed);
        if ask(&mut lines, number).is_err() {
            return;
        }
    }
}

fn request(kind: &str, name: &str, data: &str, number: u64) -> String {
    format!(
        "{{\"kind\":\"{kind}\",\"type\":\"{name}\",\"data\":{data},\"metadata\":{{\"id\":\"look-{number}\",\"timestamp\":1}}}}\n"
    )
}
