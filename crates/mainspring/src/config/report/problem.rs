//! What is wrong with a configuration, and how that is shown: the file, the line, the column, the line itself and a caret.

use crate::config::text::{Place, secrets};
use crate::settings::BootPhase;
use crate::text::printable::one_line;
use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, and what to do about it.
    pub message: String,
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 when it is about the file as a whole.
    pub line: usize,
    /// The column, in characters from 1; 0 when it is about the file as a whole.
    pub column: usize,
    /// The text of that line, without secrets.
    pub line_text: String,
    /// How many characters of it are meant.
    pub width: usize,
    /// The phase of the boot that fails of it.
    pub phase: BootPhase,
    /// Whether it can be lived with: most likely it is not meant, but it can be.
    pub is_warning: bool,
}

/// Columns of a line that are shown.
const SHOWN_COLUMNS_MAX: usize = 160;

impl Problem {
    pub(in crate::config) fn at(place: &Place, message: impl Into<String>) -> Problem {
        let text = &place.source.text;
        let secrets = place.source.secrets();
        let start = place.span.start.min(text.len());
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        // What spans lines is marked on its first one.
        let end = place.span.end.clamp(start, line_end);
        let shown = line_start..line_start + text[line_start..line_end].trim_end_matches('\r').len();
        Problem {
            message: secrets::masked_message(message.into(), text, secrets),
            path: place.source.path.clone(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            line_text: secrets::masked(text, shown, secrets),
            width: text[start..end].trim_end().chars().count().max(1),
            phase: BootPhase::Load,
            is_warning: false,
        }
    }

    /// A problem with a file as a whole: it cannot be read, for one.
    pub(in crate::config) fn of_file(path: &Path, message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            path: path.to_path_buf(),
            line: 0,
            column: 0,
            line_text: String::new(),
            width: 0,
            phase: BootPhase::Load,
            is_warning: false,
        }
    }
}

impl Problem {
    /// Where and what, in one line, without the text of the file: for a log.
    fn in_one_line(&self) -> String {
        let (path, message) = (self.path.display(), &self.message);
        let told = match self.line {
            0 => format!("{path}: {message}"),
            line => format!("{path}:{line}:{}: {message}", self.column),
        };
        one_line(&told).into_owned()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.is_warning { "warning" } else { "error" };
        if self.line == 0 {
            return write!(f, "{severity}: {}\n --> {}", self.message, self.path.display());
        }
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // A tab is one column in the count and must be one on the screen. Of a very long line, what is around the place is shown.
        let skipped = (self.column - 1).saturating_sub(SHOWN_COLUMNS_MAX / 2);
        let shown: String = self
            .line_text
            .chars()
            .skip(skipped)
            .take(SHOWN_COLUMNS_MAX)
            .map(|c| match c {
                '\t' => ' ',
                c if c.is_control() => char::REPLACEMENT_CHARACTER,
                c => c,
            })
            .collect();
        let before = self.column - 1 - skipped;
        let width = self.width.min(SHOWN_COLUMNS_MAX - before.min(SHOWN_COLUMNS_MAX - 1));
        writeln!(f, "{severity}: {}", self.message)?;
        writeln!(f, "{margin}--> {}:{}:{}", self.path.display(), self.line, self.column)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {shown}")?;
        write!(f, "{margin} | {}{}", " ".repeat(before), "^".repeat(width))
    }
}

/// Why a configuration cannot be used: everything that is wrong with it, as far as one look can tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The problems, in the order of the files; warnings are among them.
    pub problems: Vec<Problem>,
    /// Whether the file itself could not be read.
    pub unreadable: bool,
}

/// Problems that a log tells of.
const LOGGED_PROBLEMS_MAX: usize = 10;

impl ConfigError {
    /// The phase of the boot that fails: the first one that something is wrong in.
    #[must_use]
    pub fn phase(&self) -> BootPhase {
        self.problems.iter().map(|problem| problem.phase).min().unwrap_or_default()
    }

    /// The problems for a log: a line, with no text of the files.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let mut told: Vec<String> =
            self.problems.iter().take(LOGGED_PROBLEMS_MAX).map(Problem::in_one_line).collect();
        let more = self.problems.len().saturating_sub(LOGGED_PROBLEMS_MAX);
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        told.join("; ")
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}\n")?;
        }
        match self.problems.iter().filter(|problem| !problem.is_warning).count() {
            1 => write!(f, "the configuration has an error"),
            count => write!(f, "the configuration has {count} errors"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::text::Source;
    use std::ops::Range;
    use std::rc::Rc;

    fn problem(text: &str, span: Range<usize>) -> Problem {
        let source = Rc::new(Source::new("a.toml", text));
        Problem::at(&Place { source, span }, "no")
    }

    #[test]
    fn the_caret_is_under_what_is_meant_whatever_comes_before_it() {
        let shown = problem("x = 1\n\té = \"ü\" # b\n", 12..16).to_string();
        assert_eq!(shown, "error: no\n --> a.toml:2:6\n  |\n2 |  é = \"ü\" # b\n  |      ^^^");
    }

    #[test]
    fn places_at_the_end_beyond_it_and_over_several_lines_are_shown() {
        assert_eq!(problem("", 0..0).column, 1);
        assert_eq!((problem("ab\n", 99..120).line, problem("ab\n", 99..120).width), (2, 1));
        assert_eq!(problem("a = [\n1,\n]", 4..10).width, 1);
    }

    #[test]
    fn of_a_very_long_line_a_window_is_shown() {
        let text = format!("a = \"{}\" b", "x".repeat(5000));
        let shown = problem(&text, 5007..5008).to_string();
        assert!(shown.lines().all(|line| line.chars().count() < 200), "{shown}");
        assert!(shown.contains('b'));
    }
}
