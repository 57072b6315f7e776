//! Spans for other systems (OTLP), made of the records that a tap shows.
//!
//! The daemon taps itself: the records come as they come to any other reader, and one thread makes
//! spans of them and sends them. The loop pays for the records and for nothing else. When the
//! collector is slow or away, spans are dropped and counted; nobody waits for it. Without
//! `[telemetry]` there is neither tap nor thread.

mod export;
mod lineage;
mod post;
mod spans;

use crate::client::fresh_id;
use crate::daemon::clients::http_bus::HttpBus;
use crate::settings::{Collector, TelemetrySettings};
use export::Exporter;
use mainspring_http::{Bus, Inbox, Link};
use mainspring_kernel::Rights;
use mainspring_message::{Draft, Envelope, Kind};
use mainspring_reactor::Handle;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The peer that the tap belongs to: no token can have this name.
const PEER: &str = "user:telemetry";
/// How long records gather before they are handed over.
const GATHER_MS: u64 = 200;
/// Events with records that may wait for the thread; each has some 32 KiB. Beyond: dropped, and
/// counted.
const WAITING_MAX: usize = 64;
/// How long the end of the daemon waits for the last spans.
const END_MAX: Duration = Duration::from_secs(1);

/// Records, as the tap wrote them.
struct Batch {
    /// The data of `Sys.Tapped`.
    records: String,
    /// What a time of the loop has to be added to, to be one since 1970.
    epoch_ns: i128,
}

/// What became of spans.
#[derive(Debug, Default)]
struct Counters {
    exported: AtomicU64,
    dropped: AtomicU64,
    unsampled: AtomicU64,
    posts: AtomicU64,
    posts_failed: AtomicU64,
}

impl Counters {
    fn tell(&self) -> Value {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "spansExported": read(&self.exported),
            "spansDropped": read(&self.dropped),
            "spansUnsampled": read(&self.unsampled),
            "posts": read(&self.posts),
            "postsFailed": read(&self.posts_failed),
        })
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// The tap, and the thread that sends what it shows.
pub(crate) struct Telemetry {
    bus: Rc<HttpBus>,
    link: Link,
    counters: Arc<Counters>,
    /// Tells that the thread has ended.
    ended: Receiver<()>,
}

impl Telemetry {
    /// Begins to export, if that is wanted.
    pub(crate) fn start(
        reactor: &Handle,
        bus: &Rc<HttpBus>,
        settings: &TelemetrySettings,
    ) -> Option<Telemetry> {
        let collector = settings.otlp.clone()?;
        match Telemetry::begin(reactor, bus, collector, &settings.service) {
            Ok(telemetry) => Some(telemetry),
            Err(reason) => {
                tracing::error!("no spans are exported: {reason}");
                None
            }
        }
    }

    fn begin(
        reactor: &Handle,
        bus: &Rc<HttpBus>,
        collector: Collector,
        service: &str,
    ) -> Result<Telemetry, String> {
        let counters = Arc::<Counters>::default();
        let (batches, waiting) = mpsc::sync_channel(WAITING_MAX);
        let (tell_end, ended) = mpsc::sync_channel(1);
        let exporter = Exporter::new(collector, service, Arc::clone(&counters));
        std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || {
                exporter.run(&waiting);
                let _ = tell_end.try_send(());
            })
            .map_err(|error| error.to_string())?;
        let peer = bus.peer(PEER.to_owned(), Rights::of_operator());
        let inbox = Rc::<Inbox>::default();
        let link = bus.open(&peer, &inbox).ok_or("the daemon is ending")?;
        bus.send(link, tap().line().as_bytes());
        let reader =
            Reader { reactor: reactor.clone(), bus: Rc::clone(bus), link, counters: Arc::clone(&counters) };
        let task = async move {
            while let Ok(message) = inbox.next().await {
                reader.take(&message, &batches);
            }
        };
        drop(reactor.spawn(task).map_err(|error| error.to_string())?);
        Ok(Telemetry { bus: Rc::clone(bus), link, counters, ended })
    }

    /// What became of spans, for `Sys.Stats`.
    pub(crate) fn tell(&self) -> Value {
        self.counters.tell()
    }

    /// Gives what waits a moment to leave. The task that hands over is gone by now, or its loop is.
    pub(crate) fn end(self) {
        self.bus.close(self.link);
        let _ = self.ended.recv_timeout(END_MAX);
    }
}

/// The command that begins the tap.
fn tap() -> Envelope {
    let data = json!({ "trace": true, "gatherMs": GATHER_MS }).into();
    Draft::new(Kind::Command, "Sys.Tap", data).compose(&fresh_id(), 0, &mut String::new())
}

/// What takes the tap's events out of the inbox.
struct Reader {
    reactor: Handle,
    bus: Rc<HttpBus>,
    link: Link,
    counters: Arc<Counters>,
}

impl Reader {
    fn take(&self, message: &Envelope, batches: &SyncSender<Batch>) {
        self.bus.written(self.link, message.line().len() + 1);
        match (message.kind(), message.type_name()) {
            (Kind::Event, "Sys.Tapped") => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let epoch_ns = since_epoch.as_nanos() as i128 - i128::from(self.reactor.now().as_nanos());
                let batch = Batch { records: message.data().to_owned(), epoch_ns };
                if let Err(mpsc::TrySendError::Full(batch) | mpsc::TrySendError::Disconnected(batch)) =
                    batches.try_send(batch)
                {
                    // Each record has its time; a name that says so has its quotes escaped.
                    add(&self.counters.dropped, batch.records.matches("\"acceptedNs\":").count() as u64);
                }
            }
            // Each was an event with at least one record.
            (Kind::Event, "Sys.EventsDropped") => {
                let data: Value = message.data_as().unwrap_or_default();
                add(&self.counters.dropped, data["count"].as_u64().unwrap_or(1));
            }
            (Kind::Error, _) => tracing::error!("no spans are exported: {}", message.data()),
            _ => {}
        }
    }
}
