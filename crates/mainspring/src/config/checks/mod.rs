//! What a configuration can get wrong beyond its keys: programs and scripts that are not there,
//! words in schemas that mean nothing, and what the kernel and the host would refuse. A check is
//! told values and places, and adds to the problems.

pub(super) mod catalogue;
pub(super) mod guests;
pub(super) mod kernel;
pub(super) mod keywords;
pub(super) mod programs;
pub(super) mod scripts;

pub use guests::GuestCheck;
