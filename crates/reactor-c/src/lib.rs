//! The Mainspring reactor as a C library.
//!
//! Two sets of names over one loop:
//! - `ms_reactor_*`, declared and documented in `include/mainspring_reactor.h`: everything the loop
//!   can do, without limits;
//! - `reactor_*`, declared in `include/reactor.h`: the names, types and limits of the library that
//!   the loop's callback API comes from, so that programs compiled against it link against this one
//!   unchanged ([`functions::original`]).
//!
//! [`functions`] has both; everything else is what they stand on.
//!
//! # How it stays safe
//! - **Names, not addresses.** What C holds as `ms_reactor *` is a slot and a generation in the
//!   form of a pointer ([`registry`]). It is never dereferenced, so no value a caller passes can
//!   lead to memory that is not there.
//! - **One owner.** A loop lives in a table of its own thread. Other threads find only what is
//!   `Send + Sync`.
//! - **No aliasing.** The loop is polled through a `RefCell`: a callback that polls its own loop
//!   finds it borrowed. Everything else goes through the shared [`Handle`](reactor::Handle).
//! - **Checked arguments.** Every check is in [`arguments`], and comes before anything changes.
//! - **No unwinding into C.** Every function passes through [`boundary`], which turns a panic into
//!   an error code.

pub mod arguments;
pub mod boundary;
pub mod error;
pub mod event_loop;
pub mod functions;
pub mod registry;
pub mod types;
