//! `wasi:io/poll` as wasmtime-wasi implements it: one call over n pollables, one of which is ready.
//! The host's side alone, without a guest, a fiber or a socket: what a component pays for each wait
//! comes on top.

use bench_support::process_cpu_ns;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi_io::bindings::wasi::io::poll::Host as _;
use wasmtime_wasi_io::poll::{DynPollable, Pollable, subscribe};

/// Ready while its number is the chosen one.
struct Chosen {
    number: u64,
    chosen: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl Pollable for Chosen {
    async fn ready(&mut self) {
        std::future::poll_fn(|_| {
            if self.chosen.load(Ordering::Relaxed) == self.number { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

pub(crate) fn poll(count: u64, polls: u64, batches: u64) {
    let chosen = Arc::new(AtomicU64::new(0));
    let mut table = ResourceTable::new();
    let pollables: Vec<Resource<DynPollable>> = (0..count)
        .map(|number| {
            let source = table.push(Chosen { number, chosen: chosen.clone() }).expect("there is room");
            subscribe(&mut table, source).expect("there is room")
        })
        .collect();
    // Large sets are slow enough to be measured by fewer polls.
    let polls = (polls * 10 / count.max(10)).max(5);
    let turn = Rc::new(Cell::new(0));
    let best = (0..batches)
        .map(|_| batch(&mut table, &pollables, &chosen, polls, &turn))
        .fold(f64::INFINITY, f64::min);
    println!("cpu_per_wake us {best:.3}");
}

fn batch(
    table: &mut ResourceTable,
    pollables: &[Resource<DynPollable>],
    chosen: &AtomicU64,
    polls: u64,
    turn: &Cell<u64>,
) -> f64 {
    let before = process_cpu_ns();
    for _ in 0..polls {
        turn.set(turn.get() + 1);
        chosen.store(turn.get() * 7919 % pollables.len() as u64, Ordering::Relaxed);
        let borrowed = pollables.iter().map(|pollable| Resource::new_borrow(pollable.rep())).collect();
        let ready = pin!(table.poll(borrowed));
        let Poll::Ready(ready) = ready.poll(&mut Context::from_waker(Waker::noop())) else {
            unreachable!("one is always ready")
        };
        assert_eq!(ready.expect("the pollables are there").len(), 1);
    }
    (process_cpu_ns() - before) as f64 / polls as f64 / 1e3
}
