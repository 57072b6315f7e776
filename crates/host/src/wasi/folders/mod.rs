//! How much a guest may add to the folders that it may write to.
//!
//! The system has no quota for one folder of one process that is cheap to hold, so the host keeps
//! an account: what the guest makes files longer by, and 4 KiB for each entry that it makes. What
//! it shortens or removes is given back; a file that is removed while it is open takes its place
//! until it is closed. `account` has the numbers; the other files put themselves between the guest
//! and wasmtime-wasi, one for each preview.

mod account;
pub(super) mod preview1;
pub(super) mod preview2;

pub(super) use account::Account;
