//! Sleeps, timeouts and an interval: prints `ok` if none was early and all came in order.

use mainspring_guest::{Elapsed, Instant, block_on, interval, println, sleep, spawn, timeout};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

fn main() {
    block_on(async {
        sleeps_are_never_early().await;
        shorter_sleeps_end_first().await;
        a_timeout_stops_what_never_ends().await;
        an_interval_keeps_its_rate().await;
    });
    println!("ok");
}

async fn sleeps_are_never_early() {
    for milliseconds in [0, 1, 5] {
        let duration = Duration::from_millis(milliseconds);
        let start = Instant::now();
        sleep(duration).await;
        assert!(start.elapsed() >= duration);
    }
}

async fn shorter_sleeps_end_first() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let tasks = [30, 10, 20].map(|milliseconds| {
        let order = Rc::clone(&order);
        spawn(async move {
            sleep(Duration::from_millis(milliseconds)).await;
            order.borrow_mut().push(milliseconds);
        })
    });
    for task in tasks {
        task.await.expect("nobody aborts it");
    }
    assert_eq!(*order.borrow(), [10, 20, 30]);
}

async fn a_timeout_stops_what_never_ends() {
    let start = Instant::now();
    let never = timeout(Duration::from_millis(10), std::future::pending::<()>()).await;
    assert_eq!(never, Err(Elapsed));
    assert!(start.elapsed() >= Duration::from_millis(10));
}

async fn an_interval_keeps_its_rate() {
    let start = Instant::now();
    let mut ticks = interval(Duration::from_millis(2));
    for _ in 0..5 {
        ticks.tick().await;
    }
    assert!(start.elapsed() >= Duration::from_millis(10));
}
