//! Crash reports: what the daemon's last seconds were, when it panics.

use super::ring::{Ring, unix_ms};
use super::{FlightShared, WRITE_TIMEOUT};
use crate::flight::describe::describe;
use crate::flight::reading::Recording;
use mainspring_journal::{File, Folder};
use mainspring_kernel::{Now, Recorded, TapeReader};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread::ThreadId;

/// How much of the past a report carries.
const LAST_MS: u64 = 10_000;
/// Bytes of it. Beyond: the newest.
const LAST_BYTES_MAX: usize = 1 << 20;
/// Bytes of a panic's message and of its stack.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Reports that are kept: the newest.
const REPORTS_MAX: usize = 8;

/// A panic.
#[derive(Debug)]
pub(super) struct Crash {
    message: String,
    place: String,
    stack: String,
    unix_ms: u64,
}

/// The recorder of this process and the thread of its loop.
static WATCHED: Mutex<Option<(Weak<FlightShared>, ThreadId)>> = Mutex::new(None);

thread_local! {
    /// Whether a panic is caught, and no crash.
    static IS_FORGIVEN: Cell<bool> = const { Cell::new(false) };
}

/// Calls code whose panics somebody catches.
pub(in crate::daemon) fn forgiving<R>(call: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_FORGIVEN.set(self.0);
        }
    }
    let _restore = Restore(IS_FORGIVEN.replace(true));
    call()
}

/// Has panics of this thread reported from now on.
pub(super) fn watch(shared: &Arc<FlightShared>) {
    static INSTALLED: Once = Once::new();
    let watched = Some((Arc::downgrade(shared), std::thread::current().id()));
    *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = watched;
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            panicked(panic);
        }));
    });
}

/// Has the recorder's thread write a report, and waits for that, but not for long.
fn panicked(panic: &PanicHookInfo<'_>) {
    if IS_FORGIVEN.get() {
        return;
    }
    // Whoever panics may hold a lock: nothing here waits for one.
    let Ok(watched) = WATCHED.try_lock() else { return };
    let Some((shared, loop_thread)) = &*watched else { return };
    if *loop_thread != std::thread::current().id() {
        return;
    }
    let Some(shared) = shared.upgrade() else { return };
    let crash = Crash {
        message: cut(panic.payload_as_str().unwrap_or("(no message)").to_owned()),
        place: panic.location().map_or_else(String::new, ToString::to_string),
        stack: cut(std::backtrace::Backtrace::force_capture().to_string()),
        unix_ms: unix_ms(),
    };
    let Ok(mut state) = shared.state.try_lock() else { return };
    state.crash = Some(Box::new(crash));
    state.is_reporting = true;
    shared.work.notify_one();
    let _ = shared.reported.wait_timeout_while(state, WRITE_TIMEOUT, |state| state.is_reporting);
}

fn cut(mut text: String) -> String {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

impl Crash {
    /// Writes the report: a line about the panic, then a line for each input of the last seconds.
    pub(super) fn report(&self, ring: &Ring) -> Result<(), String> {
        let (lines, omitted) = last_inputs(ring)?;
        let head = json!({
            "panic": self.message,
            "place": self.place,
            "unixMs": self.unix_ms,
            "version": env!("CARGO_PKG_VERSION"),
            "build": ring.build(),
            "recording": format!("{:016x}", ring.run()),
            "replayable": ring.has_beginning(),
            "inputs": lines.len(),
            "omitted": omitted,
            "stack": self.stack.lines().collect::<Vec<_>>(),
        });
        let mut text = format!("{head}\n");
        lines.iter().for_each(|line| text.push_str(line));
        let name = format!("crash-{:016x}.jsonl", self.unix_ms);
        let told = |error: &dyn std::fmt::Display| format!("cannot write {name}: {error}");
        forget_old(ring).map_err(|error| told(&error))?;
        let file = ring.folder().create(&name).map_err(|error| told(&error))?;
        File::write_at(&file, text.as_bytes(), 0).map_err(|error| told(&error))?;
        tracing::error!("a crash report with the last seconds is {}/{name}", ring.path());
        Ok(())
    }
}

fn forget_old(ring: &Ring) -> std::io::Result<()> {
    let mut reports: Vec<String> =
        ring.folder().list()?.into_iter().filter(|name| name.starts_with("crash-")).collect();
    reports.sort_unstable();
    let surplus = (reports.len() + 1).saturating_sub(REPORTS_MAX);
    reports[..surplus].iter().try_for_each(|name| ring.folder().remove(name))
}

/// The inputs of the last seconds as lines of JSON, and how many had no room.
fn last_inputs(ring: &Ring) -> Result<(VecDeque<String>, u64), String> {
    let mut lines: VecDeque<(u64, String)> = VecDeque::new();
    let (mut bytes, mut omitted, mut now) = (0, 0, Now::default());
    let recording = Recording::open(ring.folder(), ring.run())?;
    recording.read(ring.folder(), &mut |records| {
        for recorded in TapeReader::new(records) {
            let recorded = recorded.map_err(|error| error.to_string())?;
            if let Recorded::Now(then) = recorded {
                now = then;
            }
            let Some((name, data)) = describe(&recorded) else { continue };
            let line = line(now, name, data);
            bytes += line.len();
            lines.push_back((now.unix_ms, line));
            while let Some((then, first)) = lines.front()
                && (bytes > LAST_BYTES_MAX || then + LAST_MS < now.unix_ms)
            {
                omitted += u64::from(then + LAST_MS >= now.unix_ms);
                bytes -= first.len();
                lines.pop_front();
            }
        }
        Ok(())
    })?;
    Ok((lines.into_iter().map(|(_, line)| line).collect(), omitted))
}

fn line(now: Now, name: &str, data: Value) -> String {
    let mut object = json!({ "unixMs": now.unix_ms, "input": name });
    if let (Value::Object(all), Value::Object(data)) = (&mut object, data) {
        all.extend(data);
    }
    format!("{object}\n")
}
