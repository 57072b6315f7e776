//! One case of a suite.

/// Work with a name, for subjects that are processes of their own.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name in rows and tables.
    pub name: &'static str,
    /// What the subjects are told: the work and its numbers.
    pub words: Vec<String>,
    /// Who does it. Whoever is missing cannot do this work; the subject's file says why.
    pub subjects: &'static [&'static str],
    /// How many interleaved rounds.
    pub rounds: u32,
}

impl Case {
    /// A case whose subjects are told the work and its numbers.
    #[must_use]
    pub fn new(
        name: &'static str,
        work: &str,
        numbers: &[u64],
        subjects: &'static [&'static str],
        rounds: u32,
    ) -> Case {
        let words = std::iter::once(work.to_string()).chain(numbers.iter().map(u64::to_string)).collect();
        Case { name, words, subjects, rounds }
    }
}
