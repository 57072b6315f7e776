//! A minute of load on the daemon alone: is its memory flat?

use crate::cases::Case;
use crate::harness::{Folder, print_defaults, put_under_load};
use crate::subjects;
use bench_support::{Keep, Options, Results, Target, publish};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SOAK: Duration = Duration::from_secs(60);
/// What grows until then (the window of answers, the history) grows to its bounds.
const WARM_UP: Duration = Duration::from_secs(10);
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
const MIB: f64 = 1024.0 * 1024.0;
/// Memory may grow by this part after the warm-up.
const GROWTH_MAX: f64 = 1.02;

pub(crate) fn run(options: &Options) -> Result<(), String> {
    print_defaults();
    let folder = Folder::new()?;
    let subject = subjects::start("mainspring", folder.path())?;
    let case = Case { name: "soak".into(), connections: 64, depth: 64 };
    let mut results = Results::new("bus");
    let done = AtomicBool::new(false);
    let samples = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let started = Instant::now();
            let mut samples: Vec<(Duration, f64)> = Vec::new();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(SAMPLE_EVERY);
                if let Ok(bytes) = subject.server.resident_bytes() {
                    samples.push((started.elapsed(), bytes as f64 / MIB));
                }
            }
            samples
        });
        let put = put_under_load(&subject, &case, SOAK.as_millis() as u64, &mut results);
        done.store(true, Ordering::Relaxed);
        let samples = watching.join().map_err(|_| "the watch over memory failed".to_owned())?;
        put.map(|()| samples)
    })?;
    let warm: Vec<f64> =
        samples.iter().filter(|(at, _)| *at > WARM_UP).map(|(_, resident)| *resident).collect();
    let (Some(first), Some(last)) = (warm.first(), warm.last()) else {
        return Err("the soak was too short to say anything".into());
    };
    let highest = warm.iter().copied().fold(0.0, f64::max);
    for (metric, value) in
        [("resident_after_10_s", *first), ("resident_at_the_end", *last), ("resident_max", highest)]
    {
        results.record("soak", subject.name, metric, "MiB", Keep::Median, value);
    }
    results.record("soak", subject.name, "growth", "times", Keep::Median, highest / first);
    publish(&results, &[Target::at_most("soak", "growth", GROWTH_MAX)], options);
    Ok(())
}
