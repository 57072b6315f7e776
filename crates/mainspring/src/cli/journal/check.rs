//! `mainspring journal check`: reads every byte of a journal, and every fact.

use super::{JournalPlace, ReadingProgress, failure};
use crate::cli::support::output;
use crate::cli::support::target::Failure;
use crate::cli::support::text;
use mainspring_journal::{DiskFolder, Error, Reader, Record, check, read_snapshot};
use mainspring_kernel::{Durable, Fact};
use serde_json::json;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

/// How often the facts are looked at before a segment that is missing is told.
const LOOKS_MAX: usize = 8;

#[derive(Debug, clap::Args)]
pub(super) struct JournalCheckArguments {
    #[command(flatten)]
    place: JournalPlace,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// What all facts come to. A segment that the daemon deletes meanwhile is a reason to look again:
/// a newer snapshot stands for it.
fn state(path: &Path, folder: &DiskFolder) -> Result<Durable, Failure> {
    for _ in 1..LOOKS_MAX {
        match read_state(folder) {
            Err(Unread::Journal(Error::Io { source, .. })) if source.kind() == ErrorKind::NotFound => {}
            result => return result.map_err(|reason| reason.failure(path)),
        }
    }
    read_state(folder).map_err(|reason| reason.failure(path))
}

fn read_state(folder: &DiskFolder) -> Result<Durable, Unread> {
    let mut durable = Durable::default();
    let mut unknown = None;
    let mut apply = |record: Record<'_>| match Fact::read(record.kind, record.version, record.data) {
        Ok(fact) => durable.apply(fact),
        Err(error) => {
            unknown.get_or_insert_with(|| format!("record {}: {error}", record.number));
        }
    };
    let last = read_snapshot(folder, &mut apply).map_err(Unread::Journal)?.unwrap_or(0);
    let mut reader = Reader::open(folder, last + 1).map_err(Unread::Journal)?;
    while reader.read(&mut |record, _| apply(record)).map_err(Unread::Journal)? {}
    match unknown {
        Some(reason) => Err(Unread::Fact(reason)),
        None => Ok(durable),
    }
}

/// Why the facts cannot be read.
enum Unread {
    Journal(Error),
    /// One of them makes no sense, in words.
    Fact(String),
}

impl Unread {
    fn failure(&self, path: &Path) -> Failure {
        match self {
            Unread::Journal(error) => failure(path, error),
            Unread::Fact(reason) => Failure::Refused(format!("{}: {reason}", path.display())),
        }
    }
}

pub(super) fn run(arguments: &JournalCheckArguments) -> Result<ExitCode, Failure> {
    let (path, folder) = arguments.place.open()?;
    let mut progress = ReadingProgress::new("checking");
    let checked =
        check(&folder, &mut |done, all| progress.tell(done, all)).map_err(|error| failure(&path, &error))?;
    drop(progress);
    let durable = state(&path, &folder)?;
    let counts = durable.counts();
    if arguments.json {
        let torn = checked
            .torn
            .as_ref()
            .map(|cut| json!({ "file": cut.file, "offset": cut.offset, "bytes": cut.bytes }));
        let state: serde_json::Map<String, serde_json::Value> =
            counts.iter().map(|(name, count)| (name.replace(' ', "_"), json!(count))).collect();
        let found = json!({
            "segments": checked.segments,
            "snapshots": checked.snapshots,
            "facts": checked.records,
            "first": checked.before + 1,
            "last": checked.last,
            "torn": torn,
            "state": state,
        });
        return Ok(output::print(&format!("{found}\n")));
    }
    let mut lines = format!(
        "{}: all is well\n  {}, {}, {} (numbers {} to {})\n",
        path.display(),
        text::count(checked.segments as u64, "segment", "segments"),
        text::count(checked.snapshots as u64, "snapshot", "snapshots"),
        text::count(checked.records, "fact", "facts"),
        checked.before + 1,
        checked.last,
    );
    let state: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    lines.push_str(&format!("  {}\n", state.join(", ")));
    if let Some(cut) = &checked.torn {
        lines.push_str(&format!(
            "  {} at offset {}: {} bytes are being written just now, or are a torn batch that the next start cuts off\n",
            cut.file, cut.offset, cut.bytes
        ));
    }
    Ok(output::print(&lines))
}
