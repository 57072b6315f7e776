//! Prose is at most 100 columns wide, so that it can be read beside code and a change of a word is
//! a change of a line.

use super::Fault;
use super::markdown::{self, Kind};
use std::path::Path;

/// The most columns of a line of prose.
pub(super) const COLUMNS_MAX: usize = 100;

/// Documents that are wider, and why.
const WIDER: [(&str, &str); 1] = [("docs/skill/SKILL.md", "made from other pages")];

/// Whether a document may be wider.
pub(super) fn is_exempt(file: &Path) -> bool {
    WIDER.iter().any(|(document, _)| file == Path::new(document))
}

pub(super) fn check(file: &Path, text: &str) -> Vec<Fault> {
    if is_exempt(file) {
        return Vec::new();
    }
    let prose = markdown::lines(text).filter(|&(_, _, kind)| kind == Kind::Prose);
    let wide = prose.filter(|&(_, line, _)| is_wide(line));
    wide.map(|(line, text, _)| Fault {
        file: file.to_owned(),
        line,
        what: format!(
            "{} columns of prose, at most {COLUMNS_MAX}: `cargo xtask documents --wrap` breaks it",
            columns(text)
        ),
    })
    .collect()
}

/// The same for the comments of a Rust file: what stands in them is Markdown, at its indentation.
pub(super) fn check_comments(file: &Path, text: &str) -> Vec<Fault> {
    let mut bare = String::with_capacity(text.len());
    let mut indents = Vec::new();
    for line in text.lines() {
        let inner = line.trim_start();
        let marker = ["/// ", "//! ", "// "].into_iter().find(|marker| inner.starts_with(marker));
        let comment = marker.map_or("", |marker| &inner[marker.len()..]);
        indents.push(columns(line).saturating_sub(columns(comment)));
        bare.push_str(comment);
        bare.push('\n');
    }
    let prose = markdown::lines(&bare).filter(|&(_, _, kind)| kind == Kind::Prose);
    let wide = prose.filter_map(|(line, comment, _)| {
        let width = columns(comment) + indents.get(line - 1).copied().unwrap_or_default();
        (width > COLUMNS_MAX && can_be_broken(comment)).then_some((line, width))
    });
    wide.map(|(line, width)| Fault {
        file: file.to_owned(),
        line,
        what: format!("{width} columns of comment, at most {COLUMNS_MAX}"),
    })
    .collect()
}

/// Whether a line of prose is too wide, and could be narrower.
pub(super) fn is_wide(line: &str) -> bool {
    columns(line) > COLUMNS_MAX && can_be_broken(line)
}

/// The width of a line as it is read: the targets of links are not.
pub(super) fn columns(line: &str) -> usize {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().chars().count();
    let rest = parts.map(|part| part.split_once(')').map_or(part, |(_, after)| after).chars().count() + 3);
    first + rest.sum::<usize>()
}

/// Whether there is a place to break a line before it is too wide. A long name, such as that of a
/// test, has none, nor has what stands in backticks.
fn can_be_broken(line: &str) -> bool {
    let start = line.len() - line.trim_start_matches([' ', '-', '*', '>']).len();
    let mut quoted = false;
    let mut head = line.chars().take(COLUMNS_MAX).skip(start);
    head.any(|letter| {
        quoted ^= letter == '`';
        letter == ' ' && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<usize> {
        check(Path::new("docs/some.md"), text).into_iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn wide_prose_is_found_and_what_is_no_prose_is_left_alone() {
        let wide = "word ".repeat(21);
        assert_eq!(faults(&format!("short\n{wide}\n- {wide}\n  {wide}")), [2, 3, 4]);
        assert_eq!(faults(&format!("```\n{wide}\n```\n    {wide}\n| {wide} |\n")), [] as [usize; 0]);
        assert_eq!(faults(&format!("```\n```\n{wide}")), [3]);
    }

    #[test]
    fn comments_are_prose_and_the_code_in_them_is_not() {
        let wide = "word ".repeat(19);
        let faults = |text: &str| check_comments(Path::new("some.rs"), text).len();
        assert_eq!(faults(&format!("    /// {wide}\n    let a = 1;\n")), 1);
        assert_eq!(faults(&format!("/// {wide}\n/// ```\n///     {wide}\n/// ```\n")), 0);
        assert_eq!(faults(&format!("let a = 1; /* {wide} {wide} */\n")), 0);
    }

    #[test]
    fn a_name_that_cannot_be_broken_and_the_target_of_a_link_may_be_long() {
        let name = "a".repeat(120);
        assert_eq!(
            faults(&format!("  `{name}`,\n- `{name}`\nsee [here](https://{name}) and there")),
            [] as [usize; 0]
        );
        assert_eq!(faults(&format!("  `{{\"a\": {name}}}`,")), [] as [usize; 0]);
        assert_eq!(faults(&format!("and `{name}`")), [1]);
    }
}
