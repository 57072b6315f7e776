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
    let (edits, name) = known.iter().map(|name| (strsim::osa_distance(word, name), *name)).min()?;
    (edits <= 1 + name.len() / 4).then_some(name)
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
