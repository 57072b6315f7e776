//! The guest's side of Mainspring: a small async runtime for WebAssembly that waits in one place
//! only, the host's `sys/loop@v1`.
//!
//! While any task can run, it runs; when none can, the guest makes one POLL, and costs nothing
//! until something happens. There is no busy wait anywhere, and one waiting task never holds up
//! another.
//!
//! # A guest
//!
//! An ordinary program, built for `wasm32-unknown-unknown` (or `wasm32-wasip1`, if it wants files
//! as well):
//!
//! ```no_run
//! use mainspring_guest::{TcpListener, block_on, spawn};
//!
//! fn main() -> std::io::Result<()> {
//!     block_on(async {
//!         let listener = TcpListener::bind("127.0.0.1:7")?;
//!         loop {
//!             let (stream, _) = listener.accept().await?;
//!             spawn(async move {
//!                 let mut buffer = [0; 4096];
//!                 while let Ok(count @ 1..) = stream.read(&mut buffer).await {
//!                     if stream.write_all(&buffer[..count]).await.is_err() {
//!                         break;
//!                     }
//!                 }
//!             });
//!         }
//!     })
//! }
//! ```
//!
//! # What is here
//!
//! - [`block_on`], [`spawn`], [`yield_now`]: tasks, which need not be `Send`.
//! - [`sleep`], [`timeout`], [`interval`], [`Instant`]: time, on the host's monotonic clock.
//! - [`TcpStream`], [`TcpListener`]: as far as the host's allow-list goes. With the feature `tokio`
//!   or `futures-io` they have those traits, so that clients and codecs written for either run
//!   inside a guest.
//! - [`stdin`] with its lines, [`stdout`], [`stderr`], and [`println!`], which also works where
//!   `std`'s does nothing.
//! - `capability`, with the feature of that name: messages in, messages out, for capabilities of a
//!   Mainspring daemon; with the feature `typed`, handlers with types of their own.
//! - [`args`], [`vars`], [`var`], [`random_seed`], [`system_time`], [`shutdown_requested`].
//! - [`zi`] and [`Handle`]: the calls themselves, for capabilities that this crate does not know.
//!
//! # Elsewhere than in WebAssembly
//!
//! The crate compiles for every target, so that a guest's logic can be tested natively. There is no
//! host then, and every call is refused as unknown, unless a test installs a [`backend`].

mod calls;
#[cfg(feature = "capability")]
pub mod capability;
mod error;
mod io;
mod runtime;
mod system;

#[cfg(not(target_family = "wasm"))]
pub use calls::backend;
pub use calls::zi;
pub use error::io_error;
pub use io::handle::Handle;
pub use io::net::{TcpListener, TcpStream};
pub use io::stdio::{LINE_BYTES_MAX, Lines, Stderr, Stdin, Stdout, stderr, stdin, stdout};
#[doc(hidden)]
pub use io::stdio::{print_to_stderr, print_to_stdout};
pub use runtime::executor::{RUNS_PER_POLL_MAX, block_on, spawn, yield_now};
pub use runtime::join::{Aborted, JoinHandle};
pub use runtime::time::{Elapsed, Instant, Interval, Sleep, interval, sleep, sleep_until, timeout};
pub use system::clock::{random_seed, system_time};
pub use system::process::{args, shutdown_requested, var, vars};

/// The examples of the page about guests.
#[cfg(all(doctest, feature = "typed"))]
#[doc = include_str!("../../../docs/how-to/writing-a-guest.md")]
struct WritingAGuest;
