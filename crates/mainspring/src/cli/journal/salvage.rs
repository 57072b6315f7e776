//! `mainspring journal salvage`: what is whole of a damaged journal becomes a new one.

use super::{ReadingProgress, failure};
use crate::cli::support::output;
use crate::cli::support::target::Failure;
use crate::cli::support::text;
use mainspring_journal::{Batch, DiskFolder, Error, Found, Journal, Options, salvage};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Records are written in batches of about this size.
const BATCH_BYTES: usize = 4 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct JournalSalvageArguments {
    /// The damaged journal; nothing in it is changed.
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// The folder of the new journal; it must be empty, or not be there.
    #[arg(value_name = "NEW")]
    to: PathBuf,
}

/// Refuses a folder that is not to be written to, before anything is opened there: to open a
/// journal changes it.
fn refuse_target(from: &Path, to: &Path) -> Result<(), Failure> {
    let is_same = matches!((from.canonicalize(), to.canonicalize()), (Ok(from), Ok(to)) if from == to);
    if is_same {
        return Err(Failure::Usage(format!("{}: it is the damaged journal itself", to.display())));
    }
    // One that is not there is made; what else is wrong with it is told when it is opened.
    if std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::Usage(format!("{}: the folder is not empty", to.display())));
    }
    Ok(())
}

pub(super) fn run(arguments: &JournalSalvageArguments) -> Result<ExitCode, Failure> {
    let (from, to) = (&arguments.from, &arguments.to);
    let old = DiskFolder::open_to_read(from).map_err(|error| failure(from, &error))?;
    refuse_target(from, to)?;
    let new = DiskFolder::open(to).map_err(|error| failure(to, &error))?;
    let (mut journal, opened) =
        Journal::open(new, Options::default(), &mut |_| ()).map_err(|error| failure(to, &error))?;
    if !opened.created {
        return Err(Failure::Usage(format!("{}: there is a journal already", to.display())));
    }
    let now_ms = crate::client::now_ms();
    let mut batch = Batch::new(opened.next);
    let mut failed: Option<Error> = None;
    let mut copy = |found: Found<'_>| {
        if failed.is_some() {
            return;
        }
        let (Found::Snapshot(record) | Found::Record(record, _)) = found;
        let time = if let Found::Record(_, unix_ms) = found { unix_ms } else { now_ms };
        let mut write = || {
            batch.push(record.kind, record.version, &[record.data])?;
            if batch.bytes() >= BATCH_BYTES {
                journal.write(&mut batch, time)?;
            }
            Ok(())
        };
        failed = write().err();
    };
    let mut progress = ReadingProgress::new("reading");
    let salvaged = salvage(&old, &mut copy, &mut |done, all| progress.tell(done, all))
        .map_err(|error| failure(from, &error))?;
    drop(progress);
    if failed.is_none() && !batch.is_empty() {
        failed = journal.write(&mut batch, now_ms).err();
    }
    let failed = failed.or_else(|| journal.close(now_ms).err());
    if let Some(error) = failed {
        return Err(failure(to, &error));
    }
    let mut lines = String::new();
    for reason in &salvaged.damaged {
        lines.push_str(&format!("damaged: {reason}\n"));
    }
    for (first, last) in &salvaged.missing {
        lines.push_str(&format!("missing: facts {first} to {last}\n"));
    }
    let base = match salvaged.snapshot {
        Some(number) => format!("a snapshot up to fact {number} and "),
        None => String::new(),
    };
    let records = text::count(salvaged.records, "fact", "facts");
    lines.push_str(&format!("{base}{records} are in {}\n", to.display()));
    Ok(output::print(&lines))
}
