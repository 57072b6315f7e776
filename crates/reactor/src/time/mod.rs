//! Time: monotonic instants, real or virtual; timers and their interface, the table and the heap of
//! their deadlines; sleeping futures. The turn takes what is due from here; only `core` sets the
//! alarm clock.

pub(crate) mod clock;
pub(crate) mod heap;
pub(crate) mod sleep;
pub(crate) mod timer;
pub(crate) mod timers;
