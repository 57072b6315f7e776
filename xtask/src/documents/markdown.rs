//! As much of Markdown as the checks need: which lines of a document are prose, and what is in
//! backticks.

/// What a line of a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Prose,
    /// In a fence, or indented as code is.
    Code,
    /// A row of a table: its width is that of its cells.
    Table,
}

/// The lines of a document with their numbers, counted from 1, and what each is.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str, Kind)> {
    let mut fenced = false;
    text.lines().enumerate().map(move |(index, line)| {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```");
        let kind = if fenced || is_fence || is_indented_code(line, trimmed) {
            Kind::Code
        } else if trimmed.starts_with('|') {
            Kind::Table
        } else {
            Kind::Prose
        };
        fenced ^= is_fence;
        (index + 1, line, kind)
    })
}

/// Four spaces make code, unless an entry of a list begins there.
fn is_indented_code(line: &str, trimmed: &str) -> bool {
    line.starts_with("    ") && !trimmed.starts_with("- ")
}

/// What stands in backticks on a line.
pub(super) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
