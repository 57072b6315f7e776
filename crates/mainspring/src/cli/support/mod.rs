//! What commands share: which daemon they talk to, what they read and print, and how messages look
//! to people. A command uses these and never another command.

pub(super) mod actor_health;
pub(super) mod completion;
pub(super) mod follow;
pub(super) mod input;
pub(super) mod local_time;
pub(super) mod near;
pub(super) mod other_nodes;
pub(super) mod output;
pub(super) mod read_command;
pub(super) mod target;
pub(super) mod text;
pub(super) mod trace_tree;
pub(super) mod warnings;
