//! Rounds: every case once, again and again, so that a noisy moment of the machine hits all of them
//! alike.

use std::time::{Duration, Instant};

/// Runs every case once in each round until it has had its rounds, and says on standard error how
/// far that is.
///
/// `run` is also told the number of the round: one that begins with another subject each time has
/// none that always follows the same one. No round but the first begins after `time_limit`, so that
/// a busy machine gets fewer rounds rather than a longer run.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let mut runs = Vec::new();
/// bench_support::run_rounds(&["a", "b"], |case| if *case == "a" { 1 } else { 2 }, Duration::MAX, |case, round| runs.push((*case, round)));
/// assert_eq!(runs, [("a", 0), ("b", 0), ("b", 1)]);
/// ```
pub fn run_rounds<C>(
    cases: &[C],
    rounds: impl Fn(&C) -> u32,
    time_limit: Duration,
    mut run: impl FnMut(&C, usize),
) {
    let started = Instant::now();
    let last = cases.iter().map(&rounds).max().unwrap_or(0);
    for round in 0..last {
        let elapsed = started.elapsed();
        if round > 0 && elapsed > time_limit {
            eprintln!("the machine is busy: {round} of {last} rounds in the time of a quick run");
            return;
        }
        eprintln!("round {} of {last}, after {:.0} s", round + 1, elapsed.as_secs_f64());
        cases.iter().filter(|case| round < rounds(case)).for_each(|case| run(case, round as usize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_round_but_the_first_begins_after_the_time_limit() {
        let mut runs = 0;
        run_rounds(&[(), ()], |()| 5, Duration::ZERO, |(), _| runs += 1);
        assert_eq!(runs, 2);
    }
}
