//! Files that were read, and places in them.

use crate::config::text::secrets;
use std::cell::OnceCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A file that was read.
#[derive(Debug)]
pub(in crate::config) struct Source {
    pub(in crate::config) path: PathBuf,
    pub(in crate::config) text: String,
    /// Where secrets stand in it, once somebody has asked.
    secrets: OnceCell<Vec<Range<usize>>>,
}

impl Source {
    pub(in crate::config) fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Source {
        Source { path: path.into(), text: text.into(), secrets: OnceCell::new() }
    }

    /// The places of secrets in the text.
    pub(in crate::config) fn secrets(&self) -> &[Range<usize>] {
        self.secrets.get_or_init(|| secrets::places(&self.text))
    }

    /// The folder that relative paths in the file begin at.
    pub(in crate::config) fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// A path that the file names. `./a` reads as `a`.
    pub(in crate::config) fn beside(&self, path: impl AsRef<Path>) -> PathBuf {
        let folder = self.folder();
        if folder == Path::new(".") { path.as_ref().to_path_buf() } else { folder.join(path) }
    }
}

/// A place in a file.
#[derive(Clone, Debug)]
pub(in crate::config) struct Place {
    pub(in crate::config) source: Rc<Source>,
    pub(in crate::config) span: Range<usize>,
}
