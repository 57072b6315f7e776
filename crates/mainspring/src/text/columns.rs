//! Columns that line up on a terminal, whatever is in them.

use unicode_width::UnicodeWidthStr;

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, with spaces behind it up to a width.
pub(crate) fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// The same, with the spaces before it.
pub(crate) fn padded_left(text: &str, to: usize) -> String {
    format!("{}{text}", " ".repeat(to.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns_and_marks_take_none() {
        assert_eq!(padded("日本", 6), "日本  ");
        assert_eq!(padded_left("e\u{301}", 3), "  e\u{301}");
        assert_eq!(padded("too long", 3), "too long");
    }
}
