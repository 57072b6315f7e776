//! The kernel's use of timers: every request has a timeout, nearly all are answered long before,
//! and each turn asks what is due and when the next one is.

use mainspring_kernel::wheel::{TimerKey, Wheel};
use std::collections::VecDeque;

/// Virtual time between two requests: ten thousand a second.
const STEP_NS: i64 = 100_000;
/// The shipped timeout of a request.
const TIMEOUT_NS: i64 = 30_000_000_000;
/// One request in so many is not answered, and times out.
const UNANSWERED: u64 = 1024;
/// Requests per round, and rounds. The least round counts: noise only ever adds. Together they are
/// 200 s of virtual time, so what is not answered does time out.
const STEPS: usize = 50_000;
const ROUNDS: usize = 40;
/// The same for the worst request, which is timed one by one: long enough for whatever comes now
/// and then to come.
const WORST_STEPS: usize = 250_000;
const WORST_ROUNDS: usize = 8;

/// How many requests are unfinished at any time, and how their timeouts differ.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) pending: usize,
    /// Timeouts are up to this much longer than the shipped one.
    pub(crate) spread_ns: i64,
}

/// What is measured.
pub(crate) const LOADS: [Load; 4] = [
    Load { name: "100 pending", pending: 100, spread_ns: 0 },
    Load { name: "100 pending, spread", pending: 100, spread_ns: 20_000_000_000 },
    Load { name: "100,000 pending", pending: 100_000, spread_ns: 0 },
    Load { name: "100,000 pending, spread", pending: 100_000, spread_ns: 20_000_000_000 },
];

/// A set of timers under measurement.
pub(crate) trait Timers {
    /// What names one of them.
    type Key;
    /// Whose it is.
    const NAME: &'static str;

    /// Sets a timer.
    fn schedule(&mut self, deadline_ns: i64) -> Self::Key;

    /// Takes one back that has not fired.
    fn cancel(&mut self, key: Self::Key);

    /// What a turn asks: fires what is due, says how many that were, and looks up when the next one
    /// is.
    fn turn(&mut self, now_ns: i64) -> usize;
}

/// The kernel's own.
#[derive(Default)]
pub(crate) struct TimingWheel(Wheel<[u64; 2]>);

impl Timers for TimingWheel {
    type Key = TimerKey;
    const NAME: &'static str = "wheel of the kernel";

    fn schedule(&mut self, deadline_ns: i64) -> TimerKey {
        self.0.schedule(deadline_ns, [0; 2])
    }

    fn cancel(&mut self, key: TimerKey) {
        self.0.cancel(key);
    }

    fn turn(&mut self, now_ns: i64) -> usize {
        let fired = std::iter::from_fn(|| self.0.pop_due(now_ns)).count();
        std::hint::black_box(self.0.next_deadline());
        fired
    }
}

/// The heading of what [`measure`] prints.
pub(crate) fn print_head() {
    let (each, worst) = ("ns/request", "worst, us");
    println!("{:<26} {:<34} {each:>12} {worst:>12} {:>8}", "load", "timers", "fired");
}

/// Runs a load and prints what a request costs (schedule, cancel, and one turn), and the worst that
/// one request ever costs. `clock_ns` had better be a clock of CPU time: the worst by any other is
/// that the machine did something else.
pub(crate) fn measure<T: Timers>(load: &Load, clock_ns: fn() -> u64, make: impl FnOnce() -> T) {
    let mut requests = Requests {
        load,
        timers: make(),
        keys: VecDeque::with_capacity(load.pending + 1),
        random: 88_172_645_463_325_252,
        now_ns: 0,
        fired: 0,
    };
    for _ in 0..load.pending + STEPS {
        requests.step();
    }
    let (mut least_ns, mut worst_ns) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let start_ns = clock_ns();
        for _ in 0..STEPS {
            requests.step();
        }
        least_ns = least_ns.min((clock_ns() - start_ns) as f64 / STEPS as f64);
    }
    for _ in 0..WORST_ROUNDS {
        let worst = (0..WORST_STEPS).map(|_| {
            let start_ns = clock_ns();
            requests.step();
            (clock_ns() - start_ns) as f64
        });
        // What the work itself causes comes in every round; what the machine causes does not.
        worst_ns = worst_ns.min(worst.fold(0.0, f64::max));
    }
    let (worst_us, fired) = (worst_ns / 1e3, requests.fired);
    println!("{:<26} {:<34} {least_ns:>12.1} {worst_us:>12.1} {fired:>8}", load.name, T::NAME);
}

/// A load under way.
struct Requests<'a, T: Timers> {
    load: &'a Load,
    timers: T,
    keys: VecDeque<T::Key>,
    random: u64,
    now_ns: i64,
    fired: usize,
}

impl<T: Timers> Requests<'_, T> {
    /// A request comes, the oldest is answered, and a turn is made.
    fn step(&mut self) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.now_ns += STEP_NS;
        let random = (self.random >> 1).cast_signed();
        let longer_ns = if self.load.spread_ns > 0 { random % self.load.spread_ns } else { 0 };
        let key = self.timers.schedule(self.now_ns + TIMEOUT_NS + longer_ns);
        if !self.random.is_multiple_of(UNANSWERED) {
            self.keys.push_back(key);
        }
        if self.keys.len() > self.load.pending
            && let Some(key) = self.keys.pop_front()
        {
            self.timers.cancel(key);
        }
        self.fired += self.timers.turn(self.now_ns);
    }
}
