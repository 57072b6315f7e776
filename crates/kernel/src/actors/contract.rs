//! What an actor is held to: its manifest, and what was read from that.

use crate::api::manifest::Manifest;
use crate::egress::check_pattern;
use crate::flow::refusal::is_reserved;
use crate::keys::{KeyType, OutOfBounds};
use crate::schema::{Discovery, EnvelopeValidator, Validator, Violation, discover};
use hashbrown::HashMap;
use mainspring_message::{Envelope, Kind, check_type_name};

/// A capability whose schemas were read, on its way in.
#[derive(Debug)]
pub(crate) struct Candidate {
    inbound: Discovery,
    contract: Contract,
}

/// What an incarnation of an actor is held to.
#[derive(Debug)]
pub(crate) struct Contract {
    pub(super) manifest: Manifest,
    /// The kinds and types of `inbound`, as they are named on the wire.
    pub(super) handles: Vec<(Kind, String)>,
    pub(super) outbound: Outbound,
}

impl Candidate {
    /// Reads the schemas of a manifest.
    pub(crate) fn discover(manifest: Manifest) -> Result<Candidate, String> {
        let inbound = discover(&manifest.inbound)
            .map_err(|error| format!("the inbound schema of {}: {error}", manifest.id))?;
        let outbound = read_outbound(&manifest)?;
        let handles = inbound.iter().map(|pair| (pair.kind, pair.type_name.clone())).collect();
        Ok(Candidate { inbound, contract: Contract { manifest, handles, outbound } })
    }

    /// The capability's name.
    pub(crate) fn id(&self) -> &str {
        &self.contract.manifest.id
    }

    /// What it takes.
    pub(crate) fn inbound(&self) -> &Discovery {
        &self.inbound
    }

    pub(crate) fn into_contract(self) -> (Discovery, Contract) {
        (self.inbound, self.contract)
    }
}

impl Contract {
    /// Types of events that it wants besides those that it lists.
    pub(crate) fn subscribes(&self) -> &[String] {
        &self.manifest.subscribes
    }
}

/// Checks what a manifest says, but for its schemas.
pub(crate) fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    let id = &manifest.id;
    let wrong = |what: &str| Err(format!("the manifest of {id:?}: {what}"));
    if id.is_empty() || id.len() > 128 || id.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return wrong("id must be 1 to 128 characters without spaces");
    }
    if manifest.description.trim().is_empty() {
        return wrong("description must say what the capability does");
    }
    for event in &manifest.subscribes {
        if let Err(reason) = check_type_name(event) {
            return wrong(&format!("subscribes: {event:?}: {reason}"));
        }
    }
    for pattern in &manifest.share_events {
        if let Err(reason) = check_pattern(pattern) {
            return wrong(&format!("share_events: {pattern:?}: {reason}"));
        }
        if is_reserved(pattern) || pattern == "*" {
            return wrong(&format!("share_events: {pattern:?} reaches types that are the kernel's own"));
        }
    }
    if let Some(pointer) = &manifest.partition_by
        && !pointer.starts_with("/data")
    {
        return wrong("partition_by: must be a JSON pointer into the data, such as \"/data/key\"");
    }
    for (table, found) in [
        ("limits", manifest.limits.out_of_bounds()),
        ("restart", manifest.restart.out_of_bounds()),
        ("retry", manifest.retry.out_of_bounds()),
    ] {
        if let Some(OutOfBounds { key, message }) = found.first() {
            return wrong(&format!("{table}.{key} {message}"));
        }
    }
    Ok(())
}

fn read_outbound(manifest: &Manifest) -> Result<Outbound, String> {
    let Some(schema) = &manifest.outbound else { return Ok(Outbound::Anything) };
    if let Ok(pairs) = discover(schema) {
        let pairs = pairs
            .into_iter()
            .map(|pair| ((pair.kind, pair.type_name.into()), OutboundPair::new(pair.validator)));
        return Ok(Outbound::Pairs(pairs.collect()));
    }
    let whole = EnvelopeValidator::new(schema)
        .map_err(|error| format!("the outbound schema of {}: {error}", manifest.id))?;
    Ok(Outbound::Whole(Box::new(whole)))
}

/// What may leave an actor.
#[derive(Debug)]
pub(super) enum Outbound {
    /// Anything.
    Anything,
    /// These pairs.
    Pairs(HashMap<(Kind, Box<str>), OutboundPair, foldhash::fast::FixedState>),
    /// Whatever a schema admits that does not come down to pairs.
    Whole(Box<EnvelopeValidator>),
}

/// The longest data that are kept in case they are said again, in bytes.
const ACCEPTED_BYTES_MAX: usize = 64;

/// What is asked of messages of one kind and type.
#[derive(Debug)]
pub(super) struct OutboundPair {
    validator: Validator,
    /// The short data that were accepted last; nothing before. Many replies say the same every
    /// time, and whether that is allowed does not change.
    accepted: String,
}

impl OutboundPair {
    fn new(validator: Validator) -> OutboundPair {
        OutboundPair { validator, accepted: String::new() }
    }

    fn check(&mut self, message: &Envelope) -> Result<(), Violation> {
        let data = message.data();
        if data == self.accepted {
            return Ok(());
        }
        self.validator.check(data, message.metadata())?;
        if data.len() <= ACCEPTED_BYTES_MAX && !self.validator.needs_metadata() {
            self.accepted.clear();
            self.accepted.push_str(data);
        }
        Ok(())
    }
}

impl Outbound {
    /// Whether a message's data decides if its kind and type may leave.
    pub(super) fn needs_data(&self) -> bool {
        matches!(self, Outbound::Whole(_))
    }

    /// Checks the kind and type of a message that has no data yet.
    pub(super) fn check_pair(&self, kind: Kind, type_name: &str) -> Result<(), Violation> {
        match self {
            Outbound::Pairs(pairs) if pairs.contains_key(&PairRef(kind, type_name)) => Ok(()),
            Outbound::Pairs(_) => Err(not_in_schema(kind, type_name)),
            Outbound::Anything | Outbound::Whole(_) => check_type_name(type_name)
                .map_err(|reason| Violation { path: "type".into(), reason: reason.into() }),
        }
    }

    /// Checks a message against the outbound schema.
    ///
    /// An error needs no place in the schema: any request may fail. It must then be `{code,
    /// message}`.
    pub(super) fn check(&mut self, message: &Envelope) -> Result<(), Violation> {
        match self {
            Outbound::Anything if message.kind() == Kind::Error => check_error(message),
            Outbound::Anything => Ok(()),
            Outbound::Pairs(pairs) => match pairs.get_mut(&PairRef(message.kind(), message.type_name())) {
                Some(pair) => pair.check(message),
                None if message.kind() == Kind::Error => check_error(message),
                None => Err(not_in_schema(message.kind(), message.type_name())),
            },
            Outbound::Whole(validator) => {
                let (kind, type_name) = (message.kind().as_str(), message.type_name());
                match validator.check(kind, type_name, message.data(), message.metadata()) {
                    Err(_) if message.kind() == Kind::Error => check_error(message),
                    verdict => verdict,
                }
            }
        }
    }
}

fn not_in_schema(kind: Kind, type_name: &str) -> Violation {
    let reason = format!("{kind} {type_name} is not in the capability's outbound schema");
    Violation { path: "type".into(), reason }
}

#[derive(serde::Deserialize)]
struct ErrorShape<'a> {
    code: u16,
    #[serde(borrow, rename = "message")]
    _message: std::borrow::Cow<'a, str>,
}

fn check_error(message: &Envelope) -> Result<(), Violation> {
    let fault = |reason: String| Violation { path: "data".into(), reason };
    let shape: ErrorShape<'_> = message.data_as().map_err(|_| {
        fault("an error's data must be an object with code (400 to 599) and message (text)".to_owned())
    })?;
    if (400..600).contains(&shape.code) {
        return Ok(());
    }
    Err(Violation { path: "data/code".into(), reason: format!("must be 400 to 599, not {}", shape.code) })
}

/// A borrowed key of [`Outbound::Pairs`].
struct PairRef<'a>(Kind, &'a str);

impl std::hash::Hash for PairRef<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
    }
}

impl hashbrown::Equivalent<(Kind, Box<str>)> for PairRef<'_> {
    fn equivalent(&self, key: &(Kind, Box<str>)) -> bool {
        self.0 == key.0 && self.1 == &*key.1
    }
}
