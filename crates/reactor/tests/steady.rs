//! What a turn costs when nothing changes: one system call and no allocation.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod support;
#[path = "support/system_calls.rs"]
mod system_calls;

use mainspring_reactor::{Async, Backend, Builder, Reactor, Shared};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::poll_fn;
use std::io::Read;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use support::descriptors::{always_readable, readable_socket, sockets};
use support::{NOW, on_each_backend, reactor};
use system_calls::system_calls_of;

/// Counts the allocations of each thread.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TURNS: usize = 50;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Watches as many sources that are always ready.
fn watch_busy(reactor: &Reactor, count: usize) {
    for _ in 0..count {
        reactor.watch(always_readable()).on_read(|_, _| ()).start().unwrap();
    }
}

/// A task that wakes itself for ever.
fn spawn_busy(reactor: &Reactor) {
    let busy = poll_fn(|context| {
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    reactor.spawn(busy).unwrap();
}

/// Whether these are nothing but waits.
fn are_waits(calls: &[i64]) -> bool {
    let waits = [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_ppoll,
    ];
    calls.iter().all(|call| waits.contains(call))
}

/// The system calls of some turns on a loop that has been made ready by `prepare`.
fn calls_of_turns(backend: Backend, prepare: impl FnOnce(&Reactor), turns: usize) -> Option<Vec<i64>> {
    system_calls_of(|mark| {
        let mut reactor = reactor(backend);
        prepare(&reactor);
        reactor.poll(None).unwrap();
        mark();
        for _ in 0..turns {
            reactor.poll(None).unwrap();
        }
        mark();
    })
}

/// The system calls of one piece of work with a loop that has made a turn already.
fn calls_of(backend: Backend, work: impl FnOnce(&mut Reactor, &dyn Fn())) -> Option<Vec<i64>> {
    system_calls_of(|mark| {
        let mut reactor = reactor(backend);
        reactor.poll(NOW).unwrap();
        work(&mut reactor, mark);
    })
}

on_each_backend! {
    fn h15_a_steady_turn_makes_exactly_one_system_call(backend: Backend) {
        for sources in [1, 16, 256] {
            let Some(calls) = calls_of_turns(backend, |reactor| watch_busy(reactor, sources), TURNS) else {
                return;
            };
            assert_eq!(calls.len(), TURNS, "{sources} sources: {calls:?}");
            assert!(are_waits(&calls), "{calls:?}");
        }
    }

    fn h15_a_timer_that_is_not_due_costs_no_system_call(backend: Backend) {
        let prepare = |reactor: &Reactor| {
            watch_busy(reactor, 4);
            reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
        };
        let Some(calls) = calls_of_turns(backend, prepare, TURNS) else { return };
        assert_eq!(calls.len(), TURNS, "{calls:?}");
        assert!(are_waits(&calls), "{calls:?}");
    }

    fn h15_timers_that_come_and_go_behind_the_first_cost_no_system_call(backend: Backend) {
        let calls = calls_of(backend, |reactor, mark| {
            watch_busy(reactor, 1);
            reactor.after(Duration::from_secs(10), |_| ()).unwrap();
            reactor.poll(None).unwrap();
            mark();
            for _ in 0..TURNS {
                let timer = reactor.after(Duration::from_secs(20), |_| ()).unwrap();
                reactor.reschedule_after(timer, Duration::from_secs(30)).unwrap();
                reactor.poll(None).unwrap();
                reactor.cancel(timer);
            }
            mark();
        });
        let Some(calls) = calls else { return };
        assert_eq!(calls.len(), TURNS, "{calls:?}");
        assert!(are_waits(&calls), "{calls:?}");
    }

    fn r12_a_wake_on_the_loops_own_thread_makes_no_system_call(backend: Backend) {
        let Some(calls) = calls_of_turns(backend, spawn_busy, TURNS) else { return };
        assert_eq!(calls.len(), TURNS, "{calls:?}");
        assert!(are_waits(&calls), "{calls:?}");
    }

    fn r12_any_number_of_wakes_makes_one_system_call_until_the_loop_looks(backend: Backend) {
        let calls = calls_of(backend, |reactor, mark| {
            let (remote, wakeup) = (reactor.remote(), reactor.wakeup(|_| ()).unwrap());
            mark();
            for _ in 0..100 {
                remote.wake();
                wakeup.signal();
            }
            mark();
        });
        let Some(calls) = calls else { return };
        assert_eq!(calls, [libc::SYS_write]);
    }

    fn h15_deferred_calls_cost_no_system_call_of_their_own(backend: Backend) {
        let calls = calls_of(backend, |reactor, mark| {
            mark();
            for _ in 0..TURNS {
                reactor.defer(|_| ()).unwrap();
                reactor.poll(None).unwrap();
            }
            mark();
        });
        let Some(calls) = calls else { return };
        assert_eq!(calls.len(), TURNS, "{calls:?}");
        assert!(are_waits(&calls), "{calls:?}");
    }

    fn h15_a_steady_turn_allocates_nothing(backend: Backend) {
        let mut reactor = reactor(backend);
        watch_busy(&reactor, 100);
        spawn_busy(&reactor);
        reactor.every(Duration::from_nanos(1), |_| ()).unwrap();
        reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
        let turns = |reactor: &mut Reactor| (0..TURNS).for_each(|_| _ = reactor.poll(None).unwrap());
        turns(&mut reactor);
        let before = reactor.stats().callbacks;
        assert_eq!(allocations_of(|| turns(&mut reactor)), 0);
        assert!(reactor.stats().callbacks >= before + 100 * TURNS as u64, "and something was done");
    }

    fn h15_a_change_of_interest_allocates_nothing(backend: Backend) {
        use mainspring_reactor::Interest;
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let interest = Interest::READ | Interest::WRITE;
        let watcher = reactor
            .watch(left)
            .start_with(interest, |_, event| {
                let next = if event.readiness().contains(mainspring_reactor::Readiness::READ) {
                    Interest::WRITE
                } else {
                    Interest::READ
                };
                event.reactor().modify(event.watcher(), next).unwrap();
            })
            .unwrap();
        reactor.poll(NOW).unwrap();
        let turns = allocations_of(|| (0..TURNS).for_each(|_| assert_eq!(reactor.poll(NOW).unwrap(), 1)));
        assert_eq!(turns, 0);
        reactor.unwatch(watcher);
    }
}

#[test]
fn r2_watching_again_is_one_system_call_and_none_for_the_same_shared_source() {
    let calls = calls_of(Backend::Epoll, |reactor, mark| {
        let (left, right) = sockets();
        let (left, right) = (Shared::new(left), Shared::new(right));
        reactor.watch_shared(&left).on_read(|_, _| ()).start().unwrap();
        mark();
        reactor.watch_shared(&right).on_read(|_, _| ()).start().unwrap(); // 1: in
        reactor.watch_shared(&left).on_read(|_, _| ()).start().unwrap(); // none: the same as before
        let watcher = reactor.watch_shared(&left).on_write(|_, _| ()).start().unwrap(); // 2: changed
        reactor.unwatch(watcher); // 3: out
        reactor.unwatch(watcher);
        mark();
    });
    let Some(calls) = calls else { return };
    assert_eq!(calls, [libc::SYS_epoll_ctl; 3]);
}

#[test]
fn h15_the_alarm_is_set_only_when_the_first_deadline_moves_up() {
    let calls = calls_of(Backend::Epoll, |reactor, mark| {
        watch_busy(reactor, 1);
        mark();
        for seconds in (1..=20).rev() {
            reactor.after(Duration::from_secs(seconds * 100), |_| ()).unwrap();
        }
        reactor.poll(None).unwrap();
        reactor.poll(None).unwrap();
        mark();
    });
    let Some(calls) = calls else { return };
    let set = calls.iter().filter(|call| **call == libc::SYS_timerfd_settime).count();
    assert_eq!((set, calls.len()), (1, 3), "twenty timers, one alarm: {calls:?}");
}

#[test]
fn h15_a_busy_async_stream_costs_its_reads_and_nothing_else() {
    let calls = calls_of(Backend::Epoll, |reactor, mark| {
        let (left, right) = sockets();
        std::io::Write::write_all(&mut &right, &[0; 64]).unwrap();
        let left = Async::new(reactor, left).unwrap();
        mark();
        for _ in 0..64 {
            reactor.block_on(left.read_with(|mut stream| stream.read(&mut [0; 1]))).unwrap().unwrap();
        }
        mark();
    });
    let Some(calls) = calls else { return };
    assert_eq!(calls.len(), 64, "{calls:?}");
    assert!(calls.iter().all(|call| [libc::SYS_read, libc::SYS_recvfrom].contains(call)), "{calls:?}");
}

#[test]
fn h15_a_virtual_clock_allocates_nothing_either() {
    let clock = mainspring_reactor::VirtualClock::new();
    let mut reactor = Builder::new().virtual_clock(&clock).build().unwrap();
    let count = Rc::new(Cell::new(0));
    let ticks = count.clone();
    reactor.every(Duration::from_secs(1), move |_| ticks.set(ticks.get() + 1)).unwrap();
    reactor.poll(None).unwrap();
    assert_eq!(allocations_of(|| (0..TURNS).for_each(|_| _ = reactor.poll(None).unwrap())), 0);
    assert_eq!(count.get(), TURNS + 1);
}

#[test]
fn counting_counts() {
    // The counters themselves must be able to see something.
    assert_eq!(allocations_of(|| drop(std::hint::black_box(Box::new(1)))), 1);
    let calls = system_calls_of(|mark| {
        mark();
        let (left, right) = sockets();
        drop((left, right));
        mark();
    });
    let Some(calls) = calls else { return };
    assert!(calls.contains(&libc::SYS_socketpair) && calls.contains(&libc::SYS_close), "{calls:?}");
}
