//! Futures and other threads: the executor's tasks, descriptors as futures, blocking calls on
//! threads of their own, and what other threads may touch of a loop. Tasks run at the end of a
//! turn; nothing here runs in the middle of one.

pub(crate) mod async_io;
pub(crate) mod pool;
pub(crate) mod remote;
pub(crate) mod task;
