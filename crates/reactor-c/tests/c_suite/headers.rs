//! Reading the headers.

use crate::run::crate_folder;
use std::collections::BTreeSet;

/// A header's text.
pub(crate) fn header(name: &str) -> String {
    std::fs::read_to_string(crate_folder().join("include").join(name)).expect("a header")
}

/// The functions that a header declares: every identifier of ours outside comments that an opening
/// parenthesis follows.
pub(crate) fn declared_functions(header: &str) -> BTreeSet<String> {
    let text = without_comments(header);
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let ours = |word: &str| word.starts_with("ms_reactor_") || word.starts_with("reactor_");
    let word_before = |end: usize| text[..end].rsplit(|character| !is_word(character)).next().unwrap_or("");
    text.match_indices('(')
        .map(|(end, _)| word_before(end))
        .filter(|word| ours(word))
        .map(String::from)
        .collect()
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}
