//! The engines that compile and run guests: how they are set up, and whether the system has room
//! for them.

use super::config::HostConfig;
use crate::limits::Limits;
use crate::{Error, Result};
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Memory mappings that one guest may take: its memory, its stack and the guards around them.
const MAPPINGS_PER_GUEST: u64 = 5;
/// Memory mappings left for everything else in the process.
const MAPPINGS_RESERVED: u64 = 4096;
/// Bytes of a guest's memory that stay resident in a free slot, so that starting the next guest
/// there is cheap.
const KEEP_RESIDENT_BYTES: usize = 1 << 20;
/// Address space that is set aside for each guest's memory while there is enough: no bounds check
/// is then needed.
const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;
/// Address space that all guests together may set aside.
const ADDRESS_SPACE_BYTES: u64 = 64 << 40;

/// Modules that one component may be made of: its own, the adapter of preview 1, and the two that
/// tie them together.
#[cfg(feature = "wasi")]
const MODULES_PER_COMPONENT: u32 = 4;

/// The number of mappings runs out long before memory does; better to say so now than to fail at
/// some guest.
pub(super) fn check_map_count(guests_max: u32) -> Result<()> {
    let needed = u64::from(guests_max) * MAPPINGS_PER_GUEST + MAPPINGS_RESERVED;
    let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    match allowed.and_then(|text| text.trim().parse().ok()) {
        Some(allowed) if allowed < needed => Err(Error::MapCount { guests_max, needed, allowed }),
        _ => Ok(()),
    }
}

/// What all engines have in common.
pub(super) fn base_config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config
}

pub(super) fn engine_config(host: &HostConfig) -> Config {
    let mut config = base_config();
    // Fibers do all the waiting there is; the machinery for concurrent calls into one guest costs
    // time and has no use here.
    config.concurrency_support(false);
    if !host.pooling {
        return config;
    }
    let guests = host.guests_max.max(1);
    let share = ADDRESS_SPACE_BYTES / u64::from(guests);
    let reservation = MEMORY_RESERVATION_BYTES.min(share.next_power_of_two() / 2).max(1 << 20);
    let memory_max = host.memory_bytes_max.min(usize::try_from(reservation).unwrap_or(usize::MAX));
    config.memory_reservation(reservation);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(guests)
        .total_memories(guests)
        .total_tables(guests)
        .total_stacks(guests)
        .max_memory_size(memory_max)
        .table_elements(Limits::default().table_elements)
        .max_core_instance_size(1 << 20)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    // A component is several modules that share one memory, and there are no others to share the
    // places with.
    #[cfg(feature = "wasi")]
    pool.total_component_instances(guests)
        .total_core_instances(guests.saturating_mul(MODULES_PER_COMPONENT))
        .total_tables(guests.saturating_mul(MODULES_PER_COMPONENT));
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// Compiles something that comes from outside: should the compiler panic, that is a reason like any
/// other.
pub(crate) fn guarded<T>(compile: impl FnOnce() -> wasmtime::Result<T>) -> Result<T> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compile));
    outcome.unwrap_or_else(|_| Err(wasmtime::Error::msg("the compiler gave up"))).map_err(Error::Compile)
}
