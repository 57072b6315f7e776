//! How a daemon tells that it is up, or why it is not. Nobody may be there to read it, so nobody is
//! waited for.

use crate::daemon::transport::outgoing::Outgoing;
use crate::daemon::transport::outlet::{Outlet, REPORT_WAITS};
use crate::settings::BootPhase;
use crate::text::columns;
use crate::text::printable::one_line;
use mainspring_kernel::Level;
use mainspring_message::{Envelope, ErrorData, Failure, Kind, Parts, Started};
use mainspring_reactor::{Handle, Interest, Watcher};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long whoever reads the report has for the rest of it when the daemon ends.
const LAST_TIMEOUT: Duration = Duration::from_millis(500);

/// How the boot is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// A summary for people, on standard output; a failure on standard error.
    #[default]
    Human,
    /// The message `Sys.BootComplete` or `Sys.BootFailed`, on standard output; a failure on
    /// standard error as well.
    Json,
    /// Nothing but a failure, on standard error: standard output belongs to somebody else.
    Quiet,
}

/// The least width of the first column.
const COLUMN_MIN: usize = 12;

#[derive(Deserialize)]
struct BootSummary {
    capabilities: Vec<BootedCapability>,
    subscriptions: BTreeMap<String, Vec<String>>,
    adapters: Vec<String>,
}

#[derive(Deserialize)]
struct BootedCapability {
    id: String,
    handles: Vec<String>,
}

#[derive(Deserialize)]
struct BootFailureData {
    message: String,
}

/// Tells how the boot went, on the standard streams of this process.
pub(crate) struct Teller {
    report: Report,
    journal: Option<String>,
    reactor: Handle,
    output: Rc<RefCell<ReportStream>>,
    errors: Rc<RefCell<ReportStream>>,
}

/// What is yet to be written to one stream.
#[derive(Default)]
struct ReportStream {
    /// Says whether there is something, for those who come behind it.
    waits: Option<&'static AtomicBool>,
    outlet: Option<Outlet>,
    text: Outgoing,
    watcher: Option<Watcher>,
}

impl Teller {
    /// `journal` is the folder of the journal, if there is one.
    pub(crate) fn new(report: Report, reactor: &Handle, journal: Option<String>) -> Teller {
        let output = ReportStream { waits: Some(&REPORT_WAITS), ..ReportStream::default() };
        Teller {
            report,
            journal,
            reactor: reactor.clone(),
            output: Rc::new(RefCell::new(output)),
            errors: Rc::default(),
        }
    }

    /// The daemon serves.
    pub(crate) fn ready(&self, summary: &Envelope, took: Duration) {
        match self.report {
            Report::Quiet => {}
            Report::Json => self.print(&format!("{}\n", summary.line())),
            Report::Human => {
                if let Ok(data) = summary.data_as() {
                    self.print(&for_people(&data, took, self.journal.as_deref()));
                }
            }
        }
    }

    /// The daemon could not start.
    pub(crate) fn failed(&self, failure: &Envelope) {
        if self.report == Report::Json {
            self.print(&format!("{}\n", failure.line()));
        }
        let text = failure
            .data_as()
            .map_or_else(|_| failure.data().to_owned(), |data: BootFailureData| data.message);
        self.write(&self.errors, std::io::stderr().as_fd(), &format!("{}\n", failure_text(&text)));
    }

    fn print(&self, text: &str) {
        self.write(&self.output, std::io::stdout().as_fd(), text);
    }

    /// Writes what can be written now; the reactor says when there is room for the rest.
    fn write(&self, lane: &Rc<RefCell<ReportStream>>, to: std::os::fd::BorrowedFd<'_>, text: &str) {
        let mut this = lane.borrow_mut();
        let Ok(outlet) = Outlet::to(to) else { return };
        this.outlet = Some(outlet);
        this.text.push_lines(text.as_bytes());
        this.write();
        let (Some(outlet), false) = (&this.outlet, this.is_done()) else { return };
        let later = Rc::clone(lane);
        let watching = self.reactor.watch_raw(outlet.as_fd().as_raw_fd(), ()).label("report").start_with(
            Interest::WRITE,
            move |(), event| {
                let mut lane = later.borrow_mut();
                lane.write();
                if let (true, Some(watcher)) = (lane.is_done(), lane.watcher.take()) {
                    event.reactor().unwatch(watcher);
                }
            },
        );
        // What cannot be watched is written at the end.
        this.watcher = watching.ok();
    }

    /// Writes the rest, and gives whoever reads it a little time for that.
    pub(crate) fn end(&self) {
        for lane in [&self.output, &self.errors] {
            let mut lane = lane.borrow_mut();
            if let Some(watcher) = lane.watcher.take() {
                self.reactor.unwatch(watcher);
            }
            lane.finish(LAST_TIMEOUT);
        }
    }
}

impl ReportStream {
    fn is_done(&self) -> bool {
        self.text.is_empty()
    }

    /// Writes what can be written. If there is nobody to read it any more, it is forgotten.
    fn write(&mut self) {
        let Some(outlet) = &self.outlet else { return };
        if self.text.drain(|bytes| outlet.write(bytes)).is_err() {
            self.text.clear();
        }
        if let Some(waits) = self.waits {
            waits.store(!self.is_done(), Ordering::Relaxed);
        }
    }

    fn finish(&mut self, timeout: Duration) {
        let deadline = std::time::Instant::now() + timeout;
        loop {
            self.write();
            let (Some(outlet), false) = (&self.outlet, self.is_done()) else { return };
            if !outlet.wait_for_room(deadline) {
                return;
            }
        }
    }
}

/// What happens in a phase of the boot, for people; `Sys.BootFailed` has the name of the phase.
fn deed(phase: &str) -> Option<&'static str> {
    Some(match phase {
        "LOAD" => "reading its files",
        "DISCOVER" => "reading the schemas of capabilities",
        "BUILD" => "finding who handles what",
        "SPAWN" => "starting capabilities",
        "ATTACH" => "waiting for capabilities",
        "ADAPT" => "opening listeners",
        _ => return None,
    })
}

/// Every line but the first is indented: none begins like one of the log.
fn failure_text(text: &str) -> String {
    let (phase, reason) = text.split_once(": ").unwrap_or(("", text));
    let (deed, text) = deed(phase).map_or((String::new(), text), |deed| (format!(" while {deed}"), reason));
    let lines: Vec<_> = text.lines().map(one_line).collect();
    format!("mainspring: the boot failed{deed}: {}", lines.join("\n  "))
}

/// Tells that the settings cannot be used, and which phase of the boot that fails.
pub(crate) fn unreadable(report: Report, phase: BootPhase, problems: &str) {
    let mut data = String::new();
    let error = ErrorData {
        failure: Failure::Boot,
        message: &format!("{phase}: {problems}"),
        original_id: None,
        original_type: None,
        started: Started::No,
    };
    error.write(&mut data);
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let parts = Parts {
        kind: Kind::Error,
        type_name: Failure::Boot.type_name(),
        data: &data,
        id: "boot-failed",
        timestamp_ms: unix_ms,
        causation: Some("boot"),
        correlation: None,
        traceparent: None,
        timeout_ms: None,
        extra: "",
    };
    if report == Report::Json {
        print(&format!("{}\n", parts.compose(&mut String::new()).line()));
    }
    let deed = deed(&phase.to_string()).unwrap_or_default();
    print_error(&format!("mainspring: the boot failed while {deed}:\n{problems}\n"));
}

/// Writes a line of the kernel's to the log; whatever is about a capability has its id as a field,
/// as its own lines have.
pub(crate) fn log(level: Level, capability: Option<&str>, text: &str) {
    match level {
        Level::Info => tracing::info!(capability, "{text}"),
        Level::Warn => tracing::warn!(capability, "{text}"),
        Level::Error => tracing::error!(capability, "{text}"),
    }
}

/// Before there is a reactor: whoever does not read it can still end the program.
fn print_error(text: &str) {
    // Nobody may be there to read it.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

fn for_people(summary: &BootSummary, took: Duration, journal: Option<&str>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "mainspring {} is ready after {} ms", env!("CARGO_PKG_VERSION"), took.as_millis());
    let ids = summary.capabilities.iter().map(|capability| columns::width(&one_line(&capability.id)));
    let width = ids.max().unwrap_or(0).max(COLUMN_MIN) + 2;
    for adapter in &summary.adapters {
        let (kind, address) = adapter.split_once(':').unwrap_or((adapter, ""));
        let _ = writeln!(text, "  {kind:<width$}{}", one_line(address));
    }
    for capability in &summary.capabilities {
        // What is taken as a command and as a query is one thing for whoever reads this.
        let mut names: Vec<&str> = Vec::new();
        for handle in &capability.handles {
            let name = handle.split_once(':').map_or(&**handle, |(_, name)| name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let _ = writeln!(
            text,
            "  {}{}",
            columns::padded(&one_line(&capability.id), width),
            one_line(&names.join(", "))
        );
    }
    for (event, subscribers) in &summary.subscriptions {
        let _ = writeln!(text, "  {} goes to {}", one_line(event), one_line(&subscribers.join(", ")));
    }
    let _ = match journal {
        Some(folder) => writeln!(text, "  {:<width$}{}", "journal", one_line(folder)),
        None => writeln!(text, "  no journal: nothing is kept when the daemon ends"),
    };
    text
}

/// As [`print_error`].
fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // Nobody may be there to read it.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
