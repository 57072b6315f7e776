//! The questions to the daemon, on a thread of their own: a daemon that is slow to answer leaves
//! the keys alone.

use crate::cli::support::target::{Failure, Target};
use crate::cli::support::text;
use crate::client::{Client, now_ms};
use mainspring_message::{Draft, Envelope, Json, Kind};
use mainspring_reactor::Wakeup;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Messages of the stream that wait to be shown. Beyond: the oldest are left out.
const STREAM_WAITING_MAX: usize = 2000;
/// Rows that are asked for of what may be long.
const ROWS_MAX: u64 = 500;

/// How the daemon was at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) stats: Value,
    pub(super) actors: Value,
}

/// What is asked besides how the daemon is: what the page in front shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    Traces,
    Trace(String),
    DeadLetters,
    DeadLetter(u64),
    Timers,
    Logs(String),
}

/// What the daemon said.
#[derive(Debug)]
pub(super) enum Told {
    Sample(Box<Sample>),
    /// The answer to what was wanted, or why there is none.
    Page(Wanted, Result<Value, String>),
    /// It is over.
    Failed(Failure),
}

/// The way to the thread that asks.
pub(super) struct Asker {
    wanted: Sender<Wanted>,
    told: Receiver<Told>,
    stream: Arc<Mutex<Vec<Value>>>,
    is_streaming: Arc<AtomicBool>,
}

impl Asker {
    /// Begins to ask, at intervals; `wakeup` is signalled when there is an answer.
    pub(super) fn start(target: Target, mut client: Client, interval: Duration, wakeup: Wakeup) -> Asker {
        let (wanted, wants) = channel();
        let (tell, told) = channel();
        let (stream, is_streaming) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let streaming = Arc::clone(&is_streaming);
        let (lines, wake_stream, listener) = (Arc::clone(&stream), wakeup.clone(), target.clone());
        std::thread::spawn(move || listen(&listener, &lines, &streaming, &wake_stream));
        std::thread::spawn(move || {
            let mut page = Wanted::Nothing;
            loop {
                let looked = look(&mut client, &target);
                let is_over = looked.is_err();
                let told = looked.map_or_else(Told::Failed, |sample| Told::Sample(Box::new(sample)));
                if tell.send(told).is_err() || is_over {
                    break;
                }
                wakeup.signal();
                let next = Instant::now() + interval;
                loop {
                    if page != Wanted::Nothing {
                        let answer = page_of(&mut client, &target, &page);
                        if tell.send(Told::Page(page.clone(), answer)).is_err() {
                            return;
                        }
                        wakeup.signal();
                    }
                    match wants.recv_timeout(next.saturating_duration_since(Instant::now())) {
                        Ok(wanted) => page = wanted,
                        Err(RecvTimeoutError::Timeout) => break,
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
            wakeup.signal();
        });
        Asker { wanted, told, stream, is_streaming }
    }

    /// Changes what is asked for, and asks at once.
    pub(super) fn want(&self, wanted: Wanted) {
        // The thread is gone only when the daemon is, which is told apart.
        let _ = self.wanted.send(wanted);
    }

    /// What was said since the last time.
    pub(super) fn told(&self) -> Vec<Told> {
        self.told.try_iter().collect()
    }

    /// What passed since the last time.
    pub(super) fn stream(&self) -> Vec<Value> {
        std::mem::take(&mut *self.stream.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether all that passes is seen, and not events alone.
    pub(super) fn sees_everything(&self) -> bool {
        self.is_streaming.load(Ordering::Relaxed)
    }
}

/// How the daemon is.
pub(super) fn look(client: &mut Client, target: &Target) -> Result<Sample, Failure> {
    let stats = ask(client, target, "Sys.Stats", json!({}))?;
    let actors = ask(client, target, "Sys.Actors", json!({}))?;
    Ok(Sample { at: Instant::now(), stats, actors })
}

fn page_of(client: &mut Client, target: &Target, page: &Wanted) -> Result<Value, String> {
    let (name, data) = match page {
        Wanted::Nothing => return Ok(Value::Null),
        Wanted::Traces => ("Sys.Trace", json!({ "latest": ROWS_MAX })),
        Wanted::Trace(id) => ("Sys.Trace", json!({ "id": id })),
        Wanted::DeadLetters => ("Sys.DeadLetters", json!({ "action": "list", "limit": ROWS_MAX })),
        Wanted::DeadLetter(number) => ("Sys.DeadLetters", json!({ "action": "show", "number": number })),
        Wanted::Timers => ("Timer.List", json!({ "all": true })),
        Wanted::Logs(id) => ("Sys.Logs", json!({ "capability": id, "lines": 100 })),
    };
    let answer = ask(client, target, name, data);
    match (answer, page) {
        // Who is no operator sees its own.
        (Err(Failure::Refused(_)), Wanted::Timers) => {
            ask(client, target, name, json!({})).map_err(|failure| failure.to_string())
        }
        (answer, _) => answer.map_err(|failure| failure.to_string()),
    }
}

fn ask(client: &mut Client, target: &Target, name: &'static str, data: Value) -> Result<Value, Failure> {
    let mut draft = Draft::new(Kind::Query, name, Json::from(data));
    draft.timeout_ms = target.timeout_ms();
    let answer = client.request(&draft)?;
    if answer.kind() == Kind::Error {
        return Err(Failure::Refused(text::error_line(&answer)));
    }
    Ok(serde_json::from_str(answer.data()).unwrap_or_default())
}

/// Listens to all that passes, or to events alone where that is not for us.
fn listen(target: &Target, lines: &Mutex<Vec<Value>>, is_streaming: &AtomicBool, wakeup: &Wakeup) {
    let Ok(mut client) = target.connect() else { return };
    let tap = Draft::new(Kind::Command, "Sys.Tap", Json::from(json!({ "data": true })));
    let Ok(answer) = client.request(&tap) else { return };
    is_streaming.store(answer.kind() == Kind::Reply, Ordering::Relaxed);
    if answer.kind() == Kind::Error {
        let events = Draft::new(Kind::Command, "Sys.Subscribe", Json::from(json!({ "types": ["*"] })));
        if client.request(&events).is_err() {
            return;
        }
    }
    while let Ok(Some(message)) = client.receive(None) {
        let mut records = records(&message);
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.append(&mut records);
        let beyond = lines.len().saturating_sub(STREAM_WAITING_MAX);
        lines.drain(..beyond);
        wakeup.signal();
    }
}

/// What a message of the stream tells: the records of a tap, or the event itself.
fn records(message: &Envelope) -> Vec<Value> {
    let data: Value = serde_json::from_str(message.data()).unwrap_or_default();
    match (message.kind(), message.type_name()) {
        (Kind::Event, "Sys.Tapped") => data["records"].as_array().cloned().unwrap_or_default(),
        (Kind::Event, name) => vec![json!({
            "kind": "event", "type": name, "id": message.id(), "causation": message.causation(),
            "correlation": message.correlation(), "at": now_ms(), "data": data,
        })],
        _ => Vec::new(),
    }
}
