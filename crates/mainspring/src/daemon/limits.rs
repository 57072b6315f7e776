//! What the system lets this process use.

use rustix::process::{Resource, Rlimit};

/// Raises the number of descriptors to what the system allows. Returns what it was, which is what child processes should get.
pub(crate) fn raise_descriptors() -> Rlimit {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if before.current != before.maximum
        && let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!("the number of descriptors cannot be raised: {error}");
    }
    before
}
