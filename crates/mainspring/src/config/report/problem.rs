//! What is wrong with a configuration, and how that is shown: the file, the line, the column, the
//! line itself and a caret.

use crate::config::text::{Place, secrets};
use crate::settings::BootPhase;
use crate::text::printable::one_line;
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
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

impl Problem {
    /// The problem as people read it: what is wrong, where, and the line with a mark; in colours
    /// for a terminal.
    #[must_use]
    pub fn render(&self, in_colours: bool) -> String {
        let level = if self.is_warning { Level::WARNING } else { Level::ERROR };
        let title = level.primary_title(self.message.as_str());
        let path = self.path.display().to_string();
        let group = match self.line {
            0 => title.element(Origin::path(path)),
            line => {
                let mark = AnnotationKind::Primary.span(self.marked());
                title.element(Snippet::source(&self.line_text).line_start(line).path(path).annotation(mark))
            }
        };
        let renderer = if in_colours { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }

    /// The bytes of the line that are meant.
    fn marked(&self) -> Range<usize> {
        let at = |characters: usize| {
            self.line_text.char_indices().nth(characters).map_or(self.line_text.len(), |(at, _)| at)
        };
        let start = self.column.saturating_sub(1);
        at(start)..at(start + self.width)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// Why a configuration cannot be used: everything that is wrong with it, as far as one look can
/// tell.
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

impl ConfigError {
    /// All problems as people read them, in colours for a terminal, and how many there are.
    #[must_use]
    pub fn render(&self, in_colours: bool) -> String {
        let mut page = String::new();
        for problem in &self.problems {
            page.push_str(&problem.render(in_colours));
            page.push_str("\n\n");
        }
        match self.problems.iter().filter(|problem| !problem.is_warning).count() {
            1 => page.push_str("the configuration has an error"),
            count => page.push_str(&format!("the configuration has {count} errors")),
        }
        page
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::text::Source;
    use std::rc::Rc;

    fn problem(text: &str, span: Range<usize>) -> Problem {
        let source = Rc::new(Source::new("a.toml", text));
        Problem::at(&Place { source, span }, "no")
    }

    #[test]
    fn the_caret_is_under_what_is_meant_whatever_comes_before_it() {
        let shown = problem("x = 1\n\té = \"ü\" # b\n", 12..16).to_string();
        assert_eq!(shown, "error: no\n --> a.toml:2:6\n  |\n2 |     é = \"ü\" # b\n  |         ^^^");
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
