//! The files that were read, and the problems that were found so far.

use crate::config::problem::{ConfigError, Phase, Place, Problem, Source};
use crate::config::tree::Node;
use crate::config::{json_text, toml_text};
use crate::system::files::reason;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// The longest file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;

/// What has been read and found wrong.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) problems: Vec<Problem>,
    /// What can be lived with.
    warnings: Vec<Problem>,
    /// In the order in which they were opened.
    opened: Vec<Rc<Source>>,
    first_unreadable: bool,
}

impl Sources {
    /// Reads a file that somebody asked for by name; whatever is wrong is about the file itself.
    pub(super) fn open(&mut self, path: &Path) -> Option<(Rc<Source>, Node)> {
        match read_text(path) {
            Ok(text) => self.parse(path, text),
            Err(message) => {
                self.first_unreadable |= self.opened.is_empty();
                self.problems.push(Problem::of_file(path, message));
                None
            }
        }
    }

    /// Reads a file that another file names; that it cannot be read is a problem of that place.
    pub(super) fn open_named(&mut self, path: &Path, by: &Place) -> Option<(Rc<Source>, Node)> {
        // Whatever else a pattern finds may have no end, or wait for a writer.
        let regular = |about: std::fs::Metadata| match about.is_file() || about.is_dir() {
            true => Ok(()),
            false => Err("it is no regular file".to_owned()),
        };
        let about = std::fs::metadata(path).map_err(|error| reason(&error));
        match about.and_then(regular).and_then(|()| read_text(path)) {
            Ok(text) => self.parse(path, text),
            Err(message) => {
                self.problem(by, format!("{}: {message}", path.display()));
                None
            }
        }
    }

    fn parse(&mut self, path: &Path, text: String) -> Option<(Rc<Source>, Node)> {
        let source = Rc::new(Source::new(path, text));
        self.opened.push(source.clone());
        let (node, faults) = if path.extension().is_some_and(|extension| extension == "json") {
            match json_text::read(&source.text) {
                Ok(node) => (node, Vec::new()),
                Err(fault) => (Node::empty(), vec![fault]),
            }
        } else {
            toml_text::read(&source.text)
        };
        let is_sound = faults.is_empty();
        for (span, message) in faults {
            self.problem(&Place { source: source.clone(), span }, message);
        }
        // What the text says is not known while it cannot be read, and guesses would only add to the noise.
        is_sound.then_some((source, node))
    }

    pub(super) fn problem(&mut self, place: &Place, message: impl Into<String>) {
        self.problems.push(Problem::at(place, message));
    }

    /// As [`Sources::problem`], for what goes wrong in a later phase of the boot.
    pub(super) fn problem_in(&mut self, phase: Phase, place: &Place, message: impl Into<String>) {
        self.problems.push(Problem { phase, ..Problem::at(place, message) });
    }

    pub(super) fn problem_at(
        &mut self,
        source: &Rc<Source>,
        span: &Range<usize>,
        message: impl Into<String>,
    ) {
        self.problem(&Place { source: source.clone(), span: span.clone() }, message);
    }

    /// Something that is most likely not meant, and can be.
    pub(super) fn warn(&mut self, place: &Place, message: impl Into<String>) {
        self.warnings.push(Problem { is_warning: true, ..Problem::at(place, message) });
    }

    /// The same about a line with a secret, which is not shown: others may read what is written.
    pub(super) fn warn_hiding(&mut self, secret: &str, place: &Place, message: impl Into<String>) {
        self.warn(place, message);
        if let Some(warning) = self.warnings.last_mut() {
            warning.line_text = warning.line_text.replace(secret, "***");
        }
    }

    /// All warnings, by file in the order of opening, and by place.
    pub(super) fn into_warnings(mut self) -> Vec<Problem> {
        let warnings = std::mem::take(&mut self.warnings);
        self.in_order(warnings)
    }

    /// All problems, in the same order, and the warnings among them.
    pub(super) fn into_error(mut self, path: &Path) -> ConfigError {
        let mut problems = std::mem::take(&mut self.problems);
        if problems.is_empty() {
            problems.push(Problem::of_file(path, "the file cannot be used"));
        }
        problems.append(&mut self.warnings);
        ConfigError { problems: self.in_order(problems), unreadable: self.first_unreadable }
    }

    fn in_order(&self, mut problems: Vec<Problem>) -> Vec<Problem> {
        let rank = |problem: &Problem| self.opened.iter().position(|source| source.path == problem.path);
        problems.sort_by_key(|problem| (rank(problem), problem.line, problem.column));
        problems.dedup();
        problems
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| reason(&error))?;
    if metadata.is_dir() {
        return Err("it is a folder, not a file".into());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| reason(&error))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {} MiB", FILE_BYTES_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|error| {
        format!("it is not UTF-8 text (byte {} is where that ends)", error.utf8_error().valid_up_to())
    })
}
