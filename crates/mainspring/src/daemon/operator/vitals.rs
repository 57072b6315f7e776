//! How the daemon itself is, for `Sys.Stats`: since when it runs, where it listens, what it uses,
//! how its loop keeps up.
//!
//! Everything here is read when it is asked for. The loop is timed only while somebody asks: from
//! the first question on, until nobody has asked for a while.

use crate::system::process_stats::{ProcessStats, open_descriptors};
use mainspring_message::Envelope;
use mainspring_reactor::{Handle, Instant, Timer};
use rustix::process::Resource;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the loop is timed after the last question about it.
const TIMING_KEPT: Duration = Duration::from_secs(10);

/// What does not change while the daemon runs, and how its loop is timed.
pub(crate) struct Vitals {
    reactor: Handle,
    started: Instant,
    started_at_ms: u64,
    configuration: Option<String>,
    /// The kind and address of each, once they listen.
    listeners: RefCell<Vec<Value>>,
    /// Ends the timing.
    end_of_timing: Cell<Option<Timer>>,
}

impl Vitals {
    pub(crate) fn new(reactor: &Handle, configuration: Option<PathBuf>) -> Vitals {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let configuration = configuration.map(|path| std::path::absolute(&path).unwrap_or(path));
        Vitals {
            reactor: reactor.clone(),
            started: reactor.now(),
            started_at_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
            configuration: configuration.map(|path| path.display().to_string()),
            listeners: RefCell::default(),
            end_of_timing: Cell::new(None),
        }
    }

    /// Remembers where the daemon listens, from the summary of its boot.
    pub(crate) fn note_listeners(&self, summary: &Envelope) {
        let data: Value = serde_json::from_str(summary.data()).unwrap_or_default();
        let names = data["adapters"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let split = names.map(|name| name.split_once(':').unwrap_or((name, "")));
        let listeners = split.map(|(kind, address)| {
            let path = (kind == "unix").then(|| std::path::absolute(address).ok()).flatten();
            let address = path.map_or_else(|| address.to_owned(), |path| path.display().to_string());
            json!({ "kind": kind, "address": address })
        });
        *self.listeners.borrow_mut() = listeners.collect();
    }

    /// The daemon as a process.
    pub(crate) fn tell(&self) -> Value {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let used = ProcessStats::of(pid);
        let uptime = self.reactor.now().saturating_duration_since(self.started);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": pid,
            "startedAt": self.started_at_ms,
            "uptimeMs": u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            "configuration": self.configuration,
            "listeners": *self.listeners.borrow(),
            "descriptors": open_descriptors(),
            "descriptorsMax": rustix::process::getrlimit(Resource::Nofile).current,
            "memoryBytes": used.map(|used| used.memory_bytes),
            "cpuMs": used.map(|used| used.cpu_ms),
        })
    }

    /// Adds how the loop keeps up, if that is being measured; has it measured from now on.
    pub(crate) fn tell_timing(&self, event_loop: &mut Value) {
        if let Some(timing) = self.reactor.timing() {
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let whole = (timing.busy + timing.idle).as_secs_f64();
            let busy = if whole > 0.0 { timing.busy.as_secs_f64() / whole } else { 0.0 };
            event_loop["busy"] = json!((busy * 10_000.0).round() / 10_000.0);
            event_loop["lagNs"] = json!({ "last": ns(timing.lag_last), "max": ns(timing.lag_max) });
            let slowest = timing.slowest.as_ref();
            event_loop["slowestNs"] = json!(slowest.map(|slowest| ns(slowest.duration)));
            event_loop["slowest"] = json!(slowest.and_then(|slowest| slowest.label.as_deref()));
        }
        self.keep_timing();
    }

    fn keep_timing(&self) {
        if let Some(timer) = self.end_of_timing.get()
            && self.reactor.has_timer(timer)
            && self.reactor.reschedule_after(timer, TIMING_KEPT).is_ok()
        {
            return;
        }
        self.reactor.set_timing(true);
        let ended = self.reactor.after(TIMING_KEPT, |handle| handle.set_timing(false));
        self.end_of_timing.set(ended.ok());
    }
}
