//! The cases: what is done, how much of it, by whom, and how often.

/// One case of the suite.
pub(crate) struct Case {
    /// Its name in rows and tables.
    pub(crate) name: &'static str,
    /// What the subjects are told: the work, its number and how many guests do it at once.
    pub(crate) words: [String; 3],
    /// Who does it: the name in rows and tables, and who that is here.
    pub(crate) subjects: &'static [(&'static str, &'static str)],
    /// How many interleaved rounds.
    pub(crate) rounds: u32,
}

/// A guest on sys/loop beside the same code on tokio.
const NEW: &[(&str, &str)] = &[("native", "native"), ("mainspring", "new")];
/// A component that wakes itself: on this host, on one that blocks its thread for 1 ms, on one that
/// does nothing. Beside it the same component parked, and the guest on sys/loop.
const OLD: &[(&str, &str)] = &[
    ("plan", "plan"),
    ("spin", "spin"),
    ("mainspring", "old"),
    ("mainspring-parked", "parked"),
    ("mainspring-new", "new"),
];

/// The rows of the table that is read.
pub(crate) fn rows(quick: bool) -> u64 {
    if quick { 200_000 } else { 1_000_000 }
}

/// The suite; `quick` makes the same cases with less work and fewer rounds.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let pick = |full: u64, short: u64| if quick { short } else { full };
    let rounds = if quick { 5 } else { 7 };
    let case = |name, work: &str, number: u64, guests: u64, subjects| Case {
        name,
        words: [work.to_owned(), number.to_string(), guests.to_string()],
        subjects,
        rounds: if work == "idle" { 1 } else { rounds },
    };
    let (rows, queries, few) = (rows(quick), pick(10_000, 2000), pick(2000, 500));
    let idle_ms = pick(10_000, 3000);
    vec![
        case("rows", "rows", rows, 1, NEW),
        case("load", "load", rows, 1, NEW),
        case("queries", "queries", queries, 1, NEW),
        case("idle", "idle", idle_ms, 1, NEW),
        case("old-rows", "rows", rows, 1, OLD),
        case("old-load", "load", rows, 1, OLD),
        case("old-queries", "queries", queries, 1, OLD),
        case("old-idle", "idle", idle_ms, 1, OLD),
        case("old-beside-idle", "beside-idle", few, 1, OLD),
        case("old-two-guests", "beside-idle", few, 2, OLD),
    ]
}
