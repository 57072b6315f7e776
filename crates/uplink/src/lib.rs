//! Several daemons as one bus: the protocol between nodes as a state machine.
//!
//! An [`Uplink`] stands beside one kernel. It is told what came from the network ([`Incoming`]),
//! what the kernel delivers to imported capabilities and writes to remote requesters, and what time
//! it is; it calls the kernel, and says what is to be published ([`Command`]). It reads no clock,
//! opens no socket and starts no thread, so the simulator runs many of them over a network that
//! loses, doubles and reorders. What carries the messages in the daemon is NATS.
//!
//! - `names`, `subject`, `head`: what stands on the wire.
//! - `share`: what a node offers, and by which hash two nodes know that they mean the same.
//! - `nodes`: who is there.
//! - `imports`: which types of others are sent away, and to whom.
//! - `catalogue`: how nodes tell each other what they share.
//! - `sending`: requests of this node that others work on; `answers`: what comes back for them;
//!   `serving`: requests of others.
//! - `events`: events that are told to others, and by others; `following`: those that a journal
//!   keeps.
//! - `tracing`: what another node remembers of a request.
//! - `machine`: all of it, in order.
//!
//! `docs/contracts/nodes.md` is the contract, clause by clause.

mod answers;
mod catalogue;
mod command;
mod events;
mod following;
mod head;
mod imports;
mod machine;
mod names;
mod nodes;
mod partition;
mod report;
mod sending;
mod serving;
mod settings;
mod share;
mod subject;
mod tracing;

pub use command::{Command, Incoming, Notice};
pub use imports::{IMPORT_PREFIX, ImportChange};
pub use machine::Uplink;
pub use names::check_name;
pub use nodes::Boot;
pub use partition::{key_at, place};
pub use settings::UplinkSettings;
pub use share::{Share, content_hash};
pub use subject::{Direct, RequestSubject, Subject, Subjects};
