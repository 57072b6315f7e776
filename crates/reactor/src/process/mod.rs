//! The process's own events: signals, the ends of children, and what becomes of a loop across a
//! fork. Their system calls are in `sys`; the state of a loop that they change is in `core`.

pub(crate) mod children;
pub(crate) mod fork;
pub(crate) mod signals;
