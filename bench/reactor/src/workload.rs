//! The work that every Rust subject does; `c/workload.h` is the same work for the C subjects. Keep
//! the two in step.
//!
//! A subject implements the traits for what it can do: [`Watching`], [`TimerQueue`], [`Oneshot`].
//! Everything is generic and so inlined into the batches as its users would inline it. Each figure
//! is the minimum of many short batches of CPU time: noise only ever adds.

use std::cell::Cell;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use bench_support::{count_allocations, monotonic_ns, process_cpu_ns};

/// What the callbacks of watched descriptors do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: the descriptors are always ready, level-triggered.
    Dispatch,
    /// One write, which is what makes an edge-triggered eventfd ready again.
    DispatchEdge,
    /// Read what is there, which is one byte, and send as much to the next pair. Edge-triggered by
    /// all who can.
    Pipe,
    /// The same, level-triggered.
    PipeLevel,
}

impl Kind {
    /// Whether a subject that has an edge-triggered mode uses it.
    pub(crate) fn wants_edge(self) -> bool {
        matches!(self, Kind::DispatchEdge | Kind::Pipe)
    }
}

/// A subject that watches descriptors.
pub(crate) trait Watching {
    /// Watches `fds` for reading; the callback of `fds[i]` calls [`on_ready`] and stops the loop
    /// when that is true.
    fn watch(&mut self, fds: &[RawFd], kind: Kind);
    /// The same for descriptors that will never be ready: only their registration is measured.
    fn watch_idle(&mut self, fds: &[RawFd]) {
        self.watch(fds, Kind::PipeLevel);
    }
    /// Watches the same descriptors again while they are watched: replaces each registration.
    fn rewatch(&mut self);
    /// Stops watching each descriptor and watches it anew.
    fn unwatch_watch(&mut self);
    /// Runs until a callback stops the loop.
    fn run(&mut self);
}

/// A subject that keeps many timers, called by number.
pub(crate) trait TimerQueue {
    /// Whether timers can be rescheduled in place.
    const RESCHEDULES: bool = true;
    /// Makes room for `count` timers.
    fn open(&mut self, count: usize);
    /// Sets the instant from which the next delays count.
    fn set_now(&mut self, now: Instant);
    /// The callback calls [`on_timer`] and stops the loop when that is true.
    fn start(&mut self, timer: usize, after_ns: u64);
    /// Cancels a timer.
    fn stop(&mut self, timer: usize);
    /// Moves a timer to another deadline.
    fn reschedule(&mut self, timer: usize, after_ns: u64);
    /// Runs until all timers have fired.
    fn run(&mut self);
}

/// A subject that can wait for one deadline.
pub(crate) trait Oneshot {
    /// Waits for `after` from now and returns the monotonic nanosecond at which the callback ran.
    fn oneshot(&mut self, after: Duration) -> u64;
}

thread_local! {
    static EVENTS_LEFT: Cell<i64> = const { Cell::new(0) };
    static PIPE_FDS: Cell<&'static [RawFd]> = const { Cell::new(&[]) };
    static PIPE_READ: Cell<i64> = const { Cell::new(0) };
    static PIPE_WRITTEN: Cell<i64> = const { Cell::new(0) };
    static PIPE_WRITES_LEFT: Cell<i64> = const { Cell::new(0) };
    static TIMERS_LEFT: Cell<i64> = const { Cell::new(0) };
}

fn add(cell: &'static std::thread::LocalKey<Cell<i64>>, more: i64) -> i64 {
    let sum = cell.get() + more;
    cell.set(sum);
    sum
}

/// What a callback does; true when the loop is to stop.
#[inline]
pub(crate) fn on_ready(kind: Kind, index: usize, fd: RawFd) -> bool {
    match kind {
        Kind::Dispatch => add(&EVENTS_LEFT, -1) == 0,
        Kind::DispatchEdge => {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: eight readable bytes.
            let written = unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
            assert_eq!(written, 8, "an eventfd takes eight bytes");
            add(&EVENTS_LEFT, -1) == 0
        }
        Kind::Pipe | Kind::PipeLevel => {
            // An edge obliges to take all there is; one recv does.
            let mut bytes = [0_u8; 64];
            // SAFETY: as many writable bytes as stated.
            let count = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
            on_bytes(index, count as i64)
        }
    }
}

/// Passes on what was received from pair `index`.
#[inline]
pub(crate) fn on_bytes(index: usize, count: i64) -> bool {
    let read = add(&PIPE_READ, count);
    let fds = PIPE_FDS.get();
    for _byte in 0..count {
        if PIPE_WRITES_LEFT.get() > 0 {
            let next = if 2 * (index + 1) < fds.len() { index + 1 } else { 0 };
            send_byte(fds[2 * next + 1]);
            add(&PIPE_WRITES_LEFT, -1);
            add(&PIPE_WRITTEN, 1);
        }
    }
    read == PIPE_WRITTEN.get()
}

/// What a timer's callback does; true when the loop is to stop.
#[inline]
pub(crate) fn on_timer() -> bool {
    add(&TIMERS_LEFT, -1) == 0
}

fn send_byte(fd: RawFd) {
    // SAFETY: one readable byte.
    unsafe { libc::send(fd, b"e".as_ptr().cast(), 1, 0) };
}

fn eventfds(count: usize) -> &'static [RawFd] {
    let open = |_| {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(1, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        assert!(fd >= 0, "eventfd: {}", std::io::Error::last_os_error());
        fd
    };
    (0..count).map(open).collect::<Vec<RawFd>>().leak()
}

/// Opens `count` socket pairs and returns their read ends.
fn pipes(count: usize) -> Vec<RawFd> {
    let mut fds = vec![0; 2 * count];
    for pair in fds.chunks_mut(2) {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors.
        let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) };
        assert_eq!(result, 0, "socketpair: {}", std::io::Error::last_os_error());
    }
    let read_ends = fds.iter().copied().step_by(2).collect();
    PIPE_FDS.set(fds.leak());
    read_ends
}

/// The least CPU time of `batches` runs of `work`, divided by `per`.
fn minimum_ns(batches: u64, per: u64, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _batch in 0..batches {
        let before = process_cpu_ns();
        work();
        best = best.min((process_cpu_ns() - before) as f64 / per as f64);
    }
    best
}

/// `count` always-ready eventfds and empty callbacks: what the loop itself costs per event.
pub(crate) fn dispatch(subject: &mut impl Watching, kind: Kind, count: u64, turns: u64, batches: u64) {
    subject.watch(eventfds(count as usize), kind);
    let best = minimum_ns(batches, turns * count, || {
        EVENTS_LEFT.set((turns * count) as i64);
        subject.run();
    });
    println!("cpu_per_event ns {best:.2}");
}

/// The same, run under a counter of system calls; allocations are counted here.
pub(crate) fn turns(subject: &mut impl Watching, count: u64, turns: u64) {
    subject.watch(eventfds(count as usize), Kind::Dispatch);
    EVENTS_LEFT.set(16 * count as i64); // reach the steady state first
    subject.run();
    EVENTS_LEFT.set((turns * count) as i64);
    let allocations = count_allocations(|| subject.run());
    println!("allocations_per_turn count {:.4}", allocations as f64 / turns as f64);
}

/// libevent's pipe benchmark: `active` bytes travel round `count` pairs until `writes` more were
/// sent.
pub(crate) fn pipe(subject: &mut impl Watching, kind: Kind, [count, active, writes, runs]: [u64; 4]) {
    let (count, active) = (count as usize, active as usize);
    subject.watch(&pipes(count), kind);
    let mut best = f64::INFINITY;
    for _run in 0..runs {
        for i in 0..active {
            send_byte(PIPE_FDS.get()[2 * (i * (count / active)) + 1]);
        }
        PIPE_READ.set(0);
        PIPE_WRITTEN.set(active as i64);
        PIPE_WRITES_LEFT.set(writes as i64);
        best = best.min(minimum_ns(1, writes + active as u64, || subject.run()));
        assert_eq!(PIPE_READ.get(), (writes + active as u64) as i64, "the loop stopped early");
    }
    println!("cpu_per_event ns {best:.2}");
}

/// Registration alone: no descriptor is ready.
pub(crate) fn register<S: Watching>(subject: &mut S, count: u64, again: fn(&mut S), runs: u64) {
    subject.watch_idle(&pipes(count as usize));
    again(subject);
    let best = minimum_ns(runs, count, || again(subject));
    println!("cpu_per_fd ns {best:.2}");
}

/// Random delays and a random order, the same for every subject.
struct TimerPlan {
    order: Vec<u32>,
    /// Far away, so that nothing fires by itself. In nanoseconds, as the others.
    first: Vec<u64>,
    second: Vec<u64>,
    /// All passed after `due_after`.
    soon: Vec<u64>,
    due_after: Duration,
}

impl TimerPlan {
    fn new(count: usize, spread_ms: u64) -> TimerPlan {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut plan = TimerPlan {
            order: (0..count as u32).collect(),
            first: Vec::with_capacity(count),
            second: Vec::with_capacity(count),
            soon: Vec::with_capacity(count),
            due_after: Duration::from_millis(2 * spread_ms + 20),
        };
        let (minute_ns, spread_ns) = (60_000_000_000, spread_ms * 1_000_000);
        for _timer in 0..count {
            plan.first.push(minute_ns + random.next() % minute_ns);
            plan.second.push(minute_ns + random.next() % minute_ns);
            plan.soon.push(spread_ns + random.next() % spread_ns);
        }
        for i in (1..count).rev() {
            plan.order.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        plan
    }

    fn insert(&self, queue: &mut impl TimerQueue, delays: &[u64]) -> f64 {
        queue.set_now(Instant::now());
        minimum_ns(1, delays.len() as u64, || {
            for (timer, &after_ns) in delays.iter().enumerate() {
                queue.start(timer, after_ns);
            }
        })
    }

    fn cancel(&self, queue: &mut impl TimerQueue) -> f64 {
        minimum_ns(1, self.order.len() as u64, || {
            for &timer in &self.order {
                queue.stop(timer as usize);
            }
        })
    }

    fn reschedule(&self, queue: &mut impl TimerQueue) -> f64 {
        queue.set_now(Instant::now());
        minimum_ns(1, self.order.len() as u64, || {
            for &timer in &self.order {
                queue.reschedule(timer as usize, self.second[timer as usize]);
            }
        })
    }

    /// Costs of inserting timers that soon are due, and of firing them.
    fn fire(&self, queue: &mut impl TimerQueue) -> (f64, f64) {
        let start = Instant::now();
        let insert = self.insert(queue, &self.soon);
        std::thread::sleep((start + self.due_after).saturating_duration_since(Instant::now()));
        TIMERS_LEFT.set(self.order.len() as i64);
        let fire = minimum_ns(1, self.order.len() as u64, || queue.run());
        assert_eq!(TIMERS_LEFT.get(), 0, "a due timer did not fire");
        (insert, fire)
    }
}

/// xorshift64, as in `c/workload.h`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Insert, cancel, reschedule and fire `count` timers.
pub(crate) fn timers<Q: TimerQueue>(queue: &mut Q, count: u64, spread_ms: u64, repeats: u64) {
    let plan = TimerPlan::new(count as usize, spread_ms);
    let [mut insert, mut cancel, mut reschedule, mut fire] = [f64::INFINITY; 4];
    queue.open(count as usize);
    for _repeat in 0..repeats {
        insert = insert.min(plan.insert(queue, &plan.first));
        if Q::RESCHEDULES {
            reschedule = reschedule.min(plan.reschedule(queue));
        }
        cancel = cancel.min(plan.cancel(queue));
        let (insert_again, fire_all) = plan.fire(queue);
        insert = insert.min(insert_again);
        fire = fire.min(fire_all);
    }
    println!("insert ns {insert:.2}\ncancel ns {cancel:.2}");
    if Q::RESCHEDULES {
        println!("reschedule ns {reschedule:.2}");
    }
    println!("fire ns {fire:.2}");
}

/// How much later than asked a one-shot fires; negative is early.
pub(crate) fn lateness(subject: &mut impl Oneshot, after_ns: u64, samples: u64) {
    let late_us = |_| {
        let due = monotonic_ns() + after_ns;
        let fired = subject.oneshot(Duration::from_nanos(after_ns));
        format!(" {:.2}", (fired as i64 - due as i64) as f64 / 1000.0)
    };
    let samples: Vec<String> = (0..samples).map(late_us).collect();
    println!("lateness us{}", samples.concat());
}

/// Every pair of sockets takes two descriptors: 9,000 pairs are beyond the usual soft limit. Where
/// it cannot be raised, opening that many says so.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid rlimit to write to, then to read from.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}
