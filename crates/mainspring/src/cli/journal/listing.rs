//! `mainspring journal tail` and `export`: the facts, one after the other.

use super::facts::{json_line, readable_line, type_of};
use super::{Choice, JournalPlace, ReadingProgress, failure};
use crate::cli::support::output;
use crate::cli::support::target::Failure;
use mainspring_journal::{DiskFolder, Reader, Record};
use mainspring_kernel::Fact;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Nothing tells when another process has written, so it is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The most facts that are shown of the past: they are kept until the end is known.
const LAST_MAX: usize = 1_000_000;

#[derive(Debug, clap::Args)]
pub(super) struct Tail {
    #[command(flatten)]
    place: JournalPlace,
    #[command(flatten)]
    choice: Choice,
    /// How many of the last facts to show.
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    lines: usize,
    /// Go on with what follows, until you end it.
    #[arg(short, long)]
    follow: bool,
    /// Print a line of JSON for each.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Export {
    #[command(flatten)]
    place: JournalPlace,
    #[command(flatten)]
    choice: Choice,
}

/// The line of a record, if it is chosen.
fn line(record: Record<'_>, unix_ms: u64, choice: &Choice, since_ms: u64, json: bool) -> Option<String> {
    if unix_ms < since_ms {
        return None;
    }
    match Fact::read(record.kind, record.version, record.data) {
        Ok(fact) if choice.types.is_empty() || choice.takes(type_of(&fact).as_deref()) => Some(match json {
            true => json_line(record.number, unix_ms, &fact),
            false => readable_line(record.number, unix_ms, &fact),
        }),
        Ok(_) => None,
        // Another build wrote it; the rest is still worth seeing.
        Err(error) => {
            eprintln!("mainspring: record {}: {error}", record.number);
            None
        }
    }
}

fn reader<'a>(path: &Path, folder: &'a DiskFolder) -> Result<Reader<'a, DiskFolder>, Failure> {
    Reader::open(folder, 1).map_err(|error| failure(path, &error))
}

/// Reads up to the end, or to damage.
fn read_all(
    reader: &mut Reader<'_, DiskFolder>,
    visit: &mut dyn FnMut(Record<'_>, u64),
) -> Result<(), mainspring_journal::Error> {
    while reader.read(visit)? {}
    Ok(())
}

pub(super) fn tail(arguments: &Tail) -> Result<ExitCode, Failure> {
    let (path, folder) = arguments.place.open()?;
    let (choice, since_ms) = (&arguments.choice, arguments.choice.since_ms());
    let mut reader = reader(&path, &folder)?;
    let mut last: VecDeque<String> = VecDeque::new();
    let lines_max = arguments.lines.min(LAST_MAX);
    let mut keep = |record: Record<'_>, unix_ms: u64| {
        last.extend(line(record, unix_ms, choice, since_ms, arguments.json));
        while last.len() > lines_max {
            last.pop_front();
        }
    };
    let read = read_all(&mut reader, &mut keep);
    let mut out = std::io::stdout().lock();
    for line in last {
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    // What stands before damage is worth seeing.
    read.map_err(|error| failure(&path, &error))?;
    if !arguments.follow {
        return Ok(ExitCode::SUCCESS);
    }
    output::end_with_reader();
    loop {
        let mut lines = String::new();
        let mut show = |record: Record<'_>, unix_ms: u64| {
            lines.extend(line(record, unix_ms, choice, since_ms, arguments.json));
        };
        let more = reader.poll(&mut show);
        out.write_all(lines.as_bytes())?;
        out.flush()?;
        if !more.map_err(|error| failure(&path, &error))? {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

pub(super) fn export(arguments: &Export) -> Result<ExitCode, Failure> {
    let (path, folder) = arguments.place.open()?;
    let (choice, since_ms) = (&arguments.choice, arguments.choice.since_ms());
    let segments = mainspring_journal::list_segments(&folder).map_err(|error| failure(&path, &error))?;
    let all: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut progress = ReadingProgress::new("exporting");
    let mut reader = reader(&path, &folder)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut done, mut failed) = (0, None);
    loop {
        let mut write = |record: Record<'_>, unix_ms: u64| {
            done += record.data.len() as u64;
            if let (None, Some(line)) = (&failed, line(record, unix_ms, choice, since_ms, true)) {
                failed = out.write_all(line.as_bytes()).err();
            }
        };
        let more = reader.read(&mut write).map_err(|error| failure(&path, &error))?;
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        progress.tell(done.min(all), all);
        if !more {
            break;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
