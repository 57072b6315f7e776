//! The standard streams of a capability, on tokio.

use crate::error::McpError;
use mainspring_message::lines::{Line, LineBuffer};
use mainspring_message::{Draft, Envelope, Kind};
use rmcp::model::ProgressNotificationParam;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Stdin};
use tokio::sync::mpsc;

/// The longest line that a daemon takes, as shipped (`limits.line_bytes_max`).
const LINE_BYTES_MAX: usize = 1 << 20;
/// The longest line that is read.
const INPUT_BYTES_MAX: usize = 64 << 20;
/// Lines that wait to be written, beyond which no progress is told: the daemon is behind. Outcomes
/// are as many as the daemon has asked for.
const LINES_WAITING_MAX: usize = 1024;
/// Room for one read.
const READ_BYTES: usize = 64 << 10;

/// Messages from the daemon.
pub(super) struct Incoming {
    stdin: Stdin,
    lines: LineBuffer,
}

impl Incoming {
    pub(super) fn new() -> Incoming {
        Incoming { stdin: tokio::io::stdin(), lines: LineBuffer::new(READ_BYTES, INPUT_BYTES_MAX) }
    }

    /// The next message; `None` at the end. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> Result<Option<Envelope>, McpError> {
        loop {
            while let Some(line) = self.lines.next_line() {
                match line {
                    Line::Whole(bytes) if !line.is_blank() => match Envelope::parse(bytes) {
                        Ok(message) => return Ok(Some(message)),
                        Err(rejection) => eprintln!("a line on standard input is no message: {rejection}"),
                    },
                    Line::Whole(_) => {}
                    Line::TooLong => {
                        eprintln!("a line on standard input is longer than {INPUT_BYTES_MAX} bytes")
                    }
                }
            }
            let failed = |error| McpError::Stream(format!("standard input: {error}"));
            let count = self.stdin.read(self.lines.room()).await.map_err(failed)?;
            self.lines.filled(count);
            if count == 0 {
                return Ok(None);
            }
        }
    }
}

/// Messages to the daemon.
#[derive(Clone)]
pub(super) struct Outgoing {
    lines: mpsc::UnboundedSender<Option<String>>,
    /// Told when everything is written.
    done: Arc<tokio::sync::Notify>,
    waiting: Arc<AtomicUsize>,
    prefix: Arc<str>,
    count: Arc<AtomicU64>,
}

impl Outgoing {
    pub(super) fn new() -> Outgoing {
        let (lines, mut waiting) = mpsc::unbounded_channel::<Option<String>>();
        let done = Arc::new(tokio::sync::Notify::new());
        let finished = Arc::clone(&done);
        let count_waiting = Arc::new(AtomicUsize::new(0));
        let still_waiting = Arc::clone(&count_waiting);
        tokio::spawn(async move {
            let mut stdout = tokio::io::stdout();
            while let Some(Some(line)) = waiting.recv().await {
                let written = async {
                    stdout.write_all(line.as_bytes()).await?;
                    stdout.flush().await
                };
                if let Err(error) = written.await {
                    // Nobody is left to work for.
                    eprintln!("standard output failed: {error}");
                    std::process::exit(1);
                }
                still_waiting.fetch_sub(1, Ordering::Relaxed);
            }
            finished.notify_one();
        });
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let prefix = format!("{:x}-{:x}-", std::process::id(), now.as_nanos());
        Outgoing { lines, done, waiting: count_waiting, prefix: prefix.into(), count: Arc::default() }
    }

    fn say(&self, draft: &Draft) -> Result<(), usize> {
        let id = format!("{}{}", self.prefix, self.count.fetch_add(1, Ordering::Relaxed));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut line = String::new();
        draft.parts(&id, u64::try_from(now.as_millis()).unwrap_or(u64::MAX)).append_to(&mut line);
        if line.len() > LINE_BYTES_MAX || draft.data.is_too_deep() {
            return Err(line.len());
        }
        line.push('\n');
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The writer ends the process before it ends itself.
        let _ = self.lines.send(Some(line));
        Ok(())
    }

    pub(super) fn reply(&self, request: &Envelope, data: Value) {
        if let Err(bytes) = self.say(&Draft::reply(request, data.into())) {
            let words = format!(
                "the result has {bytes} bytes, and a line has at most {LINE_BYTES_MAX}, nor more than 128 levels"
            );
            self.error(request, 500, &words);
        }
    }

    pub(super) fn error(&self, request: &Envelope, code: u16, words: &str) {
        let short: String = words.chars().take(64 << 10).collect();
        let _ = self.say(&Draft::error(request, code, &short));
    }

    pub(super) fn progress(&self, request: &Envelope, told: &ProgressNotificationParam) {
        if self.waiting.load(Ordering::Relaxed) > LINES_WAITING_MAX {
            return;
        }
        let data = json!({ "done": told.progress, "total": told.total, "message": told.message });
        let name = format!("{}.Progress", request.type_name());
        let _ = self.say(&Draft::caused_by(request, Kind::Event, name.as_str(), data.into()));
    }

    /// Waits until everything is written.
    pub(super) async fn finish(self) -> Result<(), McpError> {
        let _ = self.lines.send(None);
        self.done.notified().await;
        Ok(())
    }
}
