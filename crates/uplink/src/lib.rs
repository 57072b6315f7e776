//! Several daemons as one bus: the protocol between nodes as a state machine.
//!
//! An [`Uplink`] stands beside one kernel. It is told what came from the network ([`Incoming`]),
//! what the kernel delivers to imported capabilities and writes to remote requesters, and what time
//! it is; it calls the kernel, and says what is to be published ([`Command`]). It reads no clock,
//! opens no socket and starts no thread, so the simulator runs many of them over a network that
//! loses, doubles and reorders. What carries the messages in the daemon is NATS.
//!
//! - `wire`: what stands on the wire.
//! - `sharing`: who is there, what each offers, and which types of others are sent away, to whom.
//! - `requests`: those that others work on, and those of others; what is remembered of them.
//! - `events`: those that are told to others, and by others.
//! - `machine`: all of it, in order.
//! - `outbox`: what is to be published, until it is asked for.
//!
//! `docs/contracts/nodes.md` is the contract, clause by clause.

mod command;
mod events;
mod machine;
mod outbox;
mod report;
mod requests;
mod settings;
mod sharing;
mod wire;

pub use command::{Command, Incoming, Notice};
pub use machine::Uplink;
pub use settings::UplinkSettings;
pub use sharing::imports::{IMPORT_PREFIX, ImportChange};
pub use sharing::nodes::Boot;
pub use sharing::partition::{key_at, place};
pub use sharing::share::{Share, content_hash};
pub use wire::names::check_name;
pub use wire::subject::{Direct, RequestSubject, Subject, Subjects};
