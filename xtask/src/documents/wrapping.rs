//! Breaks paragraphs that are too wide. What is narrow enough is left as it is, so that a change of
//! a word stays small.

use super::markdown::{self, Kind};
use super::prose::{COLUMNS_MAX, columns, is_wide};

/// The document with every paragraph that has too wide a line broken anew.
pub(super) fn wrap(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut paragraph: Vec<&str> = Vec::new();
    for (_, line, kind) in markdown::lines(text) {
        let is_prose = kind == Kind::Prose && !line.trim().is_empty() && !line.starts_with(['#', '<']);
        if !is_prose || begins_paragraph(line) {
            flush(&mut paragraph, &mut out);
        }
        if is_prose {
            paragraph.push(line);
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    flush(&mut paragraph, &mut out);
    out
}

/// Entries of lists, and the tests of a clause, stand on lines of their own.
fn begins_paragraph(line: &str) -> bool {
    let text = line.trim_start();
    marker_length(text) > 0 || text.starts_with("Tests:") || text.starts_with("No test:")
}

/// How long the sign of an entry of a list is: 2 for `- `, 3 for `1. `.
fn marker_length(text: &str) -> usize {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match &text[digits..] {
        rest if digits > 0 && rest.starts_with(". ") => digits + 2,
        rest if digits == 0 && (rest.starts_with("- ") || rest.starts_with("* ")) => 2,
        _ => 0,
    }
}

fn flush(paragraph: &mut Vec<&str>, out: &mut String) {
    let lines = std::mem::take(paragraph);
    if !lines.iter().any(|line| is_wide(line)) {
        for line in lines {
            out.push_str(line);
            out.push('\n');
        }
        return;
    }
    let first = lines[0];
    let indent = first.len() - first.trim_start().len();
    let hanging = " ".repeat(indent + marker_length(first.trim_start()));
    let joined = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let mut line = first[..indent].to_owned();
    let mut is_begun = false;
    for word in words(&joined) {
        if is_begun && columns(&line) + 1 + columns(word) > COLUMNS_MAX {
            out.push_str(&line);
            out.push('\n');
            line.clone_from(&hanging);
            is_begun = false;
        }
        if is_begun {
            line.push(' ');
        }
        line.push_str(word);
        is_begun = true;
    }
    out.push_str(&line);
    out.push('\n');
}

/// The words of a paragraph. What stands in backticks, and a link, is one.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut is_quoted, mut brackets) = (Vec::new(), 0, false, 0_i32);
    for (at, letter) in text.char_indices() {
        match letter {
            '`' => is_quoted = !is_quoted,
            '[' if !is_quoted => brackets += 1,
            ']' if !is_quoted => brackets -= 1,
            ' ' if !is_quoted && brackets <= 0 => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_paragraphs_are_broken_and_the_rest_stays() {
        let word = "seven77 ".repeat(14);
        let text = format!("# Head\n\nshort\nlines\n\n- {word}\n  `a b` end\n  Tests: `x`.\n\n    {word}\n");
        let wrapped = wrap(&text);
        let twelve = "seven77 ".repeat(12);
        let expected = format!(
            "# Head\n\nshort\nlines\n\n- {}\n  seven77 seven77 `a b` end\n  Tests: `x`.\n\n    {word}\n",
            twelve.trim_end()
        );
        assert_eq!(wrapped, expected);
        assert_eq!(wrap(&wrapped), wrapped);
    }

    #[test]
    fn what_is_in_backticks_and_links_stay_whole() {
        assert_eq!(words("a `b c` [d e](f) g"), ["a", "`b c`", "[d e](f)", "g"]);
    }
}
