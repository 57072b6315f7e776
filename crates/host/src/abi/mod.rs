//! The wall between a guest and the host: the `zi_*` calls, guest memory in checked ranges, and
//! errors as guests see them. Guests reach everything else through here; nothing here knows what a
//! capability does.

pub(crate) mod ctl;
pub(crate) mod errno;
pub(crate) mod heap;
pub(crate) mod imports;
pub(crate) mod memory;
