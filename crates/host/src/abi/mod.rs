//! The wall between a guest and the host: the `zi_*` calls, guest memory in checked ranges, and
//! errors as guests see them. Guests reach everything else through here. Nothing here knows what a
//! capability does, but for `sys/loop`: a write to it suspends the guest at a `POLL`.

pub(crate) mod ctl;
pub(crate) mod errno;
pub(crate) mod heap;
pub(crate) mod imports;
pub(crate) mod memory;
