//! Opening a journal before the boot: its lock, its facts, and what is told of it.

use super::disk::Disk;
use super::snapshots::{Plan, Retention};
use crate::settings::JournalSettings;
use mainspring_journal::{Journal, Options, Restored};
use mainspring_kernel::{Durable, DurableBounds};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A journal that was opened, and what its facts come to.
pub(crate) struct Opening {
    pub(super) journal: Journal<Arc<Disk>>,
    pub(super) plan: Plan<Arc<Disk>>,
    /// The number of the first record of this run.
    pub(super) next: u64,
    pub(super) path: String,
    /// What was there.
    pub(crate) durable: Durable,
    /// What is to be told: lines for the log, the first for everybody.
    pub(crate) told: Vec<String>,
    /// What is wrong and was dealt with.
    pub(crate) warnings: Vec<String>,
}

impl Opening {
    /// What a summary says of it.
    pub(crate) fn headline(&self) -> String {
        self.path.clone()
    }
}

/// Opens the journal of these settings, or makes one. `Err` says in words why not; nothing has been
/// changed then.
pub(crate) fn open(
    folder: &Path,
    settings: &JournalSettings,
    bounds: DurableBounds,
) -> Result<Opening, String> {
    let path = folder.display().to_string();
    let words = |error: mainspring_journal::Error| {
        format!("the journal {path}: {error}; `mainspring journal check {path}` looks at all of it")
    };
    let disk = Arc::new(Disk::open(folder).map_err(|error| format!("the journal {path}: {error}"))?);
    let options = Options::default();
    let mut durable = Durable::new(bounds);
    let mut facts = 0_u64;
    let began = Instant::now();
    let (journal, opened) = Journal::open_if(Arc::clone(&disk), options, &mut |restored| {
        let (Restored::Snapshot(record) | Restored::Record(record)) = restored;
        facts += 1;
        durable.apply_record(record.kind, record.version, record.data).map_err(|error| error.to_string())
    })
    .map_err(words)?;
    let took_ms = began.elapsed().as_millis();
    let mut warnings = Vec::new();
    if let Some(cut) = &opened.cut {
        warnings.push(format!(
            "the journal's last batch was torn and is cut off: {} bytes of {} at offset {}, after fact {}; \
             nobody had been told of what it held",
            cut.bytes, cut.file, cut.offset, cut.after
        ));
    }
    if let Some(reason) = &opened.passed_over {
        warnings
            .push(format!("the newest snapshot of the journal cannot be used, an older one is: {reason}"));
    }
    let counts = durable.counts().into_iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    let what = match (opened.created, counts.is_empty()) {
        (true, _) => "new".to_owned(),
        (false, true) => format!("{facts} facts read in {took_ms} ms, nothing left to do"),
        (false, false) => format!("{facts} facts read in {took_ms} ms: {}", counts.join(", ")),
    };
    let after = if opened.closed || opened.created { "" } else { " (the last daemon did not end in order)" };
    let told = vec![format!("the journal in {path}: {what}{after}")];
    let sealed = journal.sealed_up_to().unwrap_or(0);
    let plan = Plan {
        folder: disk,
        bounds,
        retention: Retention { age: settings.keep, bytes: settings.keep_bytes },
        last: opened.snapshot.unwrap_or(0),
        sealed,
        sealed_bytes: options.segment_bytes,
        segment_bytes: options.segment_bytes,
        snapshot_bytes: 0,
    };
    Ok(Opening { journal, plan, next: opened.next, path, durable, told, warnings })
}
