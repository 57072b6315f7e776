//! The same client on tokio: every wait is a future.
//!
//! ```no_run
//! use mainspring_client::tokio::Client;
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), mainspring_client::Error> {
//! let ms = Client::connect().await?;
//! ms.send("Memory.Set", &json!({ "key": "a", "value": 1 })).await?;
//! let mut watch = ms.watch(["Order.*"]).await?;
//! while let Some(watched) = watch.next().await {
//!     println!("{watched:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A task of the runtime that opened it reads and writes; it needs a runtime with time and input
//! and output enabled. Futures may be dropped at any time: one of [`Client::request`] that is
//! dropped cancels its request.

mod driver;

use crate::address::Address;
use crate::client::{Canceller, WATCH_EVENTS, restriction};
use crate::connect::{BACKOFF, Stream};
use crate::core::{Slot, WatchState, Watched};
use crate::error::{ConnectError, Error};
use crate::options::Options;
use crate::request::{Reply, Request};
use crate::shared::{Owner, Shared};
use driver::{Driver, NotifyBell};
use mainspring_message::{Envelope, Kind};
use serde::Serialize;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

/// A client of a daemon. Cloning gives another way to the same connection.
#[derive(Clone, Debug)]
pub struct Client(Arc<Owner>);

impl Client {
    /// Connects to the daemon that [`Address::find`] finds.
    ///
    /// # Errors
    /// There is none, or it does not let us in.
    pub async fn connect() -> Result<Client, Error> {
        Client::open(&Address::find()?, &Options::default()).await
    }

    /// Connects to a daemon.
    ///
    /// # Errors
    /// There is none, or it does not let us in.
    pub async fn open(address: &Address, options: &Options) -> Result<Client, Error> {
        let stream = first_stream(address, options).await?;
        let bell = NotifyBell::default();
        let shared = Arc::new(Shared::new(address.token().map(str::to_owned), Box::new(bell.clone()))?);
        let driver = Driver {
            shared: Arc::clone(&shared),
            bell,
            address: address.clone(),
            reconnect: options.reconnect,
        };
        let client = Client(Arc::new(Owner(Arc::clone(&shared))));
        ::tokio::spawn(driver.run(stream));
        let admission = shared.core().admission();
        poll_fn(|context| admission.poll_outcome(context)).await?;
        Ok(client)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// It ended in an error, or has no outcome.
    pub async fn send(&self, type_name: &str, data: &impl Serialize) -> Result<Reply, Error> {
        self.request(&Request::command(type_name, data)).await
    }

    /// Sends a query and waits for its reply.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn query(&self, type_name: &str, data: &impl Serialize) -> Result<Reply, Error> {
        self.request(&Request::query(type_name, data)).await
    }

    /// Sends an event, and returns when the daemon has taken it.
    ///
    /// # Errors
    /// The daemon refused it. With [`Error::Closed`] nobody knows whether it was taken: an event is
    /// never sent twice.
    pub async fn emit(&self, type_name: &str, data: &impl Serialize) -> Result<(), Error> {
        self.request(&Request::event(type_name, data)).await.map(drop)
    }

    /// Sends a message with options of its own and waits for its reply.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn request(&self, request: &Request) -> Result<Reply, Error> {
        self.start(request).await?.wait().await
    }

    /// Sends a message, and returns when it is on its way.
    ///
    /// # Errors
    /// It breaks the rules of messages, or the client is closed.
    pub async fn start(&self, request: &Request) -> Result<Running, Error> {
        poll_fn(|context| self.shared().poll_room(context)).await;
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
    pub async fn watch<S: AsRef<str>>(&self, types: impl IntoIterator<Item = S>) -> Result<Watch, Error> {
        self.watch_with(types, WATCH_EVENTS).await
    }

    /// Watches events, with room for so many that are not read yet. Beyond, the oldest go, and the
    /// watch is told.
    ///
    /// # Errors
    /// The daemon refuses it.
    pub async fn watch_with<S: AsRef<str>>(
        &self,
        types: impl IntoIterator<Item = S>,
        room: usize,
    ) -> Result<Watch, Error> {
        let types = types.into_iter().map(|pattern| pattern.as_ref().to_owned()).collect();
        let state = WatchState::new(types, room)?;
        let slot = Slot::default();
        self.shared().change(|core| core.subscribe(&state, slot.clone()))?;
        let watch = Watch { client: self.clone(), state };
        poll_fn(|context| slot.poll_outcome(context)).await?;
        Ok(watch)
    }

    /// Gives rights of this client up for good, also on later connections.
    ///
    /// # Errors
    /// It does not have what it wants to keep.
    pub async fn restrict(&self, allow: Option<&[&str]>, operator: Option<bool>) -> Result<Reply, Error> {
        let wanted = restriction(allow, operator)?;
        let slot = Slot::default();
        self.shared().change(|core| core.restrict(wanted, slot.clone()))?;
        poll_fn(|context| slot.poll_outcome(context)).await
    }

    /// Closes the connection, and ends what is under way with [`Error::Closed`].
    pub fn close(&self) {
        self.shared().change(|core| core.close(None));
    }
}

/// Connects, trying again for as long as the options say.
async fn first_stream(address: &Address, options: &Options) -> Result<Stream, ConnectError> {
    let until = Instant::now() + options.wait;
    let mut pause = BACKOFF.0;
    loop {
        match Stream::open(address) {
            Err(error) if !error.is_final() && Instant::now() + pause <= until => {
                ::tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
            opened => return opened,
        }
    }
}

/// A request under way. Dropping it cancels the request.
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
    pub async fn wait(self) -> Result<Reply, Error> {
        poll_fn(|context| self.slot.poll_outcome(context)).await
    }

    /// Waits for the next progress that the capability tells; `None` when the outcome is there. For
    /// requests that ask for it by [`Request::progress`].
    pub async fn next_progress(&mut self) -> Option<Envelope> {
        poll_fn(|context| self.slot.poll_progress(context)).await
    }

    /// What cancels it.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has its outcome is not there any more.
        self.canceller.cancel();
    }
}

/// Events as they come. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    state: WatchState,
}

impl Watch {
    /// Waits for the next event or [`Gap`](crate::Gap). `None`: the client was closed, or the
    /// subscription is lost for good.
    pub async fn next(&mut self) -> Option<Watched> {
        poll_fn(|context| self.state.poll_next(context)).await
    }

    /// Why it has ended, if something failed.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.state.error()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.client.shared().change(|core| core.unsubscribe(&self.state));
    }
}
