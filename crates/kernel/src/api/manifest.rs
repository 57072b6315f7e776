//! What a capability says about itself.

use crate::keys::{Bytes, Millis};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A capability: what it takes, what it says, and how it is kept alive.
///
/// ```
/// use mainspring_kernel::Manifest;
///
/// let manifest: Manifest = serde_json::from_value(serde_json::json!({
///     "id": "echo",
///     "description": "Says what it hears.",
///     "inbound": { "properties": { "kind": { "const": "query" }, "type": { "const": "Echo.Say" } } },
///     "outbound": { "properties": { "kind": { "const": "reply" }, "type": { "const": "Echo.Say" } } },
/// }))?;
/// assert_eq!(manifest.limits.concurrency, 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Manifest {
    /// The name, unique in the daemon.
    pub id: String,
    /// What it does, for people and language models.
    pub description: String,
    /// JSON Schema of the messages it takes. `kind` and `type` must be finite.
    pub inbound: Value,
    /// JSON Schema of the messages it says. Absent: any reply, error, event or request may leave
    /// it.
    #[serde(default)]
    pub outbound: Option<Value>,
    /// Types of events that it wants besides those that `inbound` lists.
    #[serde(default)]
    pub subscribes: Vec<String>,
    /// What is said about each of its types besides their schemas, for people and language models.
    #[serde(default)]
    pub types: BTreeMap<String, TypeNotes>,
    /// Whether it is told when a request that it works on is cancelled, by the event
    /// `Sys.RequestCancelled`.
    #[serde(default)]
    pub cancel: bool,
    /// Whether it may send what is for operators: restarts, shutdown, dead letters, logs.
    #[serde(default)]
    pub operator: bool,
    /// Whether it may send events and requests that no message caused.
    #[serde(default)]
    pub uncaused: bool,
    /// Whether its commands survive the daemon, where there is a journal.
    #[serde(default = "yes")]
    pub durable: bool,
    /// Whether a command that was accepted is delivered after a restart of the daemon.
    #[serde(default = "if_not_started")]
    pub redeliver: Redeliver,
    /// Whether its events survive the daemon, where there is a journal, for subscribers that come
    /// back by a cursor.
    #[serde(default)]
    pub durable_events: bool,
    /// Whether its commands and queries may be sent by other nodes of the bus, where there is an
    /// uplink.
    #[serde(default)]
    pub share: bool,
    /// Types of events (`Prefix.*` too) that are told to other nodes of the bus.
    #[serde(default)]
    pub share_events: Vec<String>,
    /// Where in a message stands what decides on which of several nodes it is handled, as a JSON
    /// pointer: `/data/key`.
    #[serde(default)]
    pub partition_by: Option<String>,
    /// Whether all that it keeps is facts of its own making
    /// ([`Kernel::actor_record`](crate::Kernel::actor_record)): then nothing is recorded before its
    /// commands end. For native code alone.
    #[serde(skip)]
    pub keeps_facts: bool,
    /// How it is restarted.
    #[serde(default)]
    pub restart: RestartPolicy,
    /// How often a request is tried.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// Its bounds.
    #[serde(default)]
    pub limits: ActorLimits,
}

impl Manifest {
    /// A capability that takes what `inbound` says; everything else is as shipped.
    #[must_use]
    pub fn new(id: impl Into<String>, description: impl Into<String>, inbound: Value) -> Manifest {
        Manifest {
            id: id.into(),
            description: description.into(),
            inbound,
            outbound: None,
            subscribes: Vec::new(),
            types: BTreeMap::new(),
            cancel: false,
            operator: false,
            uncaused: false,
            durable: yes(),
            redeliver: if_not_started(),
            durable_events: false,
            share: false,
            share_events: Vec::new(),
            partition_by: None,
            keeps_facts: false,
            restart: RestartPolicy::default(),
            retry: RetryPolicy::default(),
            limits: ActorLimits::default(),
        }
    }
}

/// What is said about one type besides its schema. Whatever is left out is taken from the branch of
/// the inbound schema, or is as careful as can be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TypeNotes {
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Data that it may be sent with.
    pub examples: Vec<Value>,
    /// Whether it should not be used any more.
    pub deprecated: Option<bool>,
    /// Whether it changes nothing. A query does not, unless it says otherwise.
    pub read_only: Option<bool>,
    /// Whether it may undo or delete something.
    pub destructive: Option<bool>,
    /// Whether doing it twice is the same as doing it once.
    pub idempotent: Option<bool>,
    /// Whether it reaches beyond this daemon.
    pub open_world: Option<bool>,
}

fn yes() -> bool {
    true
}

fn if_not_started() -> Redeliver {
    Redeliver::IfNotStarted
}

crate::words! {
    /// Whether a command that an earlier run of the daemon had accepted is delivered after a
    /// restart.
    pub enum Redeliver {
        /// If no actor has seen it. One that an actor had ends in an error (502, `started: yes`)
        /// and is a dead letter.
        IfNotStarted = "if_not_started",
        /// Also if an actor had it: handling a command twice does no harm. `metadata.attempt`
        /// counts its deliveries.
        Always = "always",
        /// Not at all. One that no actor has seen ends in an error (503, `started: no`).
        Never = "never",
    }
}

crate::words! {
    /// When an actor that ended is started again.
    pub enum RestartWhen {
        /// Always.
        Always = "always",
        /// Unless it ended by itself, without fault, and with nothing in progress.
        OnFailure = "on_failure",
        /// Never: it is unhealthy from then on, until reset.
        Never = "never",
    }
}

crate::keys! {
    /// How an actor is restarted: a budget within a window, and a pause that grows.
    pub struct RestartPolicy {
        /// After which ends there is a restart.
        when: RestartWhen = RestartWhen::Always;
        /// Restarts within the window before the capability counts as unhealthy.
        max_restarts: u32 = 3;
        /// The window.
        window_ms: u64 as Millis = 60_000;
        /// The pause before the first restart; it doubles with each further one in the window.
        backoff_ms: u64 as Millis = 1000;
        /// The longest pause before a restart.
        backoff_max_ms: u64 as Millis = 30_000;
        /// How long an unhealthy capability rests before it is probed; doubles up to sixteen times
        /// this.
        probe_ms: u64 as Millis = 30_000;
    }
}

crate::keys! {
    /// How often a request is given to the capability when the actor crashes over it.
    pub struct RetryPolicy {
        /// Deliveries in all; 1 means that nothing is retried.
        attempts: u32 = 1, in 1..;
        /// The pause before the second delivery; it doubles with each further one.
        backoff_ms: u64 as Millis = 1000;
    }
}

crate::keys! {
    /// The bounds of one capability.
    pub struct ActorLimits {
        /// Commands and queries in progress at once.
        concurrency: u32 = 1, in 1..;
        /// Messages that wait in its mailbox. Beyond: a request is refused (503), an event becomes
        /// a dead letter.
        mailbox_messages: usize = 8192, in 1..;
        /// Bytes that wait in its mailbox; same policy.
        mailbox_bytes: usize as Bytes = 16 << 20, in 1..;
    }
}
