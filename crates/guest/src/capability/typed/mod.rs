//! Typed handlers: the shape of `mainspring-capability`, with handlers that wait as guests do.

mod context;
mod run;

pub use context::Context;
pub use mainspring_capability::{
    Anything, Ask, AskError, Empty, Failure, Hints, Reply, Started, Stopped, schemars,
};

use crate::{args, block_on, eprintln};
use mainspring_capability::runner::Outline;
use mainspring_message::{Envelope, Json, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::pin::Pin;
use std::process::ExitCode;
use std::rc::Rc;

type Answering = Pin<Box<dyn Future<Output = Result<Json, Failure>>>>;
/// What runs for a request or event. An event's answer is thrown away.
type HandleRequest = Rc<dyn Fn(Context) -> Answering>;
type Handlers = HashMap<(Kind, String), HandleRequest>;

/// A capability: who it is, what it handles, what it says. The same as `Capability` of the crate
/// `mainspring-capability`, but a handler is a future: while it waits, others run.
///
/// ```no_run
/// use mainspring_guest::capability::schemars::{self, JsonSchema};
/// use mainspring_guest::capability::{Capability, Context, Failure};
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
///
/// /// A note to keep.
/// #[derive(Deserialize, JsonSchema)]
/// struct Note {
///     text: String,
/// }
///
/// #[derive(Serialize, JsonSchema)]
/// struct Kept {
///     words: usize,
/// }
///
/// async fn add(note: Note, context: Context) -> Result<Kept, Failure> {
///     if note.text.trim().is_empty() {
///         return Err(Failure::new(422, "a note has a text"));
///     }
///     context.sleep(Duration::from_millis(10)).await?;
///     let kept = Kept { words: note.text.split_whitespace().count() };
///     context.emit("Notes.Added", &kept).await?;
///     Ok(kept)
/// }
///
/// fn main() -> std::process::ExitCode {
///     Capability::new("notes", "Keeps notes.")
///         .emits::<Kept>("Notes.Added", "A note was added.")
///         .command("Notes.Add", "Keeps a note.", add)
///         .run()
/// }
/// ```
#[must_use = "a capability does nothing until it runs"]
#[derive(Clone)]
pub struct Capability {
    outline: Outline,
    handlers: Handlers,
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
    pub fn command<I, O, F>(
        self,
        type_name: impl Into<String>,
        description: impl Into<String>,
        handler: impl Fn(I, Context) -> F + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: Serialize + JsonSchema,
        F: Future<Output = Result<O, Failure>> + 'static,
    {
        self.request(Kind::Command, type_name.into(), description.into(), handler)
    }

    /// Handles a query.
    ///
    /// # Panics
    /// As [`Capability::command`].
    pub fn query<I, O, F>(
        self,
        type_name: impl Into<String>,
        description: impl Into<String>,
        handler: impl Fn(I, Context) -> F + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: Serialize + JsonSchema,
        F: Future<Output = Result<O, Failure>> + 'static,
    {
        self.request(Kind::Query, type_name.into(), description.into(), handler)
    }

    fn request<I, O, F>(
        mut self,
        kind: Kind,
        type_name: String,
        description: String,
        handler: impl Fn(I, Context) -> F + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: Serialize + JsonSchema,
        F: Future<Output = Result<O, Failure>> + 'static,
    {
        self.outline.handles::<I, O>(kind, &type_name, description);
        let handle: HandleRequest = Rc::new(move |context| {
            let working = read(context.message()).map(|data| handler(data, context));
            Box::pin(async move {
                let output = working?.await?;
                Json::from_value(&output).map_err(|error| {
                    Failure::fault(format_args!("the answer cannot be written as JSON: {error}"))
                })
            })
        });
        self.handlers.insert((kind, type_name), handle);
        self
    }

    /// Subscribes to an event.
    ///
    /// # Panics
    /// As [`Capability::command`].
    pub fn on<I, F>(
        mut self,
        type_name: impl Into<String>,
        handler: impl Fn(I, Context) -> F + 'static,
    ) -> Capability
    where
        I: DeserializeOwned + JsonSchema + 'static,
        F: Future<Output = Result<(), Failure>> + 'static,
    {
        let type_name = type_name.into();
        self.outline.handles::<I, ()>(Kind::Event, &type_name, String::new());
        let handle: HandleRequest = Rc::new(move |context| {
            let working = read(context.message()).map(|data| handler(data, context));
            Box::pin(async move { working?.await.map(|()| Json::null()) })
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

    /// Handles so many requests at the same time, each as a task of its own: the daemon gives no
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
    /// `--manifest` prints the manifest instead.
    #[must_use = "the exit code says whether it ended well"]
    pub fn run(self) -> ExitCode {
        if first_argument().is_some_and(|argument| argument == "--manifest") {
            print_line(&format!("{:#}", self.manifest()));
            return ExitCode::SUCCESS;
        }
        match block_on(run::run(self)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the standard streams failed: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// The first argument: of the guest, or of the process where there is no host.
fn first_argument() -> Option<String> {
    match args() {
        Ok(arguments) => arguments.into_iter().nth(1),
        Err(_) => std::env::args().nth(1),
    }
}

fn print_line(text: &str) {
    if cfg!(target_family = "wasm") { crate::println!("{text}") } else { std::println!("{text}") }
}
