//! What a guest learns about where it runs: clocks and randomness (`sys/info@v1`), arguments and
//! environment (`proc/*`), and whether the host shuts down. Questions are answered at once; only
//! the shutdown waits, through the driver of `runtime`.

pub(crate) mod clock;
pub(crate) mod process;
