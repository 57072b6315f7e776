//! The files that were read, and the problems that were found so far.

use crate::config::report::{ConfigError, Problem};
use crate::config::text::{Node, Place, Source, decode, json, toml};
use crate::settings::BootPhase;
use crate::system::files::reason;
use mainspring_kernel::keys::{KeyType, OutOfBounds};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// The longest file that is read, in bytes.
pub(in crate::config) const FILE_BYTES_MAX: u64 = 16 << 20;

/// What has been read and found wrong.
#[derive(Debug, Default)]
pub(in crate::config) struct Sources {
    pub(in crate::config) problems: Vec<Problem>,
    /// What can be lived with.
    warnings: Vec<Problem>,
    /// In the order in which they were opened.
    opened: Vec<Rc<Source>>,
    first_unreadable: bool,
}

impl Sources {
    /// Reads a file that somebody asked for by name; whatever is wrong is about the file itself.
    pub(in crate::config) fn open(&mut self, path: &Path) -> Option<(Rc<Source>, Node)> {
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
    pub(in crate::config) fn open_named(&mut self, path: &Path, by: &Place) -> Option<(Rc<Source>, Node)> {
        // Whatever else a pattern finds may have no end, or wait for a writer.
        let regular = |about: std::fs::Metadata| match about.is_file() || about.is_dir() {
            true => Ok(()),
            false => Err("it is not a regular file".to_owned()),
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
            match json::read(&source.text) {
                Ok(node) => (node, Vec::new()),
                Err(fault) => (Node::empty(), vec![fault]),
            }
        } else {
            toml::read(&source.text)
        };
        let is_sound = faults.is_empty();
        for (span, message) in faults {
            self.problem(&Place { source: source.clone(), span }, message);
        }
        // What the text says is not known while it cannot be read, and guesses would only add to
        // the noise.
        is_sound.then_some((source, node))
    }

    pub(in crate::config) fn problem(&mut self, place: &Place, message: impl Into<String>) {
        self.problems.push(Problem::at(place, message));
    }

    /// As [`Sources::problem`], for what goes wrong in a later phase of the boot.
    pub(in crate::config) fn problem_in(
        &mut self,
        phase: BootPhase,
        place: &Place,
        message: impl Into<String>,
    ) {
        self.problems.push(Problem { phase, ..Problem::at(place, message) });
    }

    pub(in crate::config) fn problem_at(
        &mut self,
        source: &Rc<Source>,
        span: &Range<usize>,
        message: impl Into<String>,
    ) {
        self.problem(&Place { source: source.clone(), span: span.clone() }, message);
    }

    /// The value of a node; what is wrong with it, or outside its bounds, is added to the problems,
    /// and then there is none.
    pub(in crate::config) fn read<T: KeyType>(&mut self, node: &Node, source: &Rc<Source>) -> Option<T> {
        let value: T = decode::read(node, source, &mut self.problems)?;
        self.check_bounds(&value, node, source).then_some(value)
    }

    /// Whether everything in a value is within its bounds; what is not is added to the problems.
    pub(in crate::config) fn check_bounds(
        &mut self,
        value: &impl KeyType,
        node: &Node,
        source: &Rc<Source>,
    ) -> bool {
        let found = value.out_of_bounds();
        for OutOfBounds { key, message } in &found {
            self.problem_at(source, &node.at_key(key).span, format!("{key} {message}"));
        }
        found.is_empty()
    }

    /// Something that is most likely not meant, and can be.
    pub(in crate::config) fn warn(&mut self, place: &Place, message: impl Into<String>) {
        self.warnings.push(Problem { is_warning: true, ..Problem::at(place, message) });
    }

    /// The same about a line with a secret, which is not shown: others may read what is written.
    pub(in crate::config) fn warn_hiding(&mut self, secret: &str, place: &Place, message: impl Into<String>) {
        self.warn(place, message);
        if let Some(warning) = self.warnings.last_mut() {
            warning.line_text = warning.line_text.replace(secret, "***");
        }
    }

    /// All warnings, by file in the order of opening, and by place.
    pub(in crate::config) fn into_warnings(mut self) -> Vec<Problem> {
        let warnings = std::mem::take(&mut self.warnings);
        self.in_order(warnings)
    }

    /// All problems, in the same order, and the warnings among them.
    pub(in crate::config) fn into_error(mut self, path: &Path) -> ConfigError {
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
