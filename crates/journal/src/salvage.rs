//! Reading what can still be read of a damaged journal. Nothing is changed.

use crate::batch::{Record, SEALED};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::reader::scan_of;
use crate::recovery::read_identity;
use crate::scan::Place;
use crate::segment::{FileKind, Files, Head, PAGE, segment_name, snapshot_name};
use crate::snapshot;

/// What [`salvage`] found and missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The last record that the snapshot stands for with which it began; nothing if there is no
    /// whole one.
    pub snapshot: Option<u64>,
    /// How many records behind it could be read.
    pub records: u64,
    /// The records that are missing between others, first and last.
    pub missing: Vec<(u64, u64)>,
    /// Files that are damaged, each with the reason.
    pub damaged: Vec<String>,
}

/// What [`salvage`] reads, in this order.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// Part of the newest whole snapshot.
    Snapshot(Record<'a>),
    /// A record behind it, and when it was written, in Unix milliseconds.
    Record(Record<'a>, u64),
}

/// Gives everything that is whole to `visit`: the newest whole snapshot, then the records behind
/// it, in order, whatever is missing between them. `progress` gets bytes done and bytes in all.
///
/// # Errors
/// What the system says of the folder itself.
pub fn salvage<D: Folder>(
    folder: &D,
    visit: &mut dyn FnMut(Found<'_>),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Salvaged> {
    let files = Files::list(folder)?;
    let mut salvaged = Salvaged::default();
    let heads: Vec<Head> =
        files.segments.iter().filter_map(|number| head(folder, *number, &mut salvaged)).collect();
    // Every head says which journal it belongs to; the file that says so first may be what is
    // damaged.
    let identity = read_identity(folder).ok().or(heads.first().map(|head| head.identity));
    for number in files.snapshots.iter().rev() {
        let Some(identity) = identity else { break };
        match snapshot::whole(folder, identity, *number) {
            Ok(snapshot) => {
                snapshot.read(&mut |record| visit(Found::Snapshot(record)))?;
                salvaged.snapshot = Some(*number);
                break;
            }
            Err(error) => salvaged.damaged.push(format!("{}: {error}", snapshot_name(*number))),
        }
    }
    let all: u64 = heads.iter().map(|head| head.bytes).sum();
    let (mut done, mut last) = (0, salvaged.snapshot.unwrap_or(0));
    for (index, head) in heads.iter().enumerate() {
        if Some(head.identity) == identity {
            let unsealed = read_segment(folder, head, &mut last, &mut salvaged, visit)?;
            if needs_seal(folder, &heads[index + 1..]) {
                salvaged.damaged.extend(unsealed.map(|error| error.to_string()));
            }
        } else {
            salvaged.damaged.push(format!("{}: it is of another journal", segment_name(head.number)));
        }
        done += head.bytes;
        progress(done, all);
    }
    Ok(salvaged)
}

fn head(folder: &impl Folder, number: u64, salvaged: &mut Salvaged) -> Option<Head> {
    let name = segment_name(number);
    let read = folder
        .open(&name)
        .map_err(Error::io("open", &name))
        .and_then(|file| Head::read(&file, &name, FileKind::Segment));
    match read {
        Ok(head) if head.number == number => return Some(head),
        Ok(_) => salvaged.damaged.push(format!("{name}: its head is that of another segment")),
        Err(error) => salvaged.damaged.push(error.to_string()),
    }
    None
}

/// Whether the segment before these must be sealed. A crash may come when its successor has just
/// been made.
fn needs_seal(folder: &impl Folder, successors: &[Head]) -> bool {
    match successors {
        [] => false,
        [next] => !scan_of(folder, next).and_then(|mut scan| scan.is_bare_within(u64::MAX)).unwrap_or(false),
        _ => true,
    }
}

/// Reads every whole batch of a segment, wherever it stands. Gives what is wrong if it needs a seal
/// and has none.
fn read_segment<D: Folder>(
    folder: &D,
    head: &Head,
    last: &mut u64,
    salvaged: &mut Salvaged,
    visit: &mut dyn FnMut(Found<'_>),
) -> Result<Option<Error>> {
    let mut scan = scan_of(folder, head)?;
    let (mut end, mut is_sealed) = (scan.offset, false);
    loop {
        let (before, offset) = (*last, scan.offset);
        let place = scan.take_any(&mut |record, unix_ms| {
            if record.number > *last {
                *last = record.number;
                salvaged.records += 1;
                visit(Found::Record(record, unix_ms));
            }
        });
        match place {
            Ok(Place::Batch(header)) => {
                // A leap of numbers after a crash is marked as such, and nothing is missing there.
                if header.count > 0 && header.first > before + 1 && scan.leapt_to != Some(header.first) {
                    salvaged.missing.push((before + 1, header.first - 1));
                }
                if offset > end {
                    salvaged.damaged.push(scan.gap(end, offset, &header).to_string());
                }
                scan.last = header.last();
                (end, is_sealed) = (scan.offset, header.is(SEALED));
            }
            Ok(Place::Nothing) => scan.offset += PAGE as u64,
            Ok(Place::End) => return Ok((!is_sealed).then(|| scan.unsealed(end))),
            Err(error) => {
                salvaged.damaged.push(error.to_string());
                scan.offset += PAGE as u64;
            }
        }
    }
}
