//! Where a measurement runs.

/// Keeps this thread, and the threads and processes that it starts from now on, on one core, the
/// last that it may use.
///
/// For round trips one at a time: only one end ever runs, so a second core speeds nothing up. It
/// adds the time that an idle core takes to wake up, which is several times the work itself and
/// depends on where the scheduler happens to put the two ends.
pub fn stay_on_one_core() {
    // SAFETY: a cpu_set_t is an array of integers, for which zero is valid; both calls get its size
    // and a pointer that lives through them, and the numbers that the macros get are below its
    // capacity.
    unsafe {
        let size = size_of::<libc::cpu_set_t>();
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut allowed), 0, "the cores can be asked for");
        let last = (0..libc::CPU_SETSIZE as usize).rev().find(|&core| libc::CPU_ISSET(core, &allowed));
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(last.expect("a running process has a core"), &mut one);
        assert_eq!(
            libc::sched_setaffinity(0, size, &raw const one),
            0,
            "one of the allowed cores can be chosen"
        );
    }
}
