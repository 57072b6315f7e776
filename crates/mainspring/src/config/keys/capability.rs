//! `[[capability]]`, or a file of its own: a manifest.

use crate::config::keys::{AnyTable, SchemaOrPath};
use mainspring_kernel::{ActorLimits, Redeliver, RetryPolicy, keys};

keys! {
    /// A manifest: a capability, what it takes, what it says, how it is kept alive, and the program
    /// behind it.
    pub(in crate::config) struct ManifestFile {
        /// The name, unique in the daemon.
        id: String;
        /// What it does, for people and language models.
        description: String;
        /// JSON Schema of the messages that it takes, or the path of a file with it (JSON or TOML).
        /// `kind` and `type` must be finite.
        inbound: SchemaOrPath;
        /// The same for the messages that it says. Absent: it may say anything.
        outbound: SchemaOrPath = SchemaOrPath;
        /// Types of events that it wants besides those that `inbound` lists.
        subscribes: Vec<String> = Vec::new();
        /// What is said about each of its types besides their schemas: tables by type with `title`,
        /// `description`, `examples`, `deprecated`, `read_only`, `destructive`, `idempotent` and
        /// `open_world`.
        types: AnyTable = AnyTable;
        /// Whether it is told when a request that it works on is cancelled, by the event
        /// `Sys.RequestCancelled`.
        cancel: bool = false;
        /// Whether it may send what is for operators: shutdown, restarts, dead letters, logs.
        operator: bool = false;
        /// Whether it may send events and requests that no message caused.
        uncaused: bool = false;
        /// Whether its commands survive the daemon, where there is a journal.
        durable: bool = true;
        /// Whether its events survive the daemon, where there is a journal, for subscribers that
        /// come back by a cursor.
        durable_events: bool = false;
        /// Whether other nodes of the bus may send its commands and queries, where there is an
        /// `[uplink]`.
        share: bool = false;
        /// Types of events that are told to other nodes of the bus: exact types or `Prefix.*`.
        share_events: Vec<String> = Vec::new();
        /// A JSON pointer such as `/data/key`: of several nodes that share this capability,
        /// messages with an equal value there go to the same one.
        partition_by: Option<String> = None;
        /// Whether a command that was accepted is delivered after a restart of the daemon.
        redeliver: Redeliver = Redeliver::IfNotStarted;
        /// How it is restarted. Keys that are absent are taken from `restart` of `mainspring.toml`.
        restart: AnyTable = AnyTable;
        /// How often a request is tried.
        retry: RetryPolicy = RetryPolicy::default();
        /// Its bounds.
        limits: ActorLimits = ActorLimits::default();
        /// The program: a table with `process`, `wasm` or `native`.
        program: AnyTable;
    }
}
