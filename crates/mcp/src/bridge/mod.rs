//! The bridge: a server of the protocol in front, a client of the daemon behind.

mod call;
mod events;
mod meta;
mod resources;
pub(crate) mod session;

use crate::catalogue::{Catalogue, Names};
use crate::error::McpError;
use crate::http::{self, HttpListener};
use events::RecentEvents;
use mainspring_client::tokio::Client;
use mainspring_client::{Address, Options, Watched};
pub(crate) use meta::is_own_tool;
use rmcp::ServiceExt;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// How many tools are listed, unless all are asked for. Beyond, a model searches, describes and
/// calls instead: long lists cost its attention.
pub(crate) const TOOLS_MAX: usize = 40;

/// What the bridge is to do.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// Where the daemon is.
    pub address: Address,
    /// Where to listen by HTTP; without, standard streams are served.
    pub http: Option<HttpListener>,
    /// Which types the model may send and see events of; empty: all that the connection may.
    pub allow: Vec<String>,
    /// Whether operators' tools are offered, and the right of an operator is kept.
    pub is_operator: bool,
    /// List every tool, however many there are.
    pub lists_all: bool,
    /// Other names for tools: by type.
    pub names: BTreeMap<String, String>,
    /// Documents that a model can read.
    pub documents: Vec<Document>,
    /// The version to tell.
    pub version: String,
}

/// A document that a model can read.
#[derive(Clone, Debug)]
pub struct Document {
    /// Under which name: `mainspring://docs/protocol`, say.
    pub uri: String,
    /// What it is about.
    pub title: String,
    /// Its media type.
    pub media_type: String,
    /// What it holds. What is not UTF-8 is given as bytes.
    pub contents: Vec<u8>,
}

/// What the sessions of a bridge share.
#[derive(Debug)]
pub(crate) struct Shared {
    client: Client,
    settings: Bridge,
    /// What all requests of this process have in common, so that `mainspring trace` shows them as
    /// one workflow.
    correlation: String,
    catalogue: RwLock<Arc<Catalogue>>,
    /// Counts the changes of the catalogue.
    changes: watch::Sender<u64>,
    events: RecentEvents,
}

impl Shared {
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether tools are searched for instead of listed.
    fn is_searched(&self) -> bool {
        !self.settings.lists_all && self.catalogue().handlers.len() > TOOLS_MAX
    }

    async fn load(&self) -> Result<(), mainspring_client::Error> {
        let names = Names(self.settings.names.clone());
        let made = Catalogue::load(&self.client, self.settings.is_operator, &names).await?;
        *self.catalogue.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
        Ok(())
    }
}

/// Connects, gives up what is not needed, and serves.
pub(crate) async fn run(settings: Bridge) -> Result<(), McpError> {
    let client = Client::open(&settings.address, &Options::default()).await?;
    let allow: Vec<&str> = settings.allow.iter().map(String::as_str).collect();
    let allow = (!allow.is_empty()).then_some(allow.as_slice());
    client.restrict(allow, (!settings.is_operator).then_some(false)).await.map_err(|error| {
        if error.code() == Some(404) { McpError::Unrestricted(error) } else { error.into() }
    })?;
    let shared = Arc::new(Shared {
        events: RecentEvents::new(client.clone()),
        client,
        correlation: correlation()?,
        settings,
        catalogue: RwLock::default(),
        changes: watch::Sender::new(0),
    });
    shared.load().await?;
    let follower = tokio::spawn(follow(Arc::clone(&shared)));
    let served = match &shared.settings.http {
        Some(listener) => http::serve(listener, Arc::clone(&shared)).await,
        None => serve_streams(Arc::clone(&shared)).await,
    };
    follower.abort();
    shared.client.close();
    served
}

fn correlation() -> Result<String, McpError> {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| McpError::System(format!("no random number: {errno}")))?;
    let mut text = "mcp-".to_owned();
    for byte in random {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

async fn serve_streams(shared: Arc<Shared>) -> Result<(), McpError> {
    let serving = session::Session::new(shared).serve(rmcp::transport::io::stdio());
    let mut signals = Signals::new()?;
    let running = tokio::select! {
        running = serving => match running {
            Ok(running) => running,
            // A client that goes before it said anything has changed its mind.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(McpError::Stream(format!("the client does not begin as the protocol says: {error}"))),
        },
        () = signals.next() => return Ok(()),
    };
    tokio::select! {
        ended = running.waiting() => ended.map(drop).map_err(|error| McpError::Stream(error.to_string())),
        () = signals.next() => Ok(()),
    }
}

/// What ends a bridge.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals, McpError> {
        use tokio::signal::unix::{SignalKind, signal};
        let taken = |kind| signal(kind).map_err(|error| McpError::System(format!("signals: {error}")));
        Ok(Signals { terminate: taken(SignalKind::terminate())?, interrupt: taken(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reads the catalogue again when capabilities come, go or change.
async fn follow(shared: Arc<Shared>) {
    const NEWS: [&str; 3] = ["Sys.CapabilityAdded", "Sys.CapabilityReloaded", "Sys.CapabilityRemoved"];
    loop {
        if let Ok(mut watch) = shared.client.watch(NEWS).await {
            while let Some(first) = watch.next().await {
                // A reload changes several at once; they are told once.
                let mut is_lost = matches!(first, Watched::Gap(_));
                while let Ok(Some(more)) = tokio::time::timeout(SETTLING, watch.next()).await {
                    is_lost |= matches!(more, Watched::Gap(_));
                }
                let before = names(&shared.catalogue());
                if shared.load().await.is_ok() && (!is_lost || names(&shared.catalogue()) != before) {
                    shared.changes.send_modify(|count| *count += 1);
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// How long capabilities may take to change together.
const SETTLING: Duration = Duration::from_millis(50);
/// How long a daemon that is gone for good is left alone before it is asked again.
const RETRY: Duration = Duration::from_secs(5);

fn names(catalogue: &Catalogue) -> Vec<String> {
    catalogue.handlers.keys().cloned().collect()
}
