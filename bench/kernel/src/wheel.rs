//! The kernel's timing wheel beside timers of others, on the kernel's own use of them.
//!
//! The work is that of `crates/kernel/benches/wheel`; what each peer cannot do stands at its own
//! type.

#[path = "../../../crates/kernel/benches/wheel/heap.rs"]
mod heap;
#[path = "../../../crates/kernel/benches/wheel/workload.rs"]
mod workload;

use bench_support::process_cpu_ns;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;
use workload::Timers;

const MILLISECOND_NS: i64 = 1_000_000;

fn main() {
    workload::print_head();
    for load in workload::LOADS {
        workload::measure(&load, process_cpu_ns, workload::TimingWheel::default);
        workload::measure(&load, process_cpu_ns, heap::LazyHeap::default);
        workload::measure(&load, process_cpu_ns, Delayed::new);
        workload::measure(&load, process_cpu_ns, Hashed::default);
    }
}

/// tokio-util's queue of delays: whole milliseconds, no order among equals, and a runtime whose
/// clock it reads. That clock stands still here and is moved every 100 ms of virtual time, so
/// reading it costs next to nothing.
struct Delayed {
    runtime: tokio::runtime::Runtime,
    queue: DelayQueue<[u64; 2]>,
    start: Instant,
    moved_to_ns: i64,
}

/// How often the clock is moved.
const MOVE_NS: i64 = 100 * MILLISECOND_NS;

impl Delayed {
    fn new() -> Delayed {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let start = runtime.block_on(async { Instant::now() });
        Delayed { runtime, queue: DelayQueue::new(), start, moved_to_ns: 0 }
    }

    fn instant(&self, ns: i64) -> Instant {
        self.start + Duration::from_nanos(ns.unsigned_abs())
    }
}

impl Timers for Delayed {
    type Key = Key;
    const NAME: &'static str = "tokio-util DelayQueue";

    fn schedule(&mut self, deadline_ns: i64) -> Key {
        let when = self.instant(deadline_ns);
        let _within = self.runtime.enter();
        self.queue.insert_at([0; 2], when)
    }

    fn cancel(&mut self, key: Key) {
        self.queue.try_remove(&key);
    }

    fn turn(&mut self, now_ns: i64) -> usize {
        let mut fired = 0;
        if now_ns - self.moved_to_ns >= MOVE_NS {
            let by = Duration::from_nanos((now_ns - self.moved_to_ns).unsigned_abs());
            self.moved_to_ns = now_ns;
            let queue = &mut self.queue;
            self.runtime.block_on(async {
                tokio::time::advance(by).await;
                let mut context = Context::from_waker(Waker::noop());
                while let Poll::Ready(Some(_)) = queue.poll_expired(&mut context) {
                    fired += 1;
                }
            });
        }
        std::hint::black_box(self.queue.peek().map(|key| self.queue.deadline(&key)));
        fired
    }
}

/// Four wheels of 256 milliseconds each: whole milliseconds, no exact next deadline, and what is
/// cancelled stays in its slot until that comes round. Entries are found by an id in a hash table,
/// each in a piece of memory of its own.
#[derive(Default)]
struct Hashed {
    wheel: QuadWheelWithOverflow<HashedEntry>,
    scheduled: u64,
    now_ms: i64,
}

#[derive(Debug)]
struct HashedEntry {
    id: u64,
    _value: [u64; 2],
}

impl CancellableTimerEntry for HashedEntry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }
}

impl Timers for Hashed {
    type Key = u64;
    const NAME: &'static str = "hierarchical_hash_wheel_timer";

    fn schedule(&mut self, deadline_ns: i64) -> u64 {
        self.scheduled += 1;
        let entry = Rc::new(HashedEntry { id: self.scheduled, _value: [0; 2] });
        let delay_ms = deadline_ns / MILLISECOND_NS - self.now_ms;
        let delay = Duration::from_millis(delay_ms.max(1).unsigned_abs());
        self.wheel.insert_ref_with_delay(entry, delay).expect("an id that is new");
        self.scheduled
    }

    fn cancel(&mut self, id: u64) {
        // It has fired if it is not there.
        let _ = self.wheel.cancel(&id);
    }

    fn turn(&mut self, now_ns: i64) -> usize {
        let mut fired = 0;
        while self.now_ms < now_ns / MILLISECOND_NS {
            self.now_ms += 1;
            fired += self.wheel.tick().len();
        }
        std::hint::black_box(matches!(self.wheel.can_skip(), Skip::None));
        fired
    }
}
