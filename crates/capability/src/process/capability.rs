//! A capability, as its author states it.

use crate::Hints;
use crate::failure::Failure;
use crate::process;
use crate::process::context::Context;
use crate::runner::Outline;
use mainspring_message::{Envelope, Json, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

/// What runs for a request or event. An event's answer is thrown away.
pub(crate) type Handle = Arc<dyn Fn(&Envelope, &Context<'_>) -> Result<Json, Failure> + Send + Sync>;
/// Handlers, by the messages that they are for.
pub(crate) type Handlers = HashMap<(Kind, String), Handle>;

/// A capability: who it is, what it handles, what it says. See the crate's own documentation.
#[must_use = "a capability does nothing until it runs"]
#[derive(Clone)]
pub struct Capability {
    pub(crate) outline: Outline,
    pub(crate) handlers: Handlers,
}

impl std::fmt::Debug for Capability {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Capability({})", self.outline.id())
    }
}

fn read<I: DeserializeOwned>(message: &Envelope) -> Result<I, Failure> {
    message.data_as::<I>().map_err(|error| Failure::new(422, format!("data: {error}")))
}

impl Capability {
    /// A capability that handles nothing yet.
    pub fn new(id: impl Into<String>, description: impl Into<String>) -> Capability {
        Capability { outline: Outline::new(id, description), handlers: Handlers::new() }
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
        mut self,
        kind: Kind,
        type_name: String,
        description: String,
        handler: impl Fn(I, &Context<'_>) -> Result<O, Failure> + Send + Sync + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
    {
        self.outline.handles::<I, O>(kind, &type_name, description);
        let handle: Handle = Arc::new(move |message, context| {
            let output = handler(read(message)?, context)?;
            Json::from_value(&output).map_err(|error| {
                Failure::fault(format_args!("the answer cannot be written as JSON: {error}"))
            })
        });
        self.handlers.insert((kind, type_name), handle);
        self
    }

    /// Subscribes to an event.
    ///
    /// # Panics
    /// As [`Capability::command`].
    pub fn on<I: DeserializeOwned + JsonSchema>(
        mut self,
        type_name: impl Into<String>,
        handler: impl Fn(I, &Context<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Capability {
        let type_name = type_name.into();
        self.outline.handles::<I, ()>(Kind::Event, &type_name, String::new());
        let handle: Handle = Arc::new(move |message, context| {
            handler(read(message)?, context)?;
            Ok(Json::null())
        });
        self.handlers.insert((Kind::Event, type_name), handle);
        self
    }

    /// What the catalogue says of the request that was added last.
    pub fn hints(mut self, hints: Hints) -> Capability {
        self.outline.hints(hints);
        self
    }

    /// States an event that the capability tells.
    pub fn emits<T: JsonSchema>(
        mut self,
        type_name: impl Into<String>,
        description: impl Into<String>,
    ) -> Capability {
        self.outline.emits::<T>(type_name.into(), description.into());
        self
    }

    /// States a command or query that the capability asks others.
    pub fn asks(mut self, kind: Kind, type_name: impl Into<String>) -> Capability {
        self.outline.asks(kind, type_name.into());
        self
    }

    /// May say anything: the manifest has no outbound schema, so nothing it says is checked.
    pub fn says_anything(mut self) -> Capability {
        self.outline.says_anything();
        self
    }

    /// Handles so many requests at the same time, each on a thread of its own: the daemon gives no
    /// more than the manifest says.
    pub fn concurrency(mut self, requests: usize) -> Capability {
        self.outline.set_concurrency(requests);
        self
    }

    /// The manifest, as `capability.json` holds it; without the member `program`.
    #[must_use]
    pub fn manifest(&self) -> serde_json::Value {
        self.outline.manifest()
    }

    /// Runs the capability on the standard streams until its input ends. With the argument
    /// `--manifest` prints the manifest instead, with the program as it was called.
    #[must_use = "the exit code says whether it ended well"]
    pub fn run(self) -> ExitCode {
        let mut words = std::env::args_os();
        let program = words.next().unwrap_or_default();
        if words.next().is_some_and(|argument| argument == "--manifest") {
            let mut manifest = self.manifest();
            // As it was called: whoever writes the manifest is in its folder.
            manifest["program"] = serde_json::json!({ "process": [program.to_string_lossy()] });
            println!("{manifest:#}");
            return ExitCode::SUCCESS;
        }
        match process::run(self) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the standard streams failed: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
