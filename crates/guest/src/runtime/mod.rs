//! Tasks and time: the executor, the driver that turns all waiting into one POLL of `sys/loop@v1`,
//! timers and join handles. `io` and `system` wait through the driver; nobody else opens a loop
//! handle.

pub(crate) mod driver;
pub(crate) mod executor;
pub(crate) mod join;
pub(crate) mod panic_hook;
pub(crate) mod time;
