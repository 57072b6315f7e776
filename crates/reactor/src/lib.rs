//! One event loop with written, tested semantics: file descriptors, timers, signals, child exits,
//! wake-ups and futures, on one thread.
//!
//! # What it promises
//! - **Identity.** One watcher per descriptor, recognised by a generation number: an event for a
//!   closed and reused descriptor never reaches the wrong callback, and a forgotten duplicate can
//!   never make the loop spin.
//! - **Order.** Within a turn: descriptors, wake-ups, timers, deferred calls, tasks. Within an
//!   event: error, read, write. Among timers: by deadline, then first come first served. Never
//!   early.
//! - **Mutation.** Anything may be watched, unwatched, scheduled or cancelled from inside any
//!   callback.
//! - **Fairness.** Each part of a turn is bounded, so none starves another.
//! - **Panics** in callbacks propagate, and the loop is usable afterwards; nothing fetched is lost.
//!
//! The whole contract, clause by clause and with the test that proves each, is
//! `docs/contracts/reactor.md` in the repository.
//!
//! # Where to start
//! [`Reactor`] owns a loop and runs it. It derefs to [`Handle`], which every callback is handed,
//! and which watches ([`watch`](Handle::watch), [`watch_shared`](Handle::watch_shared),
//! [`watch_raw`](Handle::watch_raw)), schedules ([`after`](Handle::after), [`at`](Handle::at),
//! [`every`](Handle::every)), defers, spawns, and listens to signals and children. [`Remote`] and
//! [`Wakeup`] are for other threads. [`Async`] turns a descriptor into futures. [`VirtualClock`]
//! makes tests of time exact and fast.
//!
//! # Costs
//! A steady turn is one system call and allocates nothing. To set, move or cancel a timer takes
//! constant time on average, to fire one O(log n), and the kernel is told only when the earliest
//! deadline moves earlier. Watching is one system call, and watching a shared source again with the
//! same interest is none.

mod builder;
mod core;
mod error;
mod handle;
mod observe;
mod process;
mod reactor;
mod sys;
mod tasks;
mod time;
mod turn;
mod watch;

pub use builder::{Backend, Builder};
pub use error::{Error, Result};
pub use handle::Handle;
pub use observe::stall::{Stall, StallWatch};
pub use observe::stats::{SlowCallback, Stats, Timing};
pub use process::children::ChildWatcher;
pub use process::signals::{Signal, SignalEvent, SignalWatcher};
pub use reactor::Reactor;
pub use sys::threads::spawn_without_signals;
pub use tasks::async_io::Async;
pub use tasks::pool::{BLOCKING_THREADS_DEFAULT, Blocking, BlockingLane, BlockingOwner};
pub use tasks::remote::{INBOX_CALLS_MAX, Remote, Wakeup};
pub use tasks::task::{JoinError, JoinHandle};
pub use time::clock::{Instant, VirtualClock};
pub use time::sleep::{Elapsed, Sleep, Timeout};
pub use time::timer::{Tick, Timer};
pub use turn::{DEFERRED_PER_TURN_MAX, TASKS_PER_TURN_MAX, TIMERS_PER_TURN_MAX};
pub use watch::interest::{Interest, Mode, Readiness};
pub use watch::separate::{Maybe, Set, Step, Unset};
pub use watch::source::{Keep, Owned, Raw, Shared, Weakly};
pub use watch::{Event, MaybeWatch, Watch, Watcher};

/// The examples of the page about embedding.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/embedding-the-reactor.md")]
struct Embedding;

/// The example of the product's page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/products/reactor.md")]
struct Product;
