//! `[[capability]]`, or a file of its own: a manifest.

use crate::config::keys::{SchemaOrPath, Table};
use mainspring_kernel::{ActorLimits, Redeliver, RetryPolicy, keys};

keys! {
    /// A manifest: a capability, what it takes, what it says, how it is kept alive, and the program behind it.
    pub(in crate::config) struct ManifestFile {
        /// The name, unique in the daemon.
        id: String;
        /// What it does, for people and language models.
        description: String;
        /// JSON Schema of the messages that it takes, or the path of a file with it (JSON or TOML). `kind` and `type` must be finite.
        inbound: SchemaOrPath;
        /// The same for the messages that it says. Absent: it may say anything.
        outbound: SchemaOrPath = SchemaOrPath;
        /// Types of events that it wants besides those that `inbound` lists.
        subscribes: Vec<String> = Vec::new();
        /// Whether it may send events and requests that no message caused.
        uncaused: bool = false;
        /// Whether its commands survive the daemon, where there is a journal.
        durable: bool = true;
        /// Whether a command that was accepted is delivered after a restart of the daemon.
        redeliver: Redeliver = Redeliver::IfNotStarted;
        /// How it is restarted. Keys that are absent are taken from `restart` of `mainspring.toml`.
        restart: Table = Table;
        /// How often a request is tried.
        retry: RetryPolicy = RetryPolicy::default();
        /// Its bounds.
        limits: ActorLimits = ActorLimits::default();
        /// The program: a table with `process`, `wasm` or `native`.
        program: Table;
    }
}
