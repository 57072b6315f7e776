//! What the system lets this process use.

use rustix::process::{Resource, Rlimit};
use std::fs::read_to_string;
use std::path::Path;

/// What the memory is taken for where the system does not say.
const MEMORY_UNKNOWN_BYTES: u64 = 4 << 30;

/// Bytes of memory that this process may use: what the machine has, its control group allows, and
/// its own limit is.
pub(crate) fn memory_allowed() -> usize {
    let own = rustix::process::getrlimit(Resource::As).current;
    let known = [machine_bytes(), group_bytes(Path::new("/sys/fs/cgroup"), "/proc/self/cgroup"), own];
    let least = known.into_iter().flatten().min().unwrap_or(MEMORY_UNKNOWN_BYTES);
    usize::try_from(least).unwrap_or(usize::MAX)
}

fn machine_bytes() -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// The least that a control group above this process allows, in either version of them.
fn group_bytes(root: &Path, groups: &str) -> Option<u64> {
    let text = read_to_string(groups).ok()?;
    let mut least = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let inner = root.join(path.trim_start_matches('/'));
        for folder in inner.ancestors().take_while(|folder| folder.starts_with(&root)) {
            // A group without a bound says "max", or a number beyond any machine.
            let bound =
                read_to_string(folder.join(name)).ok().and_then(|text| text.trim().parse::<u64>().ok());
            least = least.into_iter().chain(bound).min();
        }
    }
    least
}

/// Raises the number of descriptors to what the system allows. Returns what it was, which is what
/// child processes should get.
pub(crate) fn raise_descriptors() -> Rlimit {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if before.current != before.maximum
        && let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
    before
}

/// Descriptors that clients leave to everybody else: a capability that starts anew needs 9 for a
/// moment and keeps 4, and files are read, compiled and kept meanwhile. Beyond: a client is told
/// (503) and closed.
const RESERVED: u64 = 64;
/// The same for each capability, so that all of them may start anew at the same time.
const RESERVED_PER_CAPABILITY: u64 = 8;

/// What clients may have of the descriptors there are. With few of them, half are reserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// How many there may be at a time.
    clients_max: u64,
    /// The first number that they may not have: the lowest is given out first, so by then few are
    /// left, whoever has them.
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
        (clients as u64) < self.clients_max
            && u64::try_from(descriptor).is_ok_and(|number| number < self.number_end)
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

    #[test]
    fn the_tightest_control_group_above_the_process_counts_in_either_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, text).expect("a file");
        };
        let groups = folder.path().join("groups");
        let allowed = || group_bytes(folder.path(), groups.to_str().expect("text"));
        write("groups", "0::/a.slice/b.service\n");
        assert_eq!(allowed(), None);
        write("a.slice/b.service/memory.max", "max\n");
        assert_eq!(allowed(), None);
        write("a.slice/memory.max", "1000\n");
        assert_eq!(allowed(), Some(1000));
        write("a.slice/b.service/memory.max", "900\n");
        assert_eq!(allowed(), Some(900));
        write("groups", "9:name=systemd:/\n4:cpu,memory:/c\n");
        write("memory/c/memory.limit_in_bytes", "800\n");
        assert_eq!(allowed(), Some(800));
    }

    #[test]
    fn the_machine_this_runs_on_has_some_memory() {
        assert!(memory_allowed() > 64 << 20);
    }
}
