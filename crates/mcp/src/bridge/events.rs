//! Events: the next ones, and the latest.

use mainspring_client::tokio::Client;
use mainspring_client::{Envelope, Error, Watched};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long events are waited for at most.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(600);
/// How many patterns are followed, how many events each keeps, and their bytes. Beyond, the oldest
/// go: patterns that nobody reads, and events.
const PATTERNS_MAX: usize = 16;
const EVENTS_MAX: usize = 100;
const EVENT_BYTES_MAX: usize = 1 << 20;

/// The latest events of the patterns that were asked for. Nothing is followed before.
#[derive(Debug)]
pub(super) struct RecentEvents {
    client: Client,
    followed: Mutex<HashMap<String, Followed>>,
}

#[derive(Debug)]
struct Followed {
    events: Arc<Mutex<Ring>>,
    task: tokio::task::JoinHandle<()>,
    /// Grows with every read: the smallest is the one that was not read for longest.
    last_read: u64,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Value>,
    bytes: VecDeque<usize>,
    total: usize,
    missing: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn told(event: &Envelope) -> Value {
    let data: Value = serde_json::from_str(event.data()).unwrap_or_default();
    json!({
        "type": event.type_name(), "data": data, "id": event.id(), "at": event.timestamp_ms(),
        "causation": event.causation(), "correlation": event.correlation(),
    })
}

impl RecentEvents {
    pub(super) fn new(client: Client) -> RecentEvents {
        RecentEvents { client, followed: Mutex::default() }
    }

    /// The next events of these types: so many, or those that come in time. And how many are
    /// missing.
    pub(super) async fn wait(
        &self,
        types: &[String],
        count: usize,
        limit: Duration,
    ) -> Result<(Vec<Value>, u64), Error> {
        let mut watch = self.client.watch(types).await?;
        let (mut events, mut missing) = (Vec::new(), 0);
        let waiting = async {
            while events.len() < count {
                match watch.next().await {
                    Some(Watched::Event(event)) => events.push(told(&event)),
                    Some(Watched::Gap(gap)) => missing += gap.count.unwrap_or(1),
                    None => break,
                }
            }
        };
        // What came before the time was up counts.
        let _ = tokio::time::timeout(limit, waiting).await;
        match watch.error() {
            Some(error) if events.is_empty() => Err(error),
            _ => Ok((events, missing)),
        }
    }

    /// The latest events of a pattern, the oldest first; it is followed from the first time on.
    pub(super) async fn latest(&self, pattern: &str) -> Result<Value, Error> {
        if let Some(ring) = self.known(pattern) {
            let ring = lock(&ring);
            return Ok(json!({ "events": ring.events, "missing": ring.missing }));
        }
        let mut watch = self.client.watch([pattern]).await?;
        let events = Arc::new(Mutex::new(Ring::default()));
        let kept = Arc::clone(&events);
        let task = tokio::spawn(async move {
            while let Some(watched) = watch.next().await {
                lock(&kept).put(&watched);
            }
        });
        let mut followed = lock(&self.followed);
        if followed.len() >= PATTERNS_MAX {
            let oldest = followed.iter().min_by_key(|(_, one)| one.last_read).map(|(name, _)| name.clone());
            if let Some(dropped) = oldest.and_then(|name| followed.remove(&name)) {
                dropped.task.abort();
            }
        }
        let last_read = next_read(&followed);
        followed.insert(pattern.to_owned(), Followed { events, task, last_read });
        Ok(json!({ "events": [], "missing": 0 }))
    }

    fn known(&self, pattern: &str) -> Option<Arc<Mutex<Ring>>> {
        let mut followed = lock(&self.followed);
        // One whose subscription ended is begun anew.
        if followed.get(pattern).is_some_and(|one| one.task.is_finished()) {
            followed.remove(pattern);
        }
        let last_read = next_read(&followed);
        let one = followed.get_mut(pattern)?;
        one.last_read = last_read;
        Some(Arc::clone(&one.events))
    }

    /// What is followed.
    pub(super) fn patterns(&self) -> Vec<String> {
        let mut patterns: Vec<String> = lock(&self.followed).keys().cloned().collect();
        patterns.sort_unstable();
        patterns
    }
}

fn next_read(followed: &HashMap<String, Followed>) -> u64 {
    followed.values().map(|one| one.last_read).max().unwrap_or(0) + 1
}

impl Ring {
    fn put(&mut self, watched: &Watched) {
        let event = match watched {
            Watched::Event(event) => event,
            Watched::Gap(gap) => {
                self.missing += gap.count.unwrap_or(1);
                return;
            }
        };
        self.events.push_back(told(event));
        self.bytes.push_back(event.line().len());
        self.total += event.line().len();
        while self.events.len() > EVENTS_MAX || (self.total > EVENT_BYTES_MAX && self.events.len() > 1) {
            self.events.pop_front();
            self.total -= self.bytes.pop_front().unwrap_or(0);
        }
    }
}
