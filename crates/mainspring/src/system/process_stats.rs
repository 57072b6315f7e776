//! What the operating system says about a process: memory, processor time, descriptors. Read only
//! when somebody asks.

use rustix::param::{clock_ticks_per_second, page_size};
use std::fs::{read_dir, read_to_string};

/// Memory and processor time of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStats {
    /// Resident memory.
    pub(crate) memory_bytes: u64,
    /// Processor time of the process and of those of its children that it has waited for, in
    /// milliseconds.
    pub(crate) cpu_ms: u64,
}

impl ProcessStats {
    /// Those of a process; nothing if it is gone, or the system does not say.
    pub(crate) fn of(pid: i32) -> Option<ProcessStats> {
        let pages: u64 =
            read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse().ok()?;
        let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(ProcessStats { memory_bytes: pages * page_size() as u64, cpu_ms: cpu_ms(&stat)? })
    }
}

/// The processor time in the text of `/proc/PID/stat`.
fn cpu_ms(stat: &str) -> Option<u64> {
    // The name may hold anything, brackets and spaces too: the rest begins behind the last bracket.
    let (_, rest) = stat.rsplit_once(')')?;
    // User, system, and the same of children: fields 14 to 17, of which the state is the third.
    let times = rest.split_ascii_whitespace().skip(11).take(4);
    let ticks = times.map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(ticks * 1000 / clock_ticks_per_second().max(1))
}

/// Descriptors that this process has open.
pub(crate) fn open_descriptors() -> Option<u64> {
    // One of them is the folder that is read.
    Some((read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_a_process_that_is_gone_has_none() {
        let own = ProcessStats::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.memory_bytes > 1 << 20, "{own:?}");
        assert_eq!(ProcessStats::of(i32::MAX), None);
        assert!(open_descriptors().unwrap() >= 3);
    }

    #[test]
    fn a_name_with_brackets_and_spaces_hides_nothing() {
        let ticks = clock_ticks_per_second();
        let stat = format!("7 (a) b (c) S 1 1 1 0 -1 4194560 100 0 0 0 {ticks} {ticks} 0 {ticks} 20 0 1 0");
        assert_eq!(cpu_ms(&stat), Some(3000));
        assert_eq!(cpu_ms("7 (a"), None);
    }
}
