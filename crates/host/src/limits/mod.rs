//! What a guest may use, and how it is held to it: bounds, CPU time and preemption, bandwidth, and
//! where it may connect. Every call that can cost something asks here; nothing here knows what the
//! call is for.

pub(crate) mod bandwidth;
pub(crate) mod denial;
pub(crate) mod meter;
pub(crate) mod policy;
pub(crate) mod ticker;

use crate::guest::context::GuestContext;
use crate::guest::stats::uncount;
use std::time::Duration;
use wasmtime::ResourceLimiter;

/// What one guest may use at most. Every limit is enforced; a refusal reaches the guest as an error
/// code (or a failed `memory.grow`) and the operator as a count in
/// [`GuestStats::refused`](crate::GuestStats::refused).
///
/// # Examples
/// ```
/// use mainspring_host::Limits;
///
/// let limits = Limits { memory_bytes: 4 << 20, handles: 64, ..Limits::default() };
/// assert_eq!(limits.cpu_slice.as_millis(), 5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory. The host's own [`memory_bytes_max`](crate::HostConfig::memory_bytes_max) may
    /// be lower. 64 MiB.
    pub memory_bytes: usize,
    /// Elements of a table, such as functions that are called through pointers. 100,000.
    pub table_elements: usize,
    /// The CPU time that it may use at a stretch before its neighbours get a turn. Measured in
    /// milliseconds. 5 ms.
    pub cpu_slice: Duration,
    /// The CPU time that it may use in all; then it is ended. `None`: without limit.
    pub cpu_total: Option<Duration>,
    /// Open handles, the three standard streams included. 1,024.
    pub handles: usize,
    /// Watches, over all of its `sys/loop` handles. 4,096.
    pub watches: usize,
    /// Armed timers, over all of its `sys/loop` handles. 4,096.
    pub timers: usize,
    /// Bytes that the host holds for it: answers that it has not read. 1 MiB.
    pub buffered_bytes: usize,
    /// Bytes per second from and to the network, together. `None`: without limit.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Names being looked up at once. 4.
    pub lookups: usize,
    /// Blocks of memory that `zi_alloc` keeps track of. 65,536.
    pub allocations: usize,
    /// Bytes that it may add, by WASI, to the folders that it may write to: what it makes files
    /// longer by, and 4 KiB for each entry. What it removes is given back. `None`: without limit. 1
    /// GiB.
    pub folder_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            cpu_slice: Duration::from_millis(5),
            cpu_total: None,
            handles: 1024,
            watches: 4096,
            timers: 4096,
            buffered_bytes: 1 << 20,
            bandwidth_bytes_per_s: None,
            lookups: 4,
            allocations: 65_536,
            folder_bytes: Some(1 << 30),
        }
    }
}

/// What a guest may run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::memory_bytes`] or [`Limits::table_elements`].
    Memory,
    /// [`Limits::cpu_total`].
    CpuTotal,
    /// [`Limits::handles`].
    Handles,
    /// [`Limits::watches`].
    Watches,
    /// [`Limits::timers`].
    Timers,
    /// [`Limits::buffered_bytes`].
    BufferedBytes,
    /// [`Limits::bandwidth_bytes_per_s`].
    Bandwidth,
    /// [`Limits::lookups`].
    Lookups,
    /// [`Limits::allocations`].
    Allocations,
    /// [`Limits::folder_bytes`].
    FolderBytes,
    /// The network's allow-list.
    Network,
    /// A limit of a capability's own.
    Capability,
}

impl Limit {
    /// Every limit there is.
    pub const ALL: [Limit; 12] = [
        Limit::Memory,
        Limit::CpuTotal,
        Limit::Handles,
        Limit::Watches,
        Limit::Timers,
        Limit::BufferedBytes,
        Limit::Bandwidth,
        Limit::Lookups,
        Limit::Allocations,
        Limit::FolderBytes,
        Limit::Network,
        Limit::Capability,
    ];

    /// Its name, for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Memory => "memory",
            Limit::CpuTotal => "cpu-total",
            Limit::Handles => "handles",
            Limit::Watches => "watches",
            Limit::Timers => "timers",
            Limit::BufferedBytes => "buffered-bytes",
            Limit::Bandwidth => "bandwidth",
            Limit::Lookups => "lookups",
            Limit::Allocations => "allocations",
            Limit::FolderBytes => "folder-bytes",
            Limit::Network => "network",
            Limit::Capability => "capability",
        }
    }
}

/// Refuses growth beyond the limits; the guest's `memory.grow` then returns -1.
///
/// A component may have several memories: the limit is on all of them together.
pub(crate) struct Limiter {
    guest: crate::guest::confined::Confined<std::rc::Rc<GuestContext>>,
    /// By how much a memory was last allowed to grow, should that fail.
    allowed: usize,
}

impl Limiter {
    pub(crate) fn new(guest: crate::guest::confined::Confined<std::rc::Rc<GuestContext>>) -> Limiter {
        Limiter { guest, allowed: 0 }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let memory_bytes = &self.guest.counters.memory_bytes;
        let growth = desired.saturating_sub(current);
        let total = memory_bytes.get().saturating_add(growth as u64);
        let fits = total <= self.guest.limits().memory_bytes as u64
            && maximum.is_none_or(|maximum| desired <= maximum);
        if fits {
            self.allowed = growth;
            memory_bytes.set(total);
        } else {
            self.allowed = 0;
            self.guest.refuse(Limit::Memory);
        }
        Ok(fits)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        uncount(&self.guest.counters.memory_bytes, std::mem::take(&mut self.allowed) as u64);
        self.guest.refuse(Limit::Memory);
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits =
            desired <= self.guest.limits().table_elements && maximum.is_none_or(|maximum| desired <= maximum);
        if !fits {
            self.guest.refuse(Limit::Memory);
        }
        Ok(fits)
    }
}
