//! What a capability says of itself.

use crate::runner::manifest;
use mainspring_message::{Kind, check_type_name};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

/// What makes the schema of a type.
pub(crate) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// What the catalogue says of a request beyond its schema. What is not said has the daemon's
/// defaults: a query is read-only, a command may be destructive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may undo or delete.
    pub destructive: Option<bool>,
    /// Done twice is done once.
    pub idempotent: Option<bool>,
    /// It reaches beyond this daemon.
    pub open_world: Option<bool>,
}

/// A request that the capability handles, or an event that it subscribes to.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    pub(crate) description: String,
    pub(crate) input: MakeSchema,
    pub(crate) output: MakeSchema,
    pub(crate) hints: Hints,
}

/// What it says without being asked, or asks others.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    pub(crate) description: String,
    pub(crate) data: MakeSchema,
}

/// A capability without its handlers: who it is, what it handles, what it says.
#[derive(Clone, Debug)]
pub struct Outline {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) handled: Vec<Handled>,
    pub(crate) said: Vec<Said>,
    pub(crate) concurrency: usize,
    pub(crate) says_anything: bool,
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Outline {
    /// A capability that handles nothing yet.
    pub fn new(id: impl Into<String>, description: impl Into<String>) -> Outline {
        Outline {
            id: id.into(),
            description: description.into(),
            handled: Vec::new(),
            said: Vec::new(),
            concurrency: 1,
            says_anything: false,
        }
    }

    /// States that it handles a command or query, or subscribes to an event.
    ///
    /// # Panics
    /// If the type is none, or has a handler already.
    pub fn handles<I: JsonSchema, O: JsonSchema>(
        &mut self,
        kind: Kind,
        type_name: &str,
        description: String,
    ) {
        check_type_name(type_name).unwrap_or_else(|reason| panic!("the type {type_name:?}: {reason}"));
        let is_known =
            self.handled.iter().any(|other| (other.kind, other.type_name.as_str()) == (kind, type_name));
        assert!(!is_known, "{type_name} has a handler already");
        let (input, output): (MakeSchema, MakeSchema) = (schema_of::<I>, schema_of::<O>);
        let (type_name, hints) = (type_name.to_owned(), Hints::default());
        self.handled.push(Handled { kind, type_name, description, input, output, hints });
    }

    /// What the catalogue says of the request that was stated last.
    pub fn hints(&mut self, hints: Hints) {
        if let Some(handled) = self.handled.last_mut() {
            handled.hints = hints;
        }
    }

    /// States an event that it tells.
    pub fn emits<T: JsonSchema>(&mut self, type_name: String, description: String) {
        self.said.push(Said { kind: Kind::Event, type_name, description, data: schema_of::<T> });
    }

    /// States a command or query that it asks others.
    pub fn asks(&mut self, kind: Kind, type_name: String) {
        let data: MakeSchema = schema_of::<crate::Anything>;
        self.said.push(Said { kind, type_name, description: String::new(), data });
    }

    /// States that it may say anything: nothing that it says is checked.
    pub fn says_anything(&mut self) {
        self.says_anything = true;
    }

    /// Sets how many requests it handles at the same time; at least one.
    pub fn set_concurrency(&mut self, requests: usize) {
        self.concurrency = requests.max(1);
    }

    /// How many requests it handles at the same time.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The manifest, as `capability.json` holds it; without the member `program`.
    #[must_use]
    pub fn manifest(&self) -> Value {
        manifest::of(self)
    }
}
