//! How a fact stands in a record: a kind, a version, and its fields. Numbers are LEB128, texts have
//! their length before them.
//!
//! What is read is checked to its last byte: a record that is longer, shorter or otherwise not what
//! its kind and version say is an error with the field's name, never a guess.

use crate::api::fact::{Answer, ComposedAnswer, Ending, Fact, PeerName};
use crate::facts::KeptAnswer;
use crate::facts::remembered::Ended;
use crate::facts::wire::{Reader, Writer};

/// The names of all kinds, by number; 0 is none.
pub const FACT_KINDS: [&str; 18] = [
    "",
    "started",
    "stopped",
    "accepted",
    "delivered",
    "ended",
    "scheduled",
    "fired",
    "cancelled",
    "dead_lettered",
    "requeued",
    "dropped",
    "emitted",
    "cursor_moved",
    "put",
    "deleted",
    "numbered",
    "cursor_forgotten",
];

/// The version in which facts are written, but for those that say more than their kind could say in
/// the beginning.
const VERSION: u8 = 1;
/// The version of a schedule whose rights are limited: they stand before its message.
const SCHEDULED_WITH_RIGHTS: u8 = 2;
/// The version of an end with an answer that was composed: what that was composed of comes last,
/// and a fingerprint takes eight bytes.
const ENDED_BY_PARTS: u8 = 2;
/// The kind of an end, that of a schedule, and those of a key that was set or deleted.
const ENDED: u8 = 5;
const SCHEDULED: u8 = 6;
const PUT: u8 = 14;
const DELETED: u8 = 15;

/// The newest version of a kind that this build reads.
fn newest(kind: u8) -> u8 {
    match kind {
        ENDED => ENDED_BY_PARTS,
        SCHEDULED => SCHEDULED_WITH_RIGHTS,
        _ => VERSION,
    }
}

/// Whether this kind says that a key was set or deleted.
pub(super) fn is_change_of_value(kind: u8) -> bool {
    matches!(kind, PUT | DELETED)
}

/// Why a record is no fact that this build can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// A kind of fact that this build does not know.
    #[error("a fact of kind {kind}, which this build does not know; a newer build wrote it")]
    Kind {
        /// The number of the kind.
        kind: u8,
    },
    /// A version of it that this build does not know.
    #[error(
        "a fact \"{name}\" of version {version}, and this build reads up to {newest}; a newer build wrote it"
    )]
    Version {
        /// The name of the kind.
        name: &'static str,
        /// The version.
        version: u8,
        /// The newest one that this build knows.
        newest: u8,
    },
    /// The bytes are not those of such a fact.
    #[error("a fact \"{name}\" whose field {field} cannot be read")]
    Field {
        /// The name of the kind.
        name: &'static str,
        /// The field.
        field: &'static str,
    },
}

impl<T: AsRef<str>> Fact<T> {
    /// The number of its kind on disk.
    pub fn kind(&self) -> u8 {
        match self {
            Fact::Started { .. } => 1,
            Fact::Stopped { .. } => 2,
            Fact::Accepted { .. } => 3,
            Fact::Delivered { .. } => 4,
            Fact::Ended { .. } => ENDED,
            Fact::Scheduled { .. } => SCHEDULED,
            Fact::Fired { .. } => 7,
            Fact::Cancelled { .. } => 8,
            Fact::DeadLettered { .. } => 9,
            Fact::Requeued { .. } => 10,
            Fact::Dropped { .. } => 11,
            Fact::Emitted { .. } => 12,
            Fact::CursorMoved { .. } => 13,
            Fact::Put { .. } => PUT,
            Fact::Deleted { .. } => DELETED,
            Fact::Numbered { .. } => 16,
            Fact::CursorForgotten { .. } => 17,
        }
    }

    /// The version in which [`Fact::write`] writes it.
    pub fn version(&self) -> u8 {
        match self {
            Fact::Ended { answer: Some(Answer::Composed(_)), .. } => ENDED_BY_PARTS,
            Fact::Scheduled { rights: Some(_), .. } => SCHEDULED_WITH_RIGHTS,
            _ => VERSION,
        }
    }

    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        FACT_KINDS[usize::from(self.kind())]
    }

    /// Appends its fields. A message is the last field, so that whoever looks at a journal finds it
    /// at the end.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut writer = Writer(to);
        match self {
            Fact::Started { build, unix_ms } => writer.number(*unix_ms).text(build.as_ref()),
            Fact::Stopped { unix_ms } => writer.number(*unix_ms),
            Fact::Accepted { request, peer, timer_id, deadline_ms, unix_ms, message } => writer
                .number(*request)
                .number(*unix_ms)
                .number(*deadline_ms)
                .peer(peer)
                .maybe_text(timer_id.as_ref().map(AsRef::as_ref))
                .text(message.as_ref()),
            Fact::Delivered { request, attempt, unix_ms } => {
                writer.number(*request).number(u64::from(*attempt)).number(*unix_ms)
            }
            Fact::Ended { which, unix_ms, until_ms, answer } => {
                match which {
                    Ending::Accepted(request) => writer.number(*request),
                    Ending::Whole { peer, id, fingerprint } => {
                        writer.number(0).peer(peer).text(id.as_ref());
                        match answer {
                            Some(Answer::Composed(_)) => writer.word(*fingerprint),
                            _ => writer.number(*fingerprint),
                        }
                    }
                };
                writer.number(*unix_ms);
                match answer {
                    // How long it is remembered is shorter than until when.
                    Some(Answer::Composed(answer)) => {
                        writer.number(until_ms.wrapping_sub(*unix_ms));
                        answer.write(&mut writer, which.id().map(AsRef::as_ref), *unix_ms);
                        &mut writer
                    }
                    Some(Answer::Line(line)) => writer.number(*until_ms).maybe_text(Some(line.as_ref())),
                    None => writer.number(*until_ms).maybe_text(None),
                }
            }
            Fact::Scheduled { peer, timer_id, due_ms, repeat_ms, left, fired, bytes, rights, message } => {
                writer
                    .peer(peer)
                    .text(timer_id.as_ref())
                    .number(*due_ms)
                    .maybe(*repeat_ms)
                    .maybe(*left)
                    .number(*fired)
                    .number(*bytes);
                if let Some(rights) = rights {
                    writer.rights(rights);
                }
                writer.text(message.as_ref())
            }
            Fact::Fired { peer, timer_id, fired, left, next_ms } => {
                writer.peer(peer).text(timer_id.as_ref()).number(*fired).maybe(*left).maybe(*next_ms)
            }
            Fact::Cancelled { peer, timer_id } => writer.peer(peer).text(timer_id.as_ref()),
            Fact::DeadLettered { letter, owner, attempts, unix_ms, reason, message } => writer
                .number(*letter)
                .peer(owner)
                .number(u64::from(*attempts))
                .number(*unix_ms)
                .text(reason.as_ref())
                .text(message.as_ref()),
            Fact::Requeued { letter } => writer.number(*letter),
            Fact::Dropped { first, last } => writer.number(*first).number(*last),
            Fact::Emitted { event, unix_ms, message } => {
                writer.number(*event).number(*unix_ms).text(message.as_ref())
            }
            Fact::CursorMoved { peer, name, event } => writer.peer(peer).text(name.as_ref()).number(*event),
            Fact::CursorForgotten { peer, name } => writer.peer(peer).text(name.as_ref()),
            Fact::Put { store, key, value } => {
                writer.text(store.as_ref()).text(key.as_ref()).text(value.as_ref())
            }
            Fact::Deleted { store, key } => writer.text(store.as_ref()).text(key.as_ref()),
            Fact::Numbered { request, letter, event, starts, unix_ms } => {
                writer.number(*request).number(*letter).number(*event).number(*starts).number(*unix_ms)
            }
        };
    }
}

impl<'a> Fact<&'a str> {
    /// Reads a fact from a record.
    ///
    /// # Errors
    /// [`FactError`] for what this build cannot read.
    pub fn read(kind: u8, version: u8, bytes: &'a [u8]) -> Result<Fact<&'a str>, FactError> {
        let name = match FACT_KINDS.get(usize::from(kind)) {
            Some(name) if kind > 0 => *name,
            _ => return Err(FactError::Kind { kind }),
        };
        let newest = newest(kind);
        if version < VERSION || version > newest {
            return Err(FactError::Version { name, version, newest });
        }
        let mut reader = Reader { rest: bytes, name };
        let fact = read_fields(kind, version, &mut reader)?;
        reader.end()?;
        Ok(fact)
    }
}

/// The end of a command that is told whole, with an answer that was composed.
pub(super) struct WholeEnd<'a> {
    pub(super) peer: PeerName<&'a str>,
    pub(super) command: Ended<'a>,
}

/// Reads a record if it is such an end: the same as by [`Fact::read`], but its answer is kept as it
/// stands there.
pub(super) fn read_whole_end(kind: u8, version: u8, bytes: &[u8]) -> Result<Option<WholeEnd<'_>>, FactError> {
    if kind != ENDED || version != ENDED_BY_PARTS {
        return Ok(None);
    }
    let mut reader = Reader { rest: bytes, name: FACT_KINDS[usize::from(kind)] };
    let Ending::Whole { peer, id, fingerprint } = reader.ending(version)? else { return Ok(None) };
    let ended_ms = reader.number("time")?;
    let until_ms = ended_ms.wrapping_add(reader.number("until")?);
    let answer = Some(KeptAnswer::read(&mut reader, id, ended_ms)?);
    reader.end()?;
    Ok(Some(WholeEnd { peer, command: Ended { id, fingerprint, ended_ms, until_ms, answer } }))
}

fn read_fields<'a>(kind: u8, version: u8, reader: &mut Reader<'a>) -> Result<Fact<&'a str>, FactError> {
    Ok(match kind {
        1 => {
            let unix_ms = reader.number("time")?;
            Fact::Started { build: reader.text("build")?, unix_ms }
        }
        2 => Fact::Stopped { unix_ms: reader.number("time")? },
        3 => Fact::Accepted {
            request: reader.number("request")?,
            unix_ms: reader.number("time")?,
            deadline_ms: reader.number("deadline")?,
            peer: reader.peer()?,
            timer_id: reader.maybe_text("schedule")?,
            message: reader.text("message")?,
        },
        4 => Fact::Delivered {
            request: reader.number("request")?,
            attempt: reader.small("attempt")?,
            unix_ms: reader.number("time")?,
        },
        ENDED if version >= ENDED_BY_PARTS => {
            let (which, unix_ms) = (reader.ending(version)?, reader.number("time")?);
            let until_ms = unix_ms.wrapping_add(reader.number("until")?);
            let answer = ComposedAnswer::read(reader, which.id().copied(), unix_ms)?;
            Fact::Ended { which, unix_ms, until_ms, answer: Some(Answer::Composed(answer)) }
        }
        ENDED => Fact::Ended {
            which: reader.ending(version)?,
            unix_ms: reader.number("time")?,
            until_ms: reader.number("until")?,
            answer: reader.maybe_text("answer")?.map(Answer::Line),
        },
        SCHEDULED => Fact::Scheduled {
            peer: reader.peer()?,
            timer_id: reader.text("schedule")?,
            due_ms: reader.number("due")?,
            repeat_ms: reader.maybe("period")?,
            left: reader.maybe("left")?,
            fired: reader.number("fired")?,
            bytes: reader.number("bytes")?,
            rights: if version >= SCHEDULED_WITH_RIGHTS { Some(reader.rights()?) } else { None },
            message: reader.text("message")?,
        },
        7 => Fact::Fired {
            peer: reader.peer()?,
            timer_id: reader.text("schedule")?,
            fired: reader.number("fired")?,
            left: reader.maybe("left")?,
            next_ms: reader.maybe("next")?,
        },
        8 => Fact::Cancelled { peer: reader.peer()?, timer_id: reader.text("schedule")? },
        9 => Fact::DeadLettered {
            letter: reader.number("letter")?,
            owner: reader.peer()?,
            attempts: reader.small("attempts")?,
            unix_ms: reader.number("time")?,
            reason: reader.text("reason")?,
            message: reader.text("message")?,
        },
        10 => Fact::Requeued { letter: reader.number("letter")? },
        11 => Fact::Dropped { first: reader.number("first")?, last: reader.number("last")? },
        12 => Fact::Emitted {
            event: reader.number("event")?,
            unix_ms: reader.number("time")?,
            message: reader.text("message")?,
        },
        13 => Fact::CursorMoved {
            peer: reader.peer()?,
            name: reader.text("cursor")?,
            event: reader.number("event")?,
        },
        PUT => {
            Fact::Put { store: reader.text("store")?, key: reader.text("key")?, value: reader.text("value")? }
        }
        DELETED => Fact::Deleted { store: reader.text("store")?, key: reader.text("key")? },
        17 => Fact::CursorForgotten { peer: reader.peer()?, name: reader.text("cursor")? },
        _ => Fact::Numbered {
            request: reader.number("request")?,
            letter: reader.number("letter")?,
            event: reader.number("event")?,
            starts: reader.number("starts")?,
            unix_ms: reader.number("time")?,
        },
    })
}

impl<T> Ending<T> {
    /// The id of the command, if it is told.
    fn id(&self) -> Option<&T> {
        match self {
            Ending::Accepted(_) => None,
            Ending::Whole { id, .. } => Some(id),
        }
    }
}

impl<'a> Reader<'a> {
    /// Nothing may be left over.
    fn end(&self) -> Result<(), FactError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong("end")) }
    }

    fn ending(&mut self, version: u8) -> Result<Ending<&'a str>, FactError> {
        Ok(match self.number("request")? {
            0 => Ending::Whole {
                peer: self.peer()?,
                id: self.text("id")?,
                fingerprint: match version {
                    ENDED_BY_PARTS => self.word("fingerprint")?,
                    _ => self.number("fingerprint")?,
                },
            },
            request => Ending::Accepted(request),
        })
    }
}
