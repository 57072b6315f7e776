//! The answer of a command that ended: its line, or what the kernel composed that of, which is a
//! third as long.

use crate::api::fact::{Answer, ComposedAnswer};
use crate::facts::FactError;
use crate::facts::wire::{Reader, Writer};
use mainspring_message::{Envelope, Kind, Parts};
use std::borrow::Cow;

/// What caused an answer: nothing, the command that it answers, or a message of this id.
const NO_CAUSE: u8 = 0;
const CAUSED_BY_COMMAND: u8 = 1;
const CAUSED_BY: u8 = 2;

impl<'a> Answer<&'a str> {
    /// The answer as it is kept best.
    #[inline]
    pub(crate) fn of(answer: &'a Envelope) -> Answer<&'a str> {
        match answer.composed_of() {
            Some(parts) if parts.kind.is_outcome() => Answer::Composed(ComposedAnswer {
                is_error: parts.kind == Kind::Error,
                type_name: parts.type_name,
                data: parts.data,
                id: parts.id,
                timestamp_ms: parts.timestamp_ms,
                causation: parts.causation,
                correlation: parts.correlation,
                traceparent: parts.traceparent,
            }),
            _ => Answer::Line(answer.line()),
        }
    }

    /// Its line.
    pub fn line(&self) -> Cow<'a, str> {
        match self {
            Answer::Line(line) => Cow::Borrowed(line),
            Answer::Composed(composed) => {
                let mut line = String::new();
                composed.parts().append_to(&mut line);
                Cow::Owned(line)
            }
        }
    }
}

impl<'a> ComposedAnswer<&'a str> {
    fn parts(&self) -> Parts<'a> {
        Parts {
            kind: if self.is_error { Kind::Error } else { Kind::Reply },
            type_name: self.type_name,
            data: self.data,
            id: self.id,
            timestamp_ms: self.timestamp_ms,
            causation: self.causation,
            correlation: self.correlation,
            traceparent: self.traceparent,
            timeout_ms: None,
            extra: "",
        }
    }

    /// Reads what [`ComposedAnswer::write`] wrote, beside the same command and time.
    pub(super) fn read(
        reader: &mut Reader<'a>,
        command: Option<&'a str>,
        unix_ms: u64,
    ) -> Result<ComposedAnswer<&'a str>, FactError> {
        Ok(ComposedAnswer {
            is_error: reader.is_there("error")?,
            timestamp_ms: unix_ms.wrapping_sub(reader.number("timestamp")?),
            causation: match (reader.byte("causation")?, command) {
                (NO_CAUSE, _) => None,
                (CAUSED_BY_COMMAND, Some(command)) => Some(command),
                (CAUSED_BY, command) => {
                    let cause = Some(reader.text("causation")?);
                    // There is one way to write it.
                    if cause == command {
                        return Err(reader.wrong("causation"));
                    }
                    cause
                }
                _ => return Err(reader.wrong("causation")),
            },
            correlation: reader.maybe_text("correlation")?,
            traceparent: reader.maybe_text("traceparent")?,
            id: reader.text("id")?,
            type_name: reader.text("type")?,
            data: reader.text("data")?,
        })
    }
}

impl<T: AsRef<str>> ComposedAnswer<T> {
    /// Appends its fields. `command` is the id of the command that it answers, if that stands
    /// beside it, and `unix_ms` a time that does.
    pub(super) fn write(&self, writer: &mut Writer<'_>, command: Option<&str>, unix_ms: u64) {
        writer.flag(self.is_error).number(unix_ms.wrapping_sub(self.timestamp_ms));
        match self.causation.as_ref().map(AsRef::as_ref) {
            None => writer.0.push(NO_CAUSE),
            cause if cause == command => writer.0.push(CAUSED_BY_COMMAND),
            Some(cause) => {
                writer.0.push(CAUSED_BY);
                writer.text(cause);
            }
        }
        writer
            .maybe_text(self.correlation.as_ref().map(AsRef::as_ref))
            .maybe_text(self.traceparent.as_ref().map(AsRef::as_ref))
            .text(self.id.as_ref())
            .text(self.type_name.as_ref())
            .text(self.data.as_ref());
    }
}

/// An answer that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptAnswer {
    Line(Box<str>),
    /// What it was composed of, as it is written beside the id of its command.
    Composed(Box<[u8]>),
}

impl KeptAnswer {
    /// `command` is the id of the command that it answers, and `scratch` a buffer to reuse.
    pub(super) fn of(answer: &Answer<&str>, command: &str, scratch: &mut Vec<u8>) -> KeptAnswer {
        match answer {
            Answer::Line(line) => KeptAnswer::Line((*line).into()),
            Answer::Composed(composed) => {
                scratch.clear();
                composed.write(&mut Writer(scratch), Some(command), 0);
                KeptAnswer::Composed(scratch.as_slice().into())
            }
        }
    }

    /// How much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            KeptAnswer::Line(line) => line.len(),
            KeptAnswer::Composed(bytes) => bytes.len(),
        }
    }

    /// The answer, given the id of the command that it answers.
    pub(crate) fn answer<'a>(&'a self, command: &'a str) -> Answer<&'a str> {
        match self {
            KeptAnswer::Line(line) => Answer::Line(line),
            KeptAnswer::Composed(bytes) => {
                let mut reader = Reader { rest: bytes, name: "answer" };
                match ComposedAnswer::read(&mut reader, Some(command), 0) {
                    Ok(composed) => Answer::Composed(composed),
                    Err(error) => unreachable!("it was written here: {error}"),
                }
            }
        }
    }
}
