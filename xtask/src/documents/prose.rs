//! Prose is at most 100 columns wide, so that it can be read beside code and a change of a word is
//! a change of a line.

use super::Fault;
use super::markdown::{self, Kind};
use std::path::Path;

/// The most columns of a line of prose.
pub(super) const COLUMNS_MAX: usize = 100;

/// Documents that are wider, and why.
const WIDER: [(&str, &str); 4] = [
    ("CHANGELOG.md", "a change is a line"),
    ("docs/reference/configuration.md", "made from the code"),
    ("docs/reference/protocol.md", "made from the code"),
    ("docs/skill/SKILL.md", "made from other pages"),
];

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
