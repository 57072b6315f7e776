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

/// Descriptors that clients leave to everybody else: a capability that starts anew needs 9 for a moment and keeps 4, and files are read,
/// compiled and kept meanwhile. Beyond: a client is told (503) and closed.
const RESERVED: u64 = 64;
/// The same for each capability, so that all of them may start anew at the same time.
const RESERVED_PER_CAPABILITY: u64 = 8;

/// What clients may have of the descriptors there are. With few of them, half are reserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// How many there may be at a time.
    clients_max: u64,
    /// The first number that they may not have: the lowest is given out first, so by then few are left, whoever has them.
    number_end: u64,
}

impl Allowance {
    /// The allowance of this process, with so many capabilities.
    pub(crate) fn new(capabilities: usize) -> Allowance {
        let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Allowance::of(limit, capabilities as u64)
    }

    fn of(limit: u64, capabilities: u64) -> Allowance {
        let reserved = RESERVED.saturating_add(capabilities.saturating_mul(RESERVED_PER_CAPABILITY));
        Allowance {
            clients_max: limit - reserved.min(limit / 2),
            number_end: limit - RESERVED.min(limit / 2),
        }
    }

    /// Whether one more may stay, who has got this descriptor.
    pub(crate) fn permits(&self, clients: usize, descriptor: i32) -> bool {
        (clients as u64) < self.clients_max && u64::try_from(descriptor).is_ok_and(|it| it < self.number_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_never_have_the_last_descriptors() {
        let allowance = Allowance::of(1024, 10);
        assert!(allowance.permits(1024 - 64 - 80 - 1, 959));
        assert!(!allowance.permits(1024 - 64 - 80, 100), "capabilities that are down now come back");
        assert!(!allowance.permits(0, 960), "somebody else has them");
        let small = Allowance::of(40, 1000);
        assert!(small.permits(19, 19) && !small.permits(20, 19) && !small.permits(19, 20));
        assert!(Allowance::of(u64::MAX, usize::MAX as u64).permits(1 << 20, 1 << 20));
    }
}
