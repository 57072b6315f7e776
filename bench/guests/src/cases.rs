//! The cases: what is done, how much of it, by whom, and how often.

/// One case of the suite.
pub(crate) struct Case {
    /// Its name in rows and tables.
    pub(crate) name: &'static str,
    /// What the subjects are told: the work and its numbers.
    pub(crate) words: Vec<String>,
    /// Who does it.
    pub(crate) subjects: &'static [&'static str],
    /// How many interleaved rounds.
    pub(crate) rounds: u32,
}

const OURS: &[&str] = &["mainspring"];
const ECHO: &[&str] = &["native", "mainspring"];
const POLL: &[&str] = &["mainspring", "wasi-poll"];

/// The suite; `quick` makes the same cases with fewer rounds and samples.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let pick = |full: u64, short: u64| if quick { short } else { full };
    let rounds = |full: u32, short: u32| if quick { short } else { full };
    let case = |name, work: &str, numbers: &[u64], subjects, rounds| {
        let words = std::iter::once(work.to_string()).chain(numbers.iter().map(u64::to_string)).collect();
        Case { name, words, subjects, rounds }
    };
    // park: guests, milliseconds. echo: connections, active at a time, round trips a batch, batches. poll: the same. start: guests.
    vec![
        case("park-1000", "park", &[1000, pick(10_000, 2000)], OURS, 1),
        case("park-10000", "park", &[10_000, pick(10_000, 2000)], OURS, 1),
        case("echo-1", "echo", &[1, 1, 500, pick(40, 20)], ECHO, rounds(10, 3)),
        case("echo-32", "echo", &[32, 32, 50, pick(40, 20)], ECHO, rounds(10, 3)),
        case("poll-10", "poll", &[10, 1, 500, pick(40, 20)], POLL, rounds(8, 2)),
        case("poll-1000", "poll", &[1000, 1, 500, pick(40, 20)], POLL, rounds(8, 2)),
        case("poll-10000", "poll", &[10_000, 1, 500, pick(20, 10)], POLL, rounds(8, 2)),
        case("start-warm", "start-warm", &[pick(5000, 2000)], OURS, rounds(10, 3)),
        case("start-fresh", "start-fresh", &[pick(5000, 2000)], OURS, rounds(10, 3)),
    ]
}
