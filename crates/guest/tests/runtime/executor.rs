//! Tasks, time and waiting, against a host in memory with virtual time.

use crate::support::Host;
use mainspring_guest::{
    Aborted, Elapsed, Instant, RUNS_PER_POLL_MAX, block_on, interval, shutdown_requested, sleep, spawn,
    stdin, timeout, yield_now,
};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn what_need_not_wait_never_asks_the_host() {
    let (host, _installed) = Host::start();
    let sum = block_on(async {
        let tasks: Vec<_> = (0..10).map(|number| spawn(async move { number })).collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 45);
    assert_eq!(host.calls.get(), 0);
}

#[test]
fn a_sleep_is_one_poll_and_ends_exactly_at_its_deadline() {
    let (host, _installed) = Host::start();
    let before = host.now_ns();
    block_on(sleep(MILLISECOND * 7));
    assert_eq!(host.now_ns() - before, 7_000_000);
    assert_eq!((host.polls.get(), host.empty_polls.get()), (1, 0));
}

#[test]
fn sleeps_end_in_the_order_of_their_deadlines_and_then_of_their_creation() {
    let (_host, _installed) = Host::start();
    let order = Rc::new(RefCell::new(Vec::new()));
    block_on(async {
        let tasks: Vec<_> = [(3, 'c'), (1, 'a'), (2, 'b'), (1, 'A')]
            .map(|(milliseconds, name)| {
                let order = order.clone();
                spawn(async move {
                    sleep(MILLISECOND * milliseconds).await;
                    order.borrow_mut().push(name);
                })
            })
            .into();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*order.borrow(), ['a', 'A', 'b', 'c']);
}

#[test]
fn many_timers_take_one_timer_of_the_host() {
    let (host, _installed) = Host::start();
    block_on(async {
        let tasks: Vec<_> = (0..1000).map(|_| spawn(sleep(MILLISECOND))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(host.timer_requests.get(), 1);
    assert_eq!(host.polls.get() - host.zero_polls.get(), 1);
}

#[test]
fn a_timeout_ends_what_never_does_and_leaves_no_timer_behind() {
    let (host, _installed) = Host::start();
    block_on(async {
        assert_eq!(timeout(MILLISECOND, pending::<()>()).await, Err(Elapsed));
        assert_eq!(timeout(MILLISECOND, async { 5 }).await, Ok(5));
        let start = Instant::now();
        assert_eq!(timeout(MILLISECOND * 9, sleep(MILLISECOND)).await, Ok(()));
        assert_eq!(start.elapsed(), MILLISECOND);
        // The timer of the last timeout is gone: this sleep ends after it would have.
        sleep(MILLISECOND * 20).await;
    });
    assert_eq!(host.empty_polls.get(), 0);
}

#[test]
fn a_sleep_beyond_the_clock_never_ends_and_breaks_nothing() {
    let (_host, _installed) = Host::start();
    let ended = block_on(async {
        let forever = spawn(sleep(Duration::MAX));
        sleep(MILLISECOND).await;
        forever.is_finished()
    });
    assert!(!ended);
}

#[test]
fn an_interval_keeps_its_rate_and_folds_missed_ticks() {
    let (host, _installed) = Host::start();
    let before = host.now_ns();
    block_on(async {
        let mut ticks = interval(MILLISECOND * 10);
        ticks.tick().await;
        assert_eq!(host.now_ns() - before, 10_000_000);
        sleep(MILLISECOND * 25).await;
        ticks.tick().await;
        assert_eq!(host.now_ns() - before, 35_000_000);
        ticks.tick().await;
        assert_eq!(host.now_ns() - before, 40_000_000);
    });
}

#[test]
fn a_task_that_always_yields_does_not_starve_timers() {
    let (host, _installed) = Host::start();
    let turns = Rc::new(Cell::new(0_u32));
    let counted = turns.clone();
    block_on(async {
        spawn(async move {
            loop {
                counted.set(counted.get() + 1);
                yield_now().await;
            }
        });
        // Due already: the next look at the host brings it.
        sleep(Duration::ZERO).await;
    });
    assert!(turns.get() <= 2 * RUNS_PER_POLL_MAX, "{} turns", turns.get());
    assert_eq!(host.polls.get(), host.zero_polls.get());
}

#[test]
fn a_task_that_yields_with_nothing_to_wait_for_makes_no_polls() {
    let (host, _installed) = Host::start();
    block_on(async {
        for _ in 0..10 * RUNS_PER_POLL_MAX {
            yield_now().await;
        }
    });
    assert_eq!(host.polls.get(), 0);
}

#[test]
fn an_aborted_task_is_dropped_at_once_and_says_so() {
    let (_host, _installed) = Host::start();
    let held = Rc::new(());
    let inside = held.clone();
    block_on(async {
        let task = spawn(async move {
            let _inside = inside;
            pending::<()>().await;
        });
        yield_now().await;
        assert_eq!(Rc::strong_count(&held), 2);
        task.abort();
        assert_eq!(Rc::strong_count(&held), 1);
        assert_eq!(task.await, Err(Aborted));
    });
}

#[test]
fn a_task_may_abort_itself_while_it_runs() {
    let (_host, _installed) = Host::start();
    let handle = Rc::new(RefCell::new(None));
    let own = handle.clone();
    block_on(async {
        let task = spawn(async move {
            let task: mainspring_guest::JoinHandle<()> = own.borrow_mut().take().unwrap();
            task.abort();
            pending::<()>().await;
        });
        *handle.borrow_mut() = Some(task);
        yield_now().await;
        yield_now().await;
    });
    assert!(handle.borrow().is_none());
}

#[test]
fn unfinished_tasks_go_on_in_the_next_block_on() {
    let (_host, _installed) = Host::start();
    let done = Rc::new(Cell::new(false));
    let inside = done.clone();
    block_on(async {
        spawn(async move {
            sleep(MILLISECOND).await;
            inside.set(true);
        });
    });
    assert!(!done.get());
    block_on(sleep(MILLISECOND * 2));
    assert!(done.get());
}

#[test]
fn a_poll_without_end_that_brings_nothing_is_a_request_to_shut_down() {
    let (host, _installed) = Host::start();
    block_on(shutdown_requested());
    assert_eq!(host.polls.get(), 1);
}

#[test]
#[should_panic(expected = "sys/loop@v1")]
fn without_a_loop_to_wait_in_the_guest_stops_instead_of_spinning() {
    block_on(pending::<()>());
}

#[test]
#[should_panic(expected = "inside block_on")]
fn block_on_inside_block_on_is_refused() {
    block_on(async { block_on(async {}) });
}

#[test]
fn lines_arrive_in_pieces_and_a_last_one_needs_no_end() {
    let (host, _installed) = Host::start();
    host.then(|host| host.deliver(0, b"fir"))
        .then(|host| host.deliver(0, b"st\r\nsecond\nthi"))
        .then(|host| host.deliver(0, b"rd"))
        .then(|host| host.with_stream(0, |stream| stream.ended = true));
    let lines = block_on(async {
        let mut lines = stdin().lines();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            all.push(line);
        }
        all
    });
    assert_eq!(lines, ["first", "second", "third"]);
    assert_eq!((host.polls.get(), host.empty_polls.get()), (4, 0));
}

#[test]
fn a_line_that_is_too_long_is_refused_in_bounded_memory_and_the_next_one_is_read() {
    let (host, _installed) = Host::start();
    host.deliver(0, &[b'x'; 100_000]);
    host.deliver(0, b"\nnext\n");
    block_on(async {
        let mut lines = stdin().lines().line_bytes_max(10);
        assert_eq!(lines.next_line().await.unwrap_err().kind(), std::io::ErrorKind::InvalidData);
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("next"));
    });
}
