//! A capability, as its author states it.

use crate::context::Context;
use crate::failure::Failure;
use crate::{manifest, run};
use mainspring_message::{Envelope, Json, Kind, check_type_name};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::process::ExitCode;
use std::sync::Arc;

/// What runs for a request or event. An event's answer is thrown away.
pub(crate) type Handle = Arc<dyn Fn(&Envelope, &Context<'_>) -> Result<Json, Failure> + Send + Sync>;
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
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    pub(crate) description: String,
    pub(crate) input: MakeSchema,
    pub(crate) output: MakeSchema,
    pub(crate) hints: Hints,
    pub(crate) handle: Handle,
}

/// What it says without being asked, or asks others.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    pub(crate) description: String,
    pub(crate) data: MakeSchema,
}

/// A capability: who it is, what it handles, what it says. See the crate's own documentation.
#[must_use = "a capability does nothing until it runs"]
#[derive(Clone)]
pub struct Capability {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) said: Vec<Said>,
    pub(crate) concurrency: usize,
    pub(crate) says_anything: bool,
}

impl std::fmt::Debug for Capability {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Capability({})", self.id)
    }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Capability {
    /// A capability that handles nothing yet.
    pub fn new(id: impl Into<String>, description: impl Into<String>) -> Capability {
        Capability {
            id: id.into(),
            description: description.into(),
            handlers: Vec::new(),
            said: Vec::new(),
            concurrency: 1,
            says_anything: false,
        }
    }

    /// Handles a command. Data that does not fit `I` never reaches the handler.
    ///
    /// # Panics
    /// If the type is none, or has a handler already.
    pub fn command<I, O>(
        self,
        type_name: impl Into<String>,
        description: impl Into<String>,
        handler: impl Fn(I, &Context<'_>) -> Result<O, Failure> + Send + Sync + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
    {
        self.request(Kind::Command, type_name.into(), description.into(), handler)
    }

    /// Handles a query.
    ///
    /// # Panics
    /// As [`Capability::command`].
    pub fn query<I, O>(
        self,
        type_name: impl Into<String>,
        description: impl Into<String>,
        handler: impl Fn(I, &Context<'_>) -> Result<O, Failure> + Send + Sync + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
    {
        self.request(Kind::Query, type_name.into(), description.into(), handler)
    }

    fn request<I, O>(
        self,
        kind: Kind,
        type_name: String,
        description: String,
        handler: impl Fn(I, &Context<'_>) -> Result<O, Failure> + Send + Sync + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
    {
        let handle: Handle = Arc::new(move |message, context| {
            let input =
                message.data_as::<I>().map_err(|error| Failure::new(422, format!("data: {error}")))?;
            let output = handler(input, context)?;
            Json::from_value(&output).map_err(|error| {
                Failure::fault(format_args!("the answer cannot be written as JSON: {error}"))
            })
        });
        let (input, output): (MakeSchema, MakeSchema) = (schema_of::<I>, schema_of::<O>);
        self.add(Handler { kind, type_name, description, input, output, hints: Hints::default(), handle })
    }

    /// Subscribes to an event.
    ///
    /// # Panics
    /// As [`Capability::command`].
    pub fn on<I: DeserializeOwned + JsonSchema>(
        self,
        type_name: impl Into<String>,
        handler: impl Fn(I, &Context<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Capability {
        let handle: Handle = Arc::new(move |message, context| {
            let data = message.data_as::<I>().map_err(|error| Failure::new(422, format!("data: {error}")))?;
            handler(data, context)?;
            Ok(Json::null())
        });
        let (input, output): (MakeSchema, MakeSchema) = (schema_of::<I>, schema_of::<()>);
        self.add(Handler {
            kind: Kind::Event,
            type_name: type_name.into(),
            description: String::new(),
            input,
            output,
            hints: Hints::default(),
            handle,
        })
    }

    fn add(mut self, handler: Handler) -> Capability {
        let name = &handler.type_name;
        check_type_name(name).unwrap_or_else(|reason| panic!("the type {name:?}: {reason}"));
        let is_known =
            self.handlers.iter().any(|other| (other.kind, &other.type_name) == (handler.kind, name));
        assert!(!is_known, "{name} has a handler already");
        self.handlers.push(handler);
        self
    }

    /// What the catalogue says of the request that was added last.
    pub fn hints(mut self, hints: Hints) -> Capability {
        if let Some(handler) = self.handlers.last_mut() {
            handler.hints = hints;
        }
        self
    }

    /// States an event that the capability tells.
    pub fn emits<T: JsonSchema>(
        mut self,
        type_name: impl Into<String>,
        description: impl Into<String>,
    ) -> Capability {
        let (type_name, description) = (type_name.into(), description.into());
        self.said.push(Said { kind: Kind::Event, type_name, description, data: schema_of::<T> });
        self
    }

    /// States a command or query that the capability asks others.
    pub fn asks(mut self, kind: Kind, type_name: impl Into<String>) -> Capability {
        let data: MakeSchema = schema_of::<crate::Anything>;
        self.said.push(Said { kind, type_name: type_name.into(), description: String::new(), data });
        self
    }

    /// May say anything: the manifest has no outbound schema, so nothing it says is checked.
    pub fn says_anything(mut self) -> Capability {
        self.says_anything = true;
        self
    }

    /// Handles so many requests at the same time, each on a thread of its own: the daemon gives no
    /// more than the manifest says.
    pub fn concurrency(mut self, requests: usize) -> Capability {
        self.concurrency = requests.max(1);
        self
    }

    /// The manifest, as `capability.json` holds it; without the member `program`.
    #[must_use]
    pub fn manifest(&self) -> serde_json::Value {
        manifest::of(self)
    }

    /// Runs the capability on the standard streams until its input ends. With the argument
    /// `--manifest` prints the manifest instead.
    #[must_use = "the exit code says whether it ended well"]
    pub fn run(self) -> ExitCode {
        if std::env::args_os().nth(1).is_some_and(|argument| argument == "--manifest") {
            println!("{:#}", self.manifest());
            return ExitCode::SUCCESS;
        }
        match run::run(self) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the standard streams failed: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
