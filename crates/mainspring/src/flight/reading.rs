//! Reading a recording.

use super::{FORMAT, FRAME_BYTES_MAX, FRAME_HEAD, Header, SegmentName, checksum, segments};
use mainspring_journal::{DiskFolder, File, Folder};

/// One run of a daemon, as far as it is kept.
pub(crate) struct Recording {
    /// When the run began, in Unix milliseconds, unless the clock was set back meanwhile.
    pub(crate) run: u64,
    names: Vec<SegmentName>,
    /// What the first segment says that is kept.
    pub(crate) header: Header,
}

/// The runs that a folder has recordings of, oldest first.
pub(crate) fn runs(folder: &DiskFolder) -> Result<Vec<u64>, String> {
    let mut runs: Vec<u64> = segments(folder).map_err(words)?.iter().map(|name| name.run).collect();
    runs.dedup();
    Ok(runs)
}

fn words(error: std::io::Error) -> String {
    error.to_string()
}

impl Recording {
    /// Opens the recording of a run.
    pub(crate) fn open(folder: &DiskFolder, run: u64) -> Result<Recording, String> {
        let names: Vec<SegmentName> =
            segments(folder).map_err(words)?.into_iter().filter(|name| name.run == run).collect();
        let first = names.first().ok_or_else(|| format!("there is no recording of run {run}"))?;
        let (header, _) = read_segment(folder, *first, &mut |_| Ok(()), true)?;
        Ok(Recording { run, names, header })
    }

    /// Gives the records of each frame to `visit`, in order, until it fails. What is left out at
    /// the end is told: a frame that its writer did not finish, or has not finished yet.
    ///
    /// A frame that is not whole anywhere else is damage.
    pub(crate) fn read(
        &self,
        folder: &DiskFolder,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Option<LeftOut>, String> {
        let mut left_out: Option<LeftOut> = None;
        for (at, name) in self.names.iter().enumerate() {
            if at > 0 && name.segment != self.names[at - 1].segment + 1 {
                return Err(format!("the segment before {} is missing", name.file()));
            }
            if let Some(left_out) = left_out {
                return Err(left_out.as_damage());
            }
            (_, left_out) = read_segment(folder, *name, visit, false)?;
        }
        Ok(left_out)
    }
}

/// The end of a recording that holds no whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    file: String,
    offset: u64,
    pub(crate) bytes: u64,
}

impl LeftOut {
    fn as_damage(&self) -> String {
        format!(
            "{} is damaged at offset {}: no whole frame is here, and others follow",
            self.file, self.offset
        )
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LeftOut { file, offset, bytes } = self;
        write!(
            f,
            "the last {bytes} bytes of {file}, from offset {offset} on, are no whole frame and left out"
        )
    }
}

/// What stands at a place of a segment.
enum Place {
    Frame,
    /// No whole frame, and nothing behind it: it is being written, or its writer ended.
    Unfinished,
    /// A frame with a wrong checksum, and something behind it.
    Damaged,
    End,
}

/// Reads a segment: its header, and unless that is all that is wanted, its frames.
fn read_segment(
    folder: &DiskFolder,
    name: SegmentName,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    header_only: bool,
) -> Result<(Header, Option<LeftOut>), String> {
    let shown = name.file();
    let told = |what: &str| format!("{shown}: {what}");
    let file = folder.open(&shown).map_err(|error| told(&error.to_string()))?;
    let length = File::len(&file).map_err(|error| told(&error.to_string()))?;
    let (mut offset, mut bytes) = (0, Vec::new());
    let mut header = None;
    let left_out = loop {
        let start = offset;
        let left_out = LeftOut { file: shown.clone(), offset: start, bytes: length - start };
        match read_frame(&file, length, &mut offset, &mut bytes).map_err(|error| told(&error.to_string()))? {
            Place::Frame => {}
            Place::End => break None,
            Place::Unfinished => break Some(left_out),
            Place::Damaged => return Err(left_out.as_damage()),
        }
        if header.is_some() {
            visit(&bytes)?;
            continue;
        }
        let read: Header =
            serde_json::from_slice(&bytes).map_err(|_| told("it does not begin as a recording does"))?;
        if read.format != FORMAT {
            return Err(told(&format!(
                "it has format {}, and this program reads format {FORMAT}",
                read.format
            )));
        }
        header = Some(read);
        if header_only {
            break None;
        }
    };
    let header = header.ok_or_else(|| told("it has no beginning that can be read"))?;
    Ok((header, left_out))
}

/// Reads the frame at the offset, and sets the offset to what is behind it.
fn read_frame(
    file: &std::fs::File,
    length: u64,
    offset: &mut u64,
    bytes: &mut Vec<u8>,
) -> std::io::Result<Place> {
    let mut head = [0; FRAME_HEAD];
    if *offset == length {
        return Ok(Place::End);
    }
    if *offset + FRAME_HEAD as u64 > length {
        return Ok(Place::Unfinished);
    }
    File::read_at(file, &mut head, *offset)?;
    let [a, b, c, d, e, f, g, h] = head;
    let (size, wanted) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]));
    let start = *offset + FRAME_HEAD as u64;
    if size > FRAME_BYTES_MAX || start + size as u64 > length {
        return Ok(Place::Unfinished);
    }
    bytes.resize(size, 0);
    File::read_at(file, bytes, start)?;
    *offset = start + size as u64;
    Ok(match (checksum(bytes) == wanted, *offset == length) {
        (true, _) => Place::Frame,
        (false, true) => Place::Unfinished,
        (false, false) => Place::Damaged,
    })
}
