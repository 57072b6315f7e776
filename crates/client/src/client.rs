//! The blocking client.

use crate::address::Address;
use crate::connect::{BACKOFF, Stream};
use crate::core::{Slot, WatchState, Watched, check_pattern};
use crate::driver::{Driver, EventBell};
use crate::error::{ConnectError, Error};
use crate::options::Options;
use crate::request::{Reply, Request};
use crate::shared::{Owner, Shared, block_on, block_on_until};
use mainspring_message::{Envelope, Kind};
use serde::Serialize;
use serde_json::json;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client of a daemon. Cloning gives another way to the same connection, for other threads, say.
///
/// A thread of its own reads and writes; whoever asks waits for it. Dropping the last clone closes
/// the connection, and ends what is under way.
///
/// ```no_run
/// use mainspring_client::Client;
/// use serde_json::{Value, json};
///
/// let ms = Client::connect()?;
/// ms.send("Memory.Set", &json!({ "key": "greeting", "value": "hello" }))?;
/// let found: Value = ms.query("Memory.Get", &json!({ "key": "greeting" }))?.data()?;
/// assert_eq!(found["value"], "hello");
/// # Ok::<(), mainspring_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client(Arc<Owner>);

impl Client {
    /// Connects to the daemon that [`Address::find`] finds.
    ///
    /// # Errors
    /// There is none, or it does not let us in.
    pub fn connect() -> Result<Client, Error> {
        Client::open(&Address::find()?, &Options::default())
    }

    /// Connects to a daemon.
    ///
    /// # Errors
    /// There is none, or it does not let us in.
    pub fn open(address: &Address, options: &Options) -> Result<Client, Error> {
        let stream = first_stream(address, options.wait)?;
        let bell = EventBell::new()?;
        let shared = Arc::new(Shared::new(address.token().map(str::to_owned), Box::new(bell.clone()))?);
        let driver = Driver {
            shared: Arc::clone(&shared),
            bell,
            address: address.clone(),
            reconnect: options.reconnect,
        };
        let client = Client(Arc::new(Owner(Arc::clone(&shared))));
        std::thread::Builder::new()
            .name("mainspring-client".to_owned())
            .spawn(move || driver.run(stream))
            .map_err(|error| ConnectError::System(format!("no thread for the connection: {error}")))?;
        let admission = shared.core().admission();
        block_on(poll_fn(|context| admission.poll_outcome(context)))?;
        Ok(client)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// It ended in an error, or has no outcome.
    pub fn send(&self, type_name: &str, data: &impl Serialize) -> Result<Reply, Error> {
        self.request(&Request::command(type_name, data))
    }

    /// Sends a query and waits for its reply.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn query(&self, type_name: &str, data: &impl Serialize) -> Result<Reply, Error> {
        self.request(&Request::query(type_name, data))
    }

    /// Sends an event, and returns when the daemon has taken it.
    ///
    /// # Errors
    /// The daemon refused it. With [`Error::Closed`] nobody knows whether it was taken: an event is
    /// never sent twice.
    pub fn emit(&self, type_name: &str, data: &impl Serialize) -> Result<(), Error> {
        self.request(&Request::event(type_name, data)).map(drop)
    }

    /// Sends a message with options of its own and waits for its reply.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn request(&self, request: &Request) -> Result<Reply, Error> {
        self.start(request)?.wait()
    }

    /// Sends a message, and returns at once (as soon as there is room for one more).
    ///
    /// # Errors
    /// It breaks the rules of messages, or the client is closed.
    pub fn start(&self, request: &Request) -> Result<Running, Error> {
        block_on(poll_fn(|context| self.shared().poll_room(context)));
        let slot = Slot::default();
        let number = self.shared().change(|core| match request.kind {
            Kind::Command | Kind::Query => core.request(request, slot.clone()),
            Kind::Event => core.event(request, slot.clone()),
            Kind::Reply | Kind::Error => Err(Error::Invalid("a client sends no outcomes".to_owned())),
        })?;
        Ok(Running { canceller: Canceller { shared: Arc::clone(self.shared()), number }, slot })
    }

    /// Watches events: of types, of everything below a name (`Order.*`), or all (`*`).
    ///
    /// # Errors
    /// The daemon refuses it.
    pub fn watch<S: AsRef<str>>(&self, types: impl IntoIterator<Item = S>) -> Result<Watch, Error> {
        self.watch_with(types, WATCH_EVENTS)
    }

    /// Watches events, with room for so many that are not read yet. Beyond, the oldest go, and the
    /// watch is told.
    ///
    /// # Errors
    /// The daemon refuses it.
    pub fn watch_with<S: AsRef<str>>(
        &self,
        types: impl IntoIterator<Item = S>,
        room: usize,
    ) -> Result<Watch, Error> {
        let types = types.into_iter().map(|pattern| pattern.as_ref().to_owned()).collect();
        let state = WatchState::new(types, room)?;
        let slot = Slot::default();
        self.shared().change(|core| core.subscribe(&state, slot.clone()))?;
        let watch = Watch { client: self.clone(), state };
        block_on(poll_fn(|context| slot.poll_outcome(context)))?;
        Ok(watch)
    }

    /// Gives rights of this client up for good, also on later connections: the types that it may
    /// send and watch, and to be an operator.
    ///
    /// # Errors
    /// It does not have what it wants to keep.
    pub fn restrict(&self, allow: Option<&[&str]>, operator: Option<bool>) -> Result<Reply, Error> {
        let wanted = restriction(allow, operator)?;
        let slot = Slot::default();
        self.shared().change(|core| core.restrict(wanted, slot.clone()))?;
        block_on(poll_fn(|context| slot.poll_outcome(context)))
    }

    /// Closes the connection, and ends what is under way with [`Error::Closed`].
    pub fn close(&self) {
        self.shared().change(|core| core.close(None));
    }
}

/// Room for the events of a watch that are not read yet, unless it says otherwise.
pub(crate) const WATCH_EVENTS: usize = 1024;

/// The data of `Sys.Restrict`.
pub(crate) fn restriction(
    allow: Option<&[&str]>,
    operator: Option<bool>,
) -> Result<serde_json::Value, Error> {
    let mut wanted = json!({});
    if let Some(allow) = allow {
        allow.iter().try_for_each(|pattern| check_pattern(pattern))?;
        wanted["allow"] = json!(allow);
    }
    if let Some(operator) = operator {
        wanted["operator"] = json!(operator);
    }
    Ok(wanted)
}

/// Connects, trying again for so long.
fn first_stream(address: &Address, wait: Duration) -> Result<Stream, ConnectError> {
    let until = Instant::now() + wait;
    let mut pause = BACKOFF.0;
    loop {
        match Stream::open(address) {
            Err(error) if !error.is_final() && Instant::now() + pause <= until => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(BACKOFF.1);
            }
            opened => return opened,
        }
    }
}

/// A request under way. Dropping it cancels nothing: the outcome is thrown away.
#[derive(Debug)]
pub struct Running {
    canceller: Canceller,
    slot: Slot,
}

impl Running {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// It ended in an error, or has no outcome.
    pub fn wait(self) -> Result<Reply, Error> {
        block_on(poll_fn(|context| self.slot.poll_outcome(context)))
    }

    /// Waits for the next progress that the capability tells; `None` when the outcome is there. For
    /// requests that ask for it by [`Request::progress`].
    pub fn next_progress(&mut self) -> Option<Envelope> {
        block_on(poll_fn(|context| self.slot.poll_progress(context)))
    }

    /// What cancels it, from another thread, say.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }
}

/// What cancels a request.
#[derive(Clone, Debug)]
pub struct Canceller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
}

impl Canceller {
    /// Ends the request at once with [`Error::Cancelled`], and tells the daemon. One that has its
    /// outcome keeps it.
    pub fn cancel(&self) {
        self.shared.change(|core| core.cancel(self.number));
    }
}

/// Events as they come. Dropping it ends the subscription.
///
/// As an iterator it waits for the next event or [`Gap`](crate::Gap), and ends when the client is
/// closed or the subscription is lost for good; [`Watch::error`] says why.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    state: WatchState,
}

impl Watch {
    /// The next one, if it comes in time.
    pub fn next_within(&mut self, limit: Duration) -> Option<Watched> {
        let until = Instant::now() + limit;
        block_on_until(poll_fn(|context| self.state.poll_next(context)), until).flatten()
    }

    /// Why it has ended, if something failed.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.state.error()
    }

    /// What ends it, from another thread, say.
    #[must_use]
    pub fn stopper(&self) -> WatchStopper {
        WatchStopper { client: self.client.clone(), state: self.state.clone() }
    }
}

impl Iterator for Watch {
    type Item = Watched;

    fn next(&mut self) -> Option<Watched> {
        block_on(poll_fn(|context| self.state.poll_next(context)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.client.shared().change(|core| core.unsubscribe(&self.state));
    }
}

/// What ends a watch.
#[derive(Clone, Debug)]
pub struct WatchStopper {
    client: Client,
    state: WatchState,
}

impl WatchStopper {
    /// Ends the subscription; the watch ends when what came before is read.
    pub fn stop(&self) {
        self.client.shared().change(|core| core.unsubscribe(&self.state));
    }
}
