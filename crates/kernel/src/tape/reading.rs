//! Records as inputs again.

use super::Tag;
use crate::api::config::Config;
use crate::api::effect::Effect;
use crate::api::fact::Fact;
use crate::api::ids::{ActorRef, ConnectionId, Now};
use crate::api::input::{ActorExit, BootPlan, Input};
use crate::builtins::{ConsoleRefused, SettingsRefused};
use crate::facts::wire::Reader;
use crate::facts::{Durable, DurableBounds, FactError};
use crate::flow::reload::Change;
use mainspring_message::{Draft, Envelope, Failure, Json, Kind, Started, Text};

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// A kernel was made.
    Begin {
        /// Its settings.
        config: Box<Config>,
        /// Its nonce.
        nonce: u64,
    },
    /// The time of the inputs that follow.
    Now(Now),
    /// Something happened to the kernel.
    Input(Box<Input>),
    /// The kernel's effects were taken.
    Effects {
        /// How many.
        count: u64,
        /// A digest of these and all before them.
        digest: u64,
    },
    /// Records are missing here.
    Gap {
        /// How many.
        missing: u64,
    },
}

/// Bytes that are no tape of this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of the tape cannot be read: {what} of {record}")]
pub struct TapeError {
    record: &'static str,
    what: &'static str,
}

impl From<FactError> for TapeError {
    fn from(error: FactError) -> TapeError {
        match error {
            FactError::Field { name, field } => TapeError { record: name, what: field },
            _ => TapeError { record: "fact", what: "kind or version" },
        }
    }
}

/// Reads records from bytes that begin with a whole one.
#[derive(Clone, Copy, Debug)]
pub struct TapeReader<'a> {
    rest: &'a [u8],
}

impl<'a> TapeReader<'a> {
    /// Reads these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> TapeReader<'a> {
        TapeReader { rest: bytes }
    }
}

impl Iterator for TapeReader<'_> {
    type Item = Result<Recorded, TapeError>;

    fn next(&mut self) -> Option<Result<Recorded, TapeError>> {
        let tag = *self.rest.first()?;
        let mut reader = Reader { rest: &self.rest[1..], name: "record" };
        let recorded = read(tag, &mut reader).map_err(TapeError::from);
        self.rest = if recorded.is_ok() { reader.rest } else { &[] };
        Some(recorded)
    }
}

fn read(tag: u8, reader: &mut Reader<'_>) -> Result<Recorded, FactError> {
    Ok(match tag {
        tag if tag == Tag::Begin as u8 => {
            let nonce = reader.number("nonce")?;
            Recorded::Begin { config: Box::new(reader.config()?), nonce }
        }
        tag if tag == Tag::Now as u8 => Recorded::Now(Now {
            mono_ns: reader.number("monotonic time")? as i64,
            unix_ms: reader.number("time")?,
        }),
        tag if tag == Tag::Effects as u8 => {
            let count = reader.number("count")?;
            let (digest, rest) = reader.rest.split_first_chunk().ok_or_else(|| reader.wrong("digest"))?;
            reader.rest = rest;
            Recorded::Effects { count, digest: u64::from_le_bytes(*digest) }
        }
        tag if tag == Tag::Gap as u8 => Recorded::Gap { missing: reader.number("missing")? },
        tag => Recorded::Input(Box::new(input(tag, reader)?)),
    })
}

const TAGS: [Tag; 40] = [
    Tag::Boot,
    Tag::ActorSpawned,
    Tag::ActorAttached,
    Tag::AdapterStarted,
    Tag::AdapterEnded,
    Tag::ConnectionOpened,
    Tag::ConnectionHas,
    Tag::PeersHave,
    Tag::ConnectionClosed,
    Tag::Line,
    Tag::LineTooLong,
    Tag::Written,
    Tag::ActorLine,
    Tag::ActorLineTooLong,
    Tag::ActorMessage,
    Tag::ActorEvent,
    Tag::ActorComplained,
    Tag::ActorExited,
    Tag::ActorBlocked,
    Tag::ActorReady,
    Tag::ActorFailed,
    Tag::ActorProgress,
    Tag::KeepValue,
    Tag::SettingsRead,
    Tag::ConsoleOpened,
    Tag::NodeTraceFetched,
    Tag::StatsCollected,
    Tag::Reload,
    Tag::Restore,
    Tag::ActorRecord,
    Tag::Flushed,
    Tag::StorageFull,
    Tag::StorageCongested,
    Tag::StorageFailed,
    Tag::WriteLost,
    Tag::DeliverLost,
    Tag::OutsideBytes,
    Tag::Shutdown,
    Tag::Hasten,
    Tag::Turn,
];

fn input(tag: u8, reader: &mut Reader<'_>) -> Result<Input, FactError> {
    let tag = TAGS.into_iter().find(|known| *known as u8 == tag).ok_or_else(|| reader.wrong("kind"))?;
    Ok(match tag {
        Tag::Begin | Tag::Now | Tag::Effects | Tag::Gap => return Err(reader.wrong("kind")),
        Tag::Boot => Input::Boot(reader.plan()?),
        Tag::ActorSpawned => Input::ActorSpawned(reader.actor()?, reader.done()?),
        Tag::ActorAttached => Input::ActorAttached(reader.actor()?, reader.done()?),
        Tag::AdapterStarted => Input::AdapterStarted(reader.small("adapter")?, reader.started()?),
        Tag::AdapterEnded => Input::AdapterEnded(reader.small("adapter")?),
        Tag::ConnectionOpened => Input::ConnectionOpened(reader.connection()?, reader.text("peer")?.into()),
        Tag::ConnectionHas => Input::ConnectionHas(reader.connection()?, reader.rights()?),
        Tag::PeersHave => {
            Input::PeersHave(reader.many(|reader| Ok((reader.text("peer")?.to_owned(), reader.rights()?)))?)
        }
        Tag::ConnectionClosed => Input::ConnectionClosed(reader.connection()?),
        Tag::Line => Input::Line(reader.connection()?, reader.blob("line")?.into()),
        Tag::LineTooLong => Input::LineTooLong(reader.connection()?),
        Tag::Written => Input::Written(reader.connection()?, reader.size("bytes")?),
        Tag::ActorLine => Input::ActorLine(reader.actor()?, reader.blob("line")?.into()),
        Tag::ActorLineTooLong => Input::ActorLineTooLong(reader.actor()?),
        Tag::ActorMessage => Input::ActorMessage(reader.actor()?, Box::new(reader.draft()?)),
        Tag::ActorEvent => Input::ActorEvent {
            actor: reader.actor()?,
            cause: reader.message()?,
            type_name: reader.text("type")?.into(),
            data: Json::from_tape(reader.text("data")?),
        },
        Tag::ActorComplained => Input::ActorComplained(reader.actor()?, reader.blob("line")?.into()),
        Tag::ActorExited => {
            let actor = reader.actor()?;
            let exit = match reader.maybe_text("reason")? {
                None => ActorExit::Done,
                Some(reason) => ActorExit::Failed(reason.into()),
            };
            Input::ActorExited(actor, exit)
        }
        Tag::ActorBlocked => Input::ActorBlocked(reader.actor()?),
        Tag::ActorReady => Input::ActorReady(reader.actor()?),
        Tag::ActorFailed => {
            let (actor, id) = (reader.actor()?, reader.text("id")?.to_owned());
            let failure = reader.one_of("failure", &Failure::ALL)?;
            let started = if reader.is_there("started")? { Started::Yes } else { Started::No };
            Input::ActorFailed(actor, id, failure, reader.text("text")?.to_owned(), started)
        }
        Tag::ActorProgress => {
            Input::ActorProgress(reader.actor()?, reader.message()?, reader.is_there("told")?)
        }
        Tag::KeepValue => Input::KeepValue {
            store: reader.text("store")?.to_owned(),
            key: reader.text("key")?.to_owned(),
            value: reader.maybe_text("value")?.map(str::to_owned),
        },
        Tag::SettingsRead => Input::SettingsRead(reader.number("ticket")?, reader.settings()?),
        Tag::ConsoleOpened => Input::ConsoleOpened(reader.number("ticket")?, reader.console()?),
        Tag::NodeTraceFetched => {
            let (ticket, is_well) = (reader.number("ticket")?, reader.is_there("trace")?);
            let text = reader.text("trace")?;
            let result = if is_well { Ok(Json::from_tape(text)) } else { Err(text.to_owned()) };
            Input::NodeTraceFetched(ticket, result)
        }
        Tag::StatsCollected => {
            Input::StatsCollected(reader.number("ticket")?, Json::from_tape(reader.text("numbers")?))
        }
        Tag::Reload => Input::Reload(reader.many(Reader::change)?),
        Tag::Restore => Input::Restore(Box::new(reader.durable()?)),
        Tag::ActorRecord => Input::ActorRecord(reader.actor()?, Box::new(reader.kept()?)),
        Tag::Flushed => Input::Flushed(reader.number("fact")?),
        Tag::StorageFull => Input::StorageFull(reader.is_there("full")?),
        Tag::StorageCongested => Input::StorageCongested(reader.is_there("congested")?),
        Tag::StorageFailed => Input::StorageFailed(reader.text("reason")?.into()),
        Tag::WriteLost => {
            let connection = reader.connection()?;
            Input::EffectLost(Box::new(Effect::Write { connection, message: reader.message()? }))
        }
        Tag::DeliverLost => {
            let actor = reader.actor()?;
            Input::EffectLost(Box::new(Effect::Deliver { actor, message: reader.message()? }))
        }
        Tag::OutsideBytes => Input::OutsideBytes(reader.size("bytes")?),
        Tag::Shutdown => Input::Shutdown(reader.text("reason")?.into()),
        Tag::Hasten => Input::Hasten,
        Tag::Turn => Input::Turn,
    })
}

impl<'a> Reader<'a> {
    fn connection(&mut self) -> Result<ConnectionId, FactError> {
        self.number("connection").map(ConnectionId)
    }

    fn actor(&mut self) -> Result<ActorRef, FactError> {
        Ok(ActorRef::new(self.small("capability")?, self.small("incarnation")?))
    }

    fn size(&mut self, field: &'static str) -> Result<usize, FactError> {
        usize::try_from(self.number(field)?).map_err(|_| self.wrong(field))
    }

    fn many<T>(&mut self, each: impl Fn(&mut Self) -> Result<T, FactError>) -> Result<Vec<T>, FactError> {
        let count = self.number("count")?;
        (0..count).map(|_| each(self)).collect()
    }

    fn message(&mut self) -> Result<Envelope, FactError> {
        let line = self.blob("message")?;
        Envelope::parse(line).map_err(|_| self.wrong("message"))
    }

    fn plan(&mut self) -> Result<BootPlan, FactError> {
        Ok(BootPlan {
            capabilities: self.many(Reader::manifest)?,
            adapters: self.many(|reader| reader.text("adapter").map(str::to_owned))?,
        })
    }

    fn done(&mut self) -> Result<Result<(), String>, FactError> {
        Ok(self.maybe_text("reason")?.map_or(Ok(()), |reason| Err(reason.to_owned())))
    }

    fn started(&mut self) -> Result<Result<String, String>, FactError> {
        let is_ok = self.is_there("result")?;
        let text = self.text("address")?.to_owned();
        Ok(if is_ok { Ok(text) } else { Err(text) })
    }

    fn draft(&mut self) -> Result<Draft, FactError> {
        let kind = self.one_of("kind", &Kind::ALL)?;
        let type_name: Text = self.text("type")?.into();
        let mut draft = Draft::new(kind, type_name, Json::from_tape(self.text("data")?));
        draft.id = self.maybe_text("id")?.map(Text::from);
        draft.causation = self.maybe_text("causation")?.map(Text::from);
        draft.correlation = self.maybe_text("correlation")?.map(Text::from);
        draft.timeout_ms = self.maybe("timeout")?;
        draft.traceparent = self.maybe_text("traceparent")?.map(Text::from);
        Ok(draft)
    }

    fn settings(&mut self) -> Result<Result<Json, SettingsRefused>, FactError> {
        let (tag, text) = (self.number("result")?, self.text("text")?);
        Ok(match tag {
            0 => Ok(Json::from_tape(text)),
            1 => Err(SettingsRefused::Nothing),
            2 => Err(SettingsRefused::Busy),
            _ => Err(SettingsRefused::Faulty(text.into())),
        })
    }

    fn console(&mut self) -> Result<Result<Json, ConsoleRefused>, FactError> {
        let (tag, text) = (self.number("result")?, self.text("text")?);
        Ok(match tag {
            0 => Ok(Json::from_tape(text)),
            1 => Err(ConsoleRefused::Nowhere(text.into())),
            _ => Err(ConsoleRefused::Stranger(text.into())),
        })
    }

    fn change(&mut self) -> Result<Change, FactError> {
        Ok(match self.number("change")? {
            0 => Change::Add(self.manifest()?),
            1 => Change::Replace(self.manifest()?),
            2 => Change::Restart(self.text("id")?.into()),
            _ => Change::Remove(self.text("id")?.into()),
        })
    }

    fn durable(&mut self) -> Result<Durable, FactError> {
        let mut durable = Durable::new(DurableBounds {
            answers_max: self.size("bounds")?,
            answer_bytes_max: self.size("bounds")?,
            events_max: self.size("bounds")?,
            event_bytes_max: self.size("bounds")?,
        });
        while self.is_there("fact")? {
            durable.apply(self.fact()?);
        }
        Ok(durable)
    }

    fn fact(&mut self) -> Result<Fact<&'a str>, FactError> {
        let (kind, version) = (self.byte("kind")?, self.byte("version")?);
        Fact::read(kind, version, self.blob("fact")?)
    }

    /// What a native actor keeps: values by key, and nothing else.
    fn kept(&mut self) -> Result<Fact, FactError> {
        match self.fact()? {
            Fact::Put { store, key, value } => {
                Ok(Fact::Put { store: store.into(), key: key.into(), value: value.into() })
            }
            Fact::Deleted { store, key } => Ok(Fact::Deleted { store: store.into(), key: key.into() }),
            _ => Err(self.wrong("fact")),
        }
    }
}
