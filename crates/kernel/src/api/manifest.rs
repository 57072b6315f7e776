//! What a capability says about itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// The name, unique in the loop.
    pub id: String,
    /// What it does, for people and language models.
    pub description: String,
    /// JSON Schema of the messages it takes. `kind` and `type` must be finite.
    pub inbound: Value,
    /// JSON Schema of the messages it says. Absent: any reply, error, event or request may leave it.
    #[serde(default)]
    pub outbound: Option<Value>,
    /// Types of events that it wants besides those that `inbound` lists.
    #[serde(default)]
    pub subscribes: Vec<String>,
    /// Whether it may send events and requests that no message caused.
    #[serde(default)]
    pub uncaused: bool,
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

/// When an actor that ended is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestartWhen {
    /// Always.
    #[default]
    Always,
    /// Unless it ended by itself, without fault, and with nothing in its hands.
    OnFailure,
    /// Never: it is unhealthy from then on, until reset.
    Never,
}

/// How an actor is restarted: a budget within a window, and a pause that grows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RestartPolicy {
    /// After which ends there is a restart.
    pub when: RestartWhen,
    /// Restarts within the window before the capability counts as unhealthy.
    pub max_restarts: u32,
    /// The window.
    pub window_ms: u64,
    /// The pause before the first restart; it doubles with each further one in the window.
    pub backoff_ms: u64,
    /// The longest pause before a restart.
    pub backoff_max_ms: u64,
    /// How long an unhealthy capability rests before it is probed; doubles up to sixteen times this.
    pub probe_ms: u64,
}

impl Default for RestartPolicy {
    fn default() -> RestartPolicy {
        RestartPolicy {
            when: RestartWhen::Always,
            max_restarts: 3,
            window_ms: 60_000,
            backoff_ms: 1000,
            backoff_max_ms: 30_000,
            probe_ms: 30_000,
        }
    }
}

/// How often a request is given to the capability when the actor crashes over it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Deliveries in all; 1 means that nothing is retried.
    pub attempts: u32,
    /// The pause before the second delivery; it doubles with each further one.
    pub backoff_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { attempts: 1, backoff_ms: 1000 }
    }
}

/// The bounds of one capability.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ActorLimits {
    /// Commands and queries in its hands at once.
    pub concurrency: u32,
    /// Messages that wait in its mailbox. Beyond: a request is refused (503), an event becomes a dead letter.
    pub mailbox_messages: usize,
    /// Bytes that wait in its mailbox; same policy.
    pub mailbox_bytes: usize,
}

impl Default for ActorLimits {
    fn default() -> ActorLimits {
        ActorLimits { concurrency: 1, mailbox_messages: 8192, mailbox_bytes: 16 << 20 }
    }
}
