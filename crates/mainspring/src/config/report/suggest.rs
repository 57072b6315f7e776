//! What somebody may have meant.

/// The longest word that is compared with the names that are known.
const WORD_BYTES_MAX: usize = 256;

/// Words that help: the nearest name, or all of them.
pub(in crate::config) fn suggest(word: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "nothing is known here".into();
    }
    if let Some(name) = nearest(word, known) {
        return format!("did you mean `{name}`?");
    }
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("known are {}", names.join(", "))
}

/// The name that was meant, if one is near enough.
pub(in crate::config) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // No name is this long, and comparing takes the time of the square.
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let (edits, name) = known.iter().map(|name| (distance(word, name), *name)).min()?;
    (edits <= 1 + name.len() / 4).then_some(name)
}

/// Characters to add, take away, change or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near() {
        assert_eq!(suggest("sokcet", &["socket", "log"]), "did you mean `socket`?");
        assert_eq!(suggest("xyz", &["socket", "log"]), "known are `socket`, `log`");
    }
}
