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
        let (is_error, timestamp_ms) = read_head(reader, unix_ms)?;
        ComposedAnswer::read_texts(reader, command, is_error, timestamp_ms)
    }

    #[inline]
    fn read_texts(
        reader: &mut Reader<'a>,
        command: Option<&'a str>,
        is_error: bool,
        timestamp_ms: u64,
    ) -> Result<ComposedAnswer<&'a str>, FactError> {
        Ok(ComposedAnswer {
            is_error,
            timestamp_ms,
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

/// What stands before the texts of a composed answer: whether it is an error, and when it was
/// composed.
fn read_head(reader: &mut Reader<'_>, unix_ms: u64) -> Result<(bool, u64), FactError> {
    Ok((reader.is_there("error")?, unix_ms.wrapping_sub(reader.number("timestamp")?)))
}

impl<T: AsRef<str>> ComposedAnswer<T> {
    /// Appends its fields. `command` is the id of the command that it answers, if that stands
    /// beside it, and `unix_ms` a time that does.
    pub(super) fn write(&self, writer: &mut Writer<'_>, command: Option<&str>, unix_ms: u64) {
        writer.flag(self.is_error).number(unix_ms.wrapping_sub(self.timestamp_ms));
        self.write_texts(writer, command);
    }

    fn write_texts(&self, writer: &mut Writer<'_>, command: Option<&str>) {
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

/// An answer that is remembered, beside the id of its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptAnswer {
    Line(Box<str>),
    /// What it was composed of: its texts as they stand in a fact, which were read once.
    Composed {
        is_error: bool,
        timestamp_ms: u64,
        texts: Box<[u8]>,
    },
}

impl KeptAnswer {
    /// `command` is the id of the command that it answers, and `scratch` a buffer to reuse.
    pub(super) fn of(answer: &Answer<&str>, command: &str, scratch: &mut Vec<u8>) -> KeptAnswer {
        match answer {
            Answer::Line(line) => KeptAnswer::Line((*line).into()),
            Answer::Composed(composed) => {
                scratch.clear();
                composed.write_texts(&mut Writer(scratch), Some(command));
                let ComposedAnswer { is_error, timestamp_ms, .. } = *composed;
                KeptAnswer::Composed { is_error, timestamp_ms, texts: scratch.as_slice().into() }
            }
        }
    }

    /// Reads a composed answer that stands in a fact, to its end, beside its command and this time.
    /// It is kept as it stands there.
    pub(super) fn read<'a>(
        reader: &mut Reader<'a>,
        command: &'a str,
        unix_ms: u64,
    ) -> Result<KeptAnswer, FactError> {
        let (is_error, timestamp_ms) = read_head(reader, unix_ms)?;
        let texts = reader.rest;
        // It is written by nobody else in another way, so that this is what `of` makes of it.
        ComposedAnswer::read_texts(reader, Some(command), is_error, timestamp_ms)?;
        let texts = &texts[..texts.len() - reader.rest.len()];
        Ok(KeptAnswer::Composed { is_error, timestamp_ms, texts: texts.into() })
    }

    /// How much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            KeptAnswer::Line(line) => line.len(),
            KeptAnswer::Composed { texts, .. } => texts.len(),
        }
    }

    /// The answer, given the id of the command that it answers.
    pub(crate) fn answer<'a>(&'a self, command: &'a str) -> Answer<&'a str> {
        match self {
            KeptAnswer::Line(line) => Answer::Line(line),
            KeptAnswer::Composed { is_error, timestamp_ms, texts } => {
                let mut reader = Reader { rest: texts, name: "answer" };
                match ComposedAnswer::read_texts(&mut reader, Some(command), *is_error, *timestamp_ms) {
                    Ok(composed) => Answer::Composed(composed),
                    Err(error) => unreachable!("it was read before: {error}"),
                }
            }
        }
    }
}
