//! `mainspring journal check`: reads every byte of a journal, and every fact.

use super::{JournalPlace, ReadingProgress, failure};
use crate::cli::support::output;
use crate::cli::support::target::Failure;
use crate::cli::support::text;
use mainspring_journal::{Reader, check, read_snapshot};
use mainspring_kernel::{Durable, Fact};
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct JournalCheckArguments {
    #[command(flatten)]
    place: JournalPlace,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &JournalCheckArguments) -> Result<ExitCode, Failure> {
    let (path, folder) = arguments.place.open()?;
    let mut progress = ReadingProgress::new("checking");
    let checked =
        check(&folder, &mut |done, all| progress.tell(done, all)).map_err(|error| failure(&path, &error))?;
    drop(progress);
    let mut durable = Durable::default();
    let mut unknown = None;
    let mut apply = |number: u64, kind: u8, version: u8, data: &[u8]| match Fact::read(kind, version, data) {
        Ok(fact) => durable.apply(fact),
        Err(error) => unknown = unknown.take().or(Some((number, error))),
    };
    let last = read_snapshot(&folder, &mut |record| {
        apply(record.number, record.kind, record.version, record.data);
    });
    let last = last.map_err(|error| failure(&path, &error))?.unwrap_or(0);
    let mut reader = Reader::open(&folder, last + 1).map_err(|error| failure(&path, &error))?;
    loop {
        let more =
            reader.read(&mut |record, _| apply(record.number, record.kind, record.version, record.data));
        if !more.map_err(|error| failure(&path, &error))? {
            break;
        }
    }
    if let Some((number, error)) = unknown {
        return Err(Failure::Refused(format!("{}: record {number}: {error}", path.display())));
    }
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
