//! How long requests took of late: a histogram of fixed size, which costs a few nanoseconds a
//! request.
//!
//! Buckets grow with the value, so that a reading is off by one part in sixteen at most. Two
//! periods are kept, this one and the one before: what is told is of the last 10 to 20 seconds.
//! What a period counted is added to the sum of all when it ends, so that whoever wants totals has
//! them, and no request pays for them.

/// How long a period is.
const PERIOD_NS: i64 = 10_000_000_000;
/// Buckets for each doubling of the value, as a power of two.
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;
/// Doublings that are told apart: to 2^37 ns, which is more than two minutes. Beyond: the last
/// bucket.
const DOUBLINGS: usize = 37;
/// Values below [`STEPS`] have a bucket each.
const BUCKETS: usize = STEPS * (DOUBLINGS - STEP_BITS as usize + 1);

/// The requests of one capability that ended of late.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    /// The number of the period that `current` is of.
    period: i64,
    current: Counts,
    previous: Counts,
    /// Everything before the current period.
    before: LatencyTotals,
}

#[derive(Clone, Debug)]
struct Counts {
    buckets: [u32; BUCKETS],
    requests: u64,
    sum_ns: u64,
    max_ns: u64,
}

/// Where the buckets of [`LatencyTotals`] end, as powers of two of nanoseconds: 1 us, 4 us, ...
/// 68 s.
const TOTAL_POWERS: [u32; 14] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36];

/// Requests since the start, in few buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LatencyTotals {
    pub(super) requests: u64,
    pub(super) sum_ns: u64,
    /// How many took less than each of [`Totals::bounds_ns`] and not less than the one before; the
    /// last is the rest.
    pub(super) buckets: [u64; TOTAL_POWERS.len() + 1],
}

impl LatencyTotals {
    /// Where the buckets end, in nanoseconds.
    pub(super) fn bounds_ns() -> [u64; TOTAL_POWERS.len()] {
        TOTAL_POWERS.map(|power| 1 << power)
    }

    fn add(&mut self, counts: &Counts) {
        self.requests += counts.requests;
        self.sum_ns = self.sum_ns.saturating_add(counts.sum_ns);
        for (bucket, count) in counts.buckets.iter().enumerate() {
            // The first value of a bucket: no bound lies inside of one.
            let power = first_of(bucket).checked_ilog2().unwrap_or(0);
            let at = TOTAL_POWERS.iter().position(|bound| power < *bound).unwrap_or(TOTAL_POWERS.len());
            self.buckets[at] += u64::from(*count);
        }
    }

    fn merge(&mut self, other: &LatencyTotals) {
        self.requests += other.requests;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
    }
}

/// What is told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) requests: u64,
    pub(super) mean_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) max_ns: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { period: 0, current: Counts::NONE, previous: Counts::NONE, before: LatencyTotals::default() }
    }
}

impl Latency {
    /// A request took so long.
    #[inline]
    pub(super) fn record(&mut self, took_ns: i64, now_ns: i64) {
        let period = now_ns / PERIOD_NS;
        if period != self.period {
            self.begin(period);
        }
        self.current.add(u64::try_from(took_ns).unwrap_or(0));
    }

    #[cold]
    fn begin(&mut self, period: i64) {
        self.before.add(&self.current);
        // Whatever lies further back than one period is forgotten.
        self.previous = if period == self.period + 1 { self.current.clone() } else { Counts::NONE };
        self.current = Counts::NONE;
        self.period = period;
    }

    /// All of these together, since the start.
    pub(super) fn totals<'a>(all: impl Iterator<Item = &'a Latency>) -> LatencyTotals {
        let mut totals = LatencyTotals::default();
        for latency in all {
            totals.merge(&latency.before);
            totals.add(&latency.current);
        }
        totals
    }

    /// All of these together. `None`: nothing ended of late.
    pub(super) fn summary<'a>(all: impl Iterator<Item = &'a Latency>, now_ns: i64) -> Option<Summary> {
        let mut counts = Counts::NONE;
        let period = now_ns / PERIOD_NS;
        for latency in all {
            if latency.period == period {
                counts.merge(&latency.previous);
            }
            if period - latency.period <= 1 {
                counts.merge(&latency.current);
            }
        }
        counts.summary()
    }
}

impl Counts {
    const NONE: Counts = Counts { buckets: [0; BUCKETS], requests: 0, sum_ns: 0, max_ns: 0 };

    #[inline]
    fn add(&mut self, ns: u64) {
        let bucket = &mut self.buckets[bucket_of(ns)];
        *bucket = bucket.saturating_add(1);
        self.requests += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    fn merge(&mut self, other: &Counts) {
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket = bucket.saturating_add(*more);
        }
        self.requests += other.requests;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    fn summary(&self) -> Option<Summary> {
        Some(Summary {
            requests: self.requests,
            mean_ns: self.sum_ns.checked_div(self.requests)?,
            p50_ns: self.below_which(50),
            p99_ns: self.below_which(99),
            max_ns: self.max_ns,
        })
    }

    /// The value that this share of the requests did not exceed.
    fn below_which(&self, percent: u64) -> u64 {
        let counted: u64 = self.buckets.iter().map(|count| u64::from(*count)).sum();
        let wanted = (counted * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && *count > 0 {
                return middle_of(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// The leading one and the bits behind it choose the bucket.
#[inline]
fn bucket_of(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let doubling = ns.ilog2() - STEP_BITS;
    let step = (ns >> doubling) as usize - STEPS;
    (STEPS * (doubling as usize + 1) + step).min(BUCKETS - 1)
}

/// The least value in a bucket.
fn first_of(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    if octave == 0 { step as u64 } else { ((STEPS + step) as u64) << (octave - 1) }
}

/// The value in the middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    if octave == 0 {
        return step as u64;
    }
    let doubling = octave as u32 - 1;
    (((STEPS + step) as u64) << doubling) + ((1 << doubling) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn summary(latency: &Latency, now_ns: i64) -> Option<Summary> {
        Latency::summary([latency].into_iter(), now_ns)
    }

    #[test]
    fn every_value_has_a_bucket_whose_middle_is_near() {
        let near = |ns: u64| {
            let shown = middle_of(bucket_of(ns));
            assert!(shown.abs_diff(ns) * 16 <= ns, "{ns} is shown as {shown}");
        };
        let mut last = 0;
        for ns in 0..100_000 {
            near(ns);
            let bucket = bucket_of(ns);
            assert!(bucket == last || bucket == last + 1, "{ns}: {bucket} after {last}");
            last = bucket;
        }
        (0..DOUBLINGS).for_each(|power| near(1 << power));
        assert_eq!([(1 << DOUBLINGS) - 1, 1 << DOUBLINGS, u64::MAX].map(bucket_of), [BUCKETS - 1; 3]);
    }

    #[test]
    fn totals_count_every_request_since_the_start_in_its_bucket() {
        let mut latency = Latency::default();
        let took = [0, 1, 1023, 1024, 4095, 4096, 1 << 20, (1 << 36) - 1, 1 << 36, i64::MAX];
        for (at, ns) in took.into_iter().enumerate() {
            latency.record(ns, at as i64 * 3 * SECOND);
        }
        let totals = Latency::totals([&latency, &latency].into_iter());
        assert_eq!(totals.requests, 2 * took.len() as u64);
        assert_eq!(totals.buckets.iter().sum::<u64>(), totals.requests);
        let expected: Vec<u64> = (0..=LatencyTotals::bounds_ns().len())
            .map(|at| {
                let bounds = LatencyTotals::bounds_ns();
                let from = at.checked_sub(1).map_or(0, |before| bounds[before]);
                let to = bounds.get(at).copied().unwrap_or(u64::MAX);
                2 * took.iter().filter(|ns| (from..to).contains(&(**ns as u64))).count() as u64
            })
            .collect();
        assert_eq!(totals.buckets.to_vec(), expected);
    }

    #[test]
    fn most_requests_and_the_slowest_are_told() {
        let mut latency = Latency::default();
        for _ in 0..980 {
            latency.record(1000, SECOND);
        }
        for _ in 0..20 {
            latency.record(SECOND, SECOND);
        }
        let told = summary(&latency, SECOND).unwrap();
        assert_eq!((told.requests, told.max_ns), (1000, SECOND as u64));
        assert_eq!(told.mean_ns, (980 * 1000 + 20 * SECOND as u64) / 1000);
        assert!(told.p50_ns.abs_diff(1000) <= 1000 / 16, "{told:?}");
        assert!(told.p99_ns.abs_diff(SECOND as u64) <= SECOND as u64 / 16, "{told:?}");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut latency = Latency::default();
        assert_eq!(summary(&latency, 0), None);
        latency.record(1000, 9 * SECOND);
        assert_eq!(
            summary(&latency, 19 * SECOND).map(|told| told.requests),
            Some(1),
            "the period before counts"
        );
        assert_eq!(summary(&latency, 21 * SECOND), None);
        latency.record(10, 12 * SECOND);
        assert_eq!(summary(&latency, 12 * SECOND).map(|told| told.requests), Some(2));
        latency.record(10, 45 * SECOND);
        assert_eq!(summary(&latency, 45 * SECOND).map(|told| told.requests), Some(1));
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_harms_nothing() {
        let mut latency = Latency::default();
        latency.record(-5, 20 * SECOND);
        latency.record(i64::MAX, 0);
        assert_eq!(summary(&latency, 0).map(|told| (told.requests, told.max_ns)), Some((1, i64::MAX as u64)));
    }

    #[test]
    fn several_capabilities_are_told_as_one() {
        let (mut one, mut other) = (Latency::default(), Latency::default());
        one.record(100, SECOND);
        other.record(300, SECOND);
        let told = Latency::summary([&one, &other].into_iter(), SECOND).unwrap();
        assert_eq!((told.requests, told.mean_ns, told.max_ns), (2, 200, 300));
    }
}
