//! The name that was meant where none of that name is there.

/// How much of a name may differ: a quarter of its letters.
const PART_MAX: usize = 4;
/// Names that are suggested at once.
const SUGGESTIONS_MAX: usize = 3;
/// The longest name that is compared: that takes the square of its length.
const NAME_BYTES_MAX: usize = 256;

/// The names that are nearest to a word, the nearest first; none if none is near.
pub(in crate::cli) fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if word.len() > NAME_BYTES_MAX {
        return Vec::new();
    }
    let wanted = word.to_lowercase();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        // The last part alone is often all that somebody remembers: `Set` for `Memory.Set`.
        match name.rsplit('.').next() {
            Some(last) if last == wanted => 0,
            _ => strsim::damerau_levenshtein(&wanted, &name),
        }
    };
    let known = known.into_iter().filter(|name| name.len() <= NAME_BYTES_MAX);
    let mut found: Vec<(usize, &str)> = known.map(|name| (distance(name), name)).collect();
    found.retain(|(distance, name)| *distance <= (name.chars().count() / PART_MAX).max(1));
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(_, name)| name).take(SUGGESTIONS_MAX).collect()
}

/// The same as the end of a sentence: `; did you mean Memory.Set?`, or nothing.
pub(in crate::cli) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match near(word, known).as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [others @ .., last] => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_suggested_and_what_is_not_is_not() {
        let known = ["Memory.Set", "Memory.Get", "Memory.Delete", "Order.Place"];
        assert_eq!(near("memory.set", known), ["Memory.Set", "Memory.Get"]);
        assert_eq!(near("Oder.Place", known), ["Order.Place"]);
        assert_eq!(near("place", known), ["Order.Place"]);
        assert!(near("Invoice.Print", known).is_empty());
        assert!(near(&"x".repeat(10_000), known).is_empty());
        assert_eq!(did_you_mean("Memry.Delete", known), "; did you mean Memory.Delete?");
        assert_eq!(did_you_mean("Memory.Xet", known), "; did you mean Memory.Get or Memory.Set?");
        assert_eq!(did_you_mean("", known), "");
    }
}
