//! The end of child processes.

// The children are reaped by the loop, which is what is tested.
#![allow(clippy::zombie_processes)]

mod support;

use mainspring_reactor::Handle;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Log, NoteOnDrop, TEST_TIMEOUT, on_each_backend, panic_of, reactor, settle};

/// SIGCHLD, by which `poll` learns of children, belongs to one loop at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shell(script: &str) -> Child {
    Command::new("sh").arg("-c").arg(script).stdin(Stdio::piped()).spawn().unwrap()
}

/// A child that ends with `code` when its standard input is closed.
fn waiting_child(code: i32) -> Child {
    shell(&format!("read line; exit {code}"))
}

/// A callback that notes the status it is given.
fn noting(log: &Log<Option<ExitStatus>>) -> impl FnOnce(&Handle, Option<ExitStatus>) + 'static {
    let log = log.clone();
    move |_, status| log.note(status)
}

on_each_backend! {
    fn a_child_that_ends_is_reaped_and_its_status_told(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut child = waiting_child(7);
        let watcher = reactor.on_child_exit(child.id(), noting(&log)).unwrap();
        settle(&mut reactor, 3);
        assert!(log.is_empty());
        assert_eq!(reactor.watcher_count(), 0, "the loop's own descriptors do not count");
        drop(child.stdin.take());
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take()[0].unwrap().code(), Some(7));
        assert!(!reactor.unwatch_child(watcher), "it has ended by itself");
        assert!(child.wait().is_err(), "reaped already");
    }

    fn a_child_that_has_ended_before_anyone_watched_is_told_of(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut child = waiting_child(3);
        drop(child.stdin.take());
        wait_until_ended(&child);
        reactor.on_child_exit(child.id(), noting(&log)).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take()[0].unwrap().code(), Some(3));
    }

    fn a_child_killed_by_a_signal_says_which(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut child = waiting_child(0);
        reactor.on_child_exit(child.id(), noting(&log)).unwrap();
        child.kill().unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take()[0].unwrap().signal(), Some(libc::SIGKILL));
    }

    fn many_children_are_each_told_once_and_nobody_elses_is_reaped(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut foreign = waiting_child(99);
        let mut children: Vec<Child> = (0..10).map(waiting_child).collect();
        for (code, child) in children.iter().enumerate() {
            let calls = log.clone();
            let told = move |_: &Handle, status: Option<ExitStatus>| {
                calls.note((code as i32, status.unwrap().code()))
            };
            reactor.on_child_exit(child.id(), told).unwrap();
        }
        drop(foreign.stdin.take());
        children.iter_mut().for_each(|child| drop(child.stdin.take()));
        reactor.run_until_idle().unwrap();
        let mut told = log.take();
        told.sort_unstable();
        assert_eq!(told, (0..10).map(|code| (code, Some(code))).collect::<Vec<_>>());
        assert_eq!(foreign.wait().unwrap().code(), Some(99));
    }

    fn a_watch_that_is_ended_leaves_the_child_to_others(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut child = waiting_child(5);
        let data = NoteOnDrop(log.clone(), "callback dropped");
        let watcher = reactor.on_child_exit(child.id(), move |_, _| drop(data)).unwrap();
        assert!(reactor.unwatch_child(watcher));
        assert!(!reactor.unwatch_child(watcher), "idempotent");
        assert_eq!(log.take(), ["callback dropped"]);
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(5));
        reactor.run_until_idle().unwrap();
    }

    fn a_child_that_somebody_else_reaped_is_told_without_a_status(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut child = waiting_child(1);
        reactor.on_child_exit(child.id(), noting(&log)).unwrap();
        settle(&mut reactor, 3);
        drop(child.stdin.take());
        child.wait().unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [None]);
    }

    fn a_process_that_is_no_child_of_ours_is_refused(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let mut reaped = waiting_child(0);
        drop(reaped.stdin.take());
        reaped.wait().unwrap();
        for pid in [0, 1, u32::MAX, std::process::id(), reaped.id()] {
            let error = reactor.on_child_exit(pid, |_, _| ()).unwrap_err();
            assert_eq!(std::io::Error::from(error).raw_os_error(), Some(libc::ECHILD), "{pid}");
        }
        reactor.run_until_idle().unwrap();
    }

    fn h10_a_panic_in_a_child_callback_loses_no_other_child(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let mut children: Vec<Child> = (0..3).map(waiting_child).collect();
        for child in &children {
            let calls = log.clone();
            let told = move |_: &Handle, status: Option<ExitStatus>| {
                calls.note(status.unwrap().code().unwrap());
                assert!(calls.len() != 1, "the first fails");
            };
            reactor.on_child_exit(child.id(), told).unwrap();
        }
        settle(&mut reactor, 5);
        for child in &mut children {
            drop(child.stdin.take());
            wait_until_ended(child);
        }
        panic_of(|| drop(reactor.run_until_idle()));
        reactor.run_until_idle().unwrap();
        let mut told = log.take();
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2]);
    }

    fn a_child_callback_may_start_and_watch_the_next_child(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        start_next(&reactor, &log, 3);
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [3, 2, 1]);
    }

    fn dropping_the_reactor_leaves_children_alone(backend: Backend) {
        let _alone = alone();
        let reactor = reactor(backend);
        let log = Log::new();
        let mut child = waiting_child(4);
        let data = NoteOnDrop(log.clone(), "callback dropped");
        reactor.on_child_exit(child.id(), move |_, _| drop(data)).unwrap();
        drop(reactor);
        assert_eq!(log.take(), ["callback dropped"]);
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(4));
    }

    fn a_childs_end_and_its_last_output_both_arrive(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let mut child = Command::new("sh")
            .arg("-c")
            .arg("echo last words; exit 6")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Rc::new(Log::new());
        let output = child.stdout.take().unwrap();
        let calls = log.clone();
        reactor
            .watch(output)
            .on_read(move |output, event| {
                use std::io::Read;
                let mut buffer = [0; 64];
                match output.read(&mut buffer).unwrap() {
                    0 => event.unwatch(),
                    count => calls.note(String::from_utf8_lossy(&buffer[..count]).into_owned()),
                }
            })
            .start()
            .unwrap();
        let calls = log.clone();
        let told =
            move |_: &Handle, status: Option<ExitStatus>| calls.note(format!("{:?}", status.unwrap().code()));
        reactor.on_child_exit(child.id(), told).unwrap();
        reactor.run_until_idle().unwrap();
        let mut all = log.take();
        all.sort_unstable();
        assert_eq!(all, ["Some(6)", "last words\n"]);
    }
}

/// Starts a child and, when it ends, the next.
fn start_next(handle: &Handle, log: &Log<u32>, left: u32) {
    let log = log.clone();
    let told = move |handle: &Handle, status: Option<ExitStatus>| {
        assert!(status.unwrap().success());
        log.note(left);
        if left > 1 {
            start_next(handle, &log, left - 1);
        }
    };
    handle.on_child_exit(shell("exit 0").id(), told).unwrap();
}

/// Waits until a child has ended, without reaping it.
fn wait_until_ended(child: &Child) {
    // SAFETY: all zeroes is a valid siginfo_t, and it lives across the call.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOWAIT;
        assert_eq!(libc::waitid(libc::P_PID, child.id(), &mut info, flags), 0);
    }
}

#[test]
fn the_loop_can_wait_for_a_child_beside_everything_else() {
    let _alone = alone();
    let mut reactor = mainspring_reactor::Reactor::new().unwrap();
    let mut child = waiting_child(0);
    let stdin = child.stdin.take();
    let log = Log::new();
    let calls = log.clone();
    reactor
        .after(std::time::Duration::from_millis(1), move |_| {
            calls.note("timer");
            drop(stdin)
        })
        .unwrap();
    let calls = log.clone();
    reactor.on_child_exit(child.id(), move |_, _| calls.note("child")).unwrap();
    reactor.poll(TEST_TIMEOUT).unwrap();
    reactor.run_until_idle().unwrap();
    assert_eq!(log.take(), ["timer", "child"]);
}
