//! Text of others in one line: whoever chose it can neither begin a line of his own nor command a
//! terminal.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether a character would end the line, or be obeyed by a terminal.
fn is_obeyed(character: char) -> bool {
    (character.is_control() && character != '\t') || matches!(character, '\u{2028}' | '\u{2029}')
}

/// The text with such characters escaped (`\n`, `\u{1b}`).
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    // Writing to a string does not fail.
    let _ = OneLine(&mut line).write_str(text);
    Cow::Owned(line)
}

/// Writes everything in one line.
pub(crate) struct OneLine<'a, W: Write>(pub(crate) &'a mut W);

impl<W: Write> Write for OneLine<'_, W> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        while let Some(at) = text.find(is_obeyed) {
            let (plain, rest) = text.split_at(at);
            self.0.write_str(plain)?;
            let mut characters = rest.chars();
            if let Some(obeyed) = characters.next() {
                write!(self.0, "{}", obeyed.escape_default())?;
            }
            text = characters.as_str();
        }
        self.0.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_the_line_or_command_a_terminal_is_escaped_and_nothing_else_is() {
        assert!(matches!(one_line("plain, äöü \\n\t\"quoted\""), Cow::Borrowed(_)));
        assert_eq!(
            one_line("a\nb\r\x1b[2J\u{85}\u{2028}\u{2029}\u{7f}é"),
            "a\\nb\\r\\u{1b}[2J\\u{85}\\u{2028}\\u{2029}\\u{7f}é"
        );
    }
}
