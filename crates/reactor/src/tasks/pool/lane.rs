//! Which threads a blocking call may use, and on whose account.

use std::sync::atomic::{AtomicU64, Ordering};

/// Threads of their own for one kind of blocking call, bounded in all and for each owner.
///
/// Calls of one lane never wait for those of another. Within a lane owners take turns, and one
/// whose calls are stuck leaves threads to the others. Lanes of the same name are the same threads;
/// what was said of them first holds.
///
/// # Examples
/// ```
/// use mainspring_reactor::{BlockingLane, BlockingOwner, Reactor};
///
/// const FILES: BlockingLane = BlockingLane::new("files", 4).share(2);
/// let mut reactor = Reactor::new()?;
/// let owner = BlockingOwner::new();
/// let found = reactor.blocking_on(&FILES, owner, || std::path::Path::new(".").exists())?;
/// assert!(reactor.block_on(found)?);
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockingLane {
    pub(super) name: &'static str,
    pub(super) threads_max: usize,
    pub(super) share_max: usize,
}

impl BlockingLane {
    /// A lane with at most so many threads, at least one. They start when they are needed. An owner
    /// may have half of them.
    #[must_use]
    pub const fn new(name: &'static str, threads_max: usize) -> BlockingLane {
        let threads_max = at_least_one(threads_max);
        BlockingLane { name, threads_max, share_max: at_least_one(threads_max / 2) }
    }

    /// Bounds the threads that one owner may have at a time; at least one.
    #[must_use]
    pub const fn share(self, share_max: usize) -> BlockingLane {
        BlockingLane { share_max: at_least_one(share_max), ..self }
    }
}

const fn at_least_one(number: usize) -> usize {
    if number == 0 { 1 } else { number }
}

/// On whose account blocking calls are made: see [`BlockingLane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockingOwner(u64);

impl BlockingOwner {
    /// The owner of calls that name none.
    pub(super) const NOBODY: BlockingOwner = BlockingOwner(0);

    /// A new owner, unlike any other of this process.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is another, so none is the default")]
    pub fn new() -> BlockingOwner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        BlockingOwner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
