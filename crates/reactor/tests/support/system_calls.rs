//! Which system calls a piece of work makes.
//!
//! The work runs in a forked child that this thread traces with `ptrace`, so nothing needs to be
//! installed. Where a machine forbids that, the tests that count say so and fail, unless
//! `MAINSPRING_NO_PTRACE=1` tells them to pass.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How long a traced child may work.
const CHILD_SECONDS_MAX: libc::c_uint = 20;

/// Runs `work` in a traced child. It is handed a function that marks where counting begins and
/// ends: everything between the first two marks is listed. `None` if the machine does not allow it
/// and the tests were told so.
pub(crate) fn system_calls_of(work: impl FnOnce(&dyn Fn())) -> Option<Vec<i64>> {
    if std::env::var_os("MAINSPRING_NO_PTRACE").is_some() {
        return None;
    }
    // SAFETY: the child runs only the test's own code, with the C library's allocator, which
    // survives a fork.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => be_traced(work),
        pid => Some(trace(pid)),
    }
}

/// A system call that nothing else makes.
fn mark() {
    // SAFETY: no precondition.
    unsafe { libc::getppid() };
}

fn be_traced(work: impl FnOnce(&dyn Fn())) -> ! {
    // SAFETY: no preconditions; the last call ends the process.
    unsafe {
        libc::alarm(CHILD_SECONDS_MAX);
        if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
            libc::_exit(100);
        }
        libc::raise(libc::SIGSTOP);
        let code = match catch_unwind(AssertUnwindSafe(|| work(&mark))) {
            Ok(()) => 0,
            Err(_) => 101,
        };
        libc::_exit(code)
    }
}

/// Follows the child from system call to system call until it ends.
fn trace(pid: libc::pid_t) -> Vec<i64> {
    let mut calls = Vec::new();
    let mut marks = 0;
    let mut signal = 0;
    assert!(
        libc::WIFSTOPPED(wait(pid)),
        "this machine does not allow a process to be traced: set MAINSPRING_NO_PTRACE=1 to skip"
    );
    // SAFETY: the child is stopped, and these options need nothing else.
    unsafe {
        libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL)
    };
    loop {
        // SAFETY: the child is stopped.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, signal) };
        let status = wait(pid);
        if !libc::WIFSTOPPED(status) {
            assert!(
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                "the traced work failed: {status:#x}"
            );
            assert!(marks >= 2, "the work must mark where counting begins and ends");
            return calls;
        }
        signal = libc::WSTOPSIG(status);
        if signal != libc::SIGTRAP | 0x80 {
            continue;
        }
        signal = 0;
        match entered(pid) {
            Some(libc::SYS_getppid) => marks += 1,
            Some(number) if marks == 1 => calls.push(number),
            _ => {}
        }
    }
}

/// The system call that the stopped child is about to make; none if it comes back from one.
fn entered(pid: libc::pid_t) -> Option<i64> {
    // SAFETY: all zeroes is a valid value; the kernel fills in at most the size it is told; and the
    // field of the union that is read is the one the tag names.
    unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let size = size_of::<libc::ptrace_syscall_info>();
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, &raw mut info);
        if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY { Some(info.u.entry.nr as i64) } else { None }
    }
}

fn wait(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the status is a live integer.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}
