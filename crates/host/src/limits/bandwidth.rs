//! A limit on bytes per second, as a bucket that time fills.

use crate::readiness::signal::Signal;
use mainspring_reactor::{Handle, Instant};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// How much time's worth of bytes a handle waits for once the bucket is empty, so that a slow guest
/// is not woken for every byte.
const REFILL: Duration = Duration::from_millis(20);
/// How much time's worth of bytes a bucket holds.
const BURST: Duration = Duration::from_millis(100);

/// What one guest may still send and receive.
pub(crate) struct Bandwidth(Rc<Bucket>);

struct Bucket {
    bytes_per_s: u64,
    level: Cell<u64>,
    filled_at: Cell<Option<Instant>>,
    /// Handles that wait for the next refill.
    held: RefCell<Vec<Weak<Signal>>>,
}

fn bytes_in(bytes_per_s: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(bytes_per_s) * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
}

impl Bandwidth {
    pub(crate) fn new(bytes_per_s: u64) -> Bandwidth {
        Bandwidth(Rc::new(Bucket {
            bytes_per_s: bytes_per_s.max(1),
            level: Cell::new(bytes_in(bytes_per_s, BURST).max(1)),
            filled_at: Cell::new(None),
            held: RefCell::default(),
        }))
    }

    /// How many of `wanted` bytes may pass now. If none, `signal` is not ready until some may.
    pub(crate) fn available(&self, reactor: &Handle, signal: &Rc<Signal>, wanted: usize) -> Option<usize> {
        let bucket = &self.0;
        bucket.fill(reactor.now());
        let level = bucket.level.get();
        if level > 0 && bucket.held.borrow().is_empty() {
            return Some(usize::try_from(level).unwrap_or(usize::MAX).min(wanted));
        }
        bucket.hold(reactor, signal);
        None
    }

    pub(crate) fn spend(&self, bytes: usize) {
        self.0.level.set(self.0.level.get().saturating_sub(bytes as u64));
    }
}

impl Bucket {
    fn fill(&self, now: Instant) {
        let since = self.filled_at.get().map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let gained = bytes_in(self.bytes_per_s, since);
        let full = bytes_in(self.bytes_per_s, BURST).max(1);
        // What is left of a byte stays for the next time, unless the bucket runs over anyway.
        let left = match gained {
            ..1_000_000_000 if self.level.get().saturating_add(gained) < full => {
                since.saturating_sub(Duration::from_nanos(gained * 1_000_000_000 / self.bytes_per_s))
            }
            _ => Duration::ZERO,
        };
        let left_ns = i64::try_from(left.as_nanos()).unwrap_or(0);
        self.filled_at.set(Some(Instant::from_nanos(now.as_nanos().saturating_sub(left_ns))));
        self.level.set(self.level.get().saturating_add(gained).min(full));
    }

    fn hold(self: &Rc<Bucket>, reactor: &Handle, signal: &Rc<Signal>) {
        if signal.is_held() {
            return;
        }
        signal.hold(true);
        let mut held = self.held.borrow_mut();
        let first = held.is_empty();
        held.push(Rc::downgrade(signal));
        drop(held);
        if !first {
            return;
        }
        let whole_byte = Duration::from_nanos(1_000_000_000u64.div_ceil(self.bytes_per_s));
        let bucket = Rc::downgrade(self);
        let release = move |reactor: &Handle| {
            if let Some(bucket) = bucket.upgrade() {
                bucket.fill(reactor.now());
                bucket.release();
            }
        };
        if reactor.after(REFILL.max(whole_byte), release).is_err() {
            self.release();
        }
    }

    fn release(&self) {
        let held = std::mem::take(&mut *self.held.borrow_mut());
        for signal in held.iter().filter_map(Weak::upgrade) {
            signal.hold(false);
        }
    }
}
