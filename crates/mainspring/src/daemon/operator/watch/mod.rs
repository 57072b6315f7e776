//! `mainspring up --watch`: a change of a program, of what it imports in its folder, of a manifest
//! or of the configuration is noticed, and the settings are read again, as by a hangup.
//!
//! `tree` watches folders by inotify. This file waits until a burst of changes is over and looks
//! whether something is different at all. The pump owns it and does the reading.

mod tree;

use crate::daemon::operator::reload::Stamped;
use crate::daemon::pump::Pump;
use crate::settings::Program;
use crate::system::file_stamp::FileStamp;
use mainspring_reactor::Handle;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use tree::{Root, Tree};

/// Files whose content programs import. A capability may write other files into its own folder
/// without being restarted for it.
const SOURCES: &[&str] = &[
    "py", "pyi", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "sh", "bash", "rb", "lua", "pl", "pm",
    "php", "r", "tcl", "wasm",
];
/// The largest file whose content is compared; a larger one counts as changed whenever it is
/// written.
const COMPARED_BYTES_MAX: u64 = 4 << 20;
/// Files whose content is known. Beyond: they count as changed whenever they are written.
const COMPARED_FILES_MAX: usize = 4096;
/// Names that are told at once.
const NAMES_MAX: usize = 3;

/// The files and patterns that the settings come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedSources {
    /// The configuration.
    pub file: Option<PathBuf>,
    /// Patterns of manifests, as absolute paths.
    pub patterns: Vec<PathBuf>,
}

/// Says where the settings come from; asked again whenever they are read again.
pub type SourceFinder = Arc<dyn Fn() -> WatchedSources + Send + Sync>;

/// What is watched on behalf of a daemon.
pub(crate) struct FileWatch {
    sources: SourceFinder,
    tree: Rc<RefCell<Tree>>,
    /// Hashes of what was in the files that changed before.
    contents: Rc<RefCell<HashMap<PathBuf, u64>>>,
}

impl FileWatch {
    /// Watches whatever the daemon's capabilities are made of.
    pub(crate) fn start(
        reactor: &Handle,
        pump: &Rc<Pump>,
        sources: SourceFinder,
    ) -> Result<FileWatch, String> {
        let contents: Rc<RefCell<HashMap<PathBuf, u64>>> = Rc::default();
        let (told, found, known): (Weak<Pump>, _, _) =
            (Rc::downgrade(pump), Arc::clone(&sources), Rc::clone(&contents));
        let tree = Tree::new(reactor, move |_, changed| {
            let Some(pump) = told.upgrade() else { return };
            let changed: BTreeSet<PathBuf> =
                changed.into_iter().filter(|path| is_other_content(&mut known.borrow_mut(), path)).collect();
            let concerned =
                pump.with_capabilities(|capabilities| concerned(&changed, capabilities, &found()));
            if !concerned.files.is_empty() {
                tracing::info!("changed: {}", names(&concerned.files));
                Pump::reload_touched(&pump, concerned.capabilities);
            }
        })?;
        let watch = FileWatch { sources, tree, contents };
        watch.follow(pump);
        Ok(watch)
    }

    /// Watches what the capabilities are made of now.
    pub(crate) fn follow(&self, pump: &Pump) {
        let roots = pump.with_capabilities(|capabilities| roots(capabilities, &(self.sources)()));
        self.tree.borrow_mut().watch(&roots);
        // What is there now is what a change is compared with.
        for root in roots.iter().filter(|root| !root.is_deep) {
            for entry in std::fs::read_dir(&root.folder).into_iter().flatten().flatten() {
                is_other_content(&mut self.contents.borrow_mut(), &entry.path());
            }
        }
    }
}

/// Whether a file is not what it was: touching it, or saving it as it was, changes nothing.
fn is_other_content(known: &mut HashMap<PathBuf, u64>, path: &Path) -> bool {
    let is_small =
        std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= COMPARED_BYTES_MAX);
    let Some(bytes) = is_small.then(|| std::fs::read(path).ok()).flatten() else {
        // Gone, or too large to be compared.
        known.remove(path);
        return true;
    };
    let hash = foldhash::fast::FixedState::default().hash_one(bytes);
    if known.len() >= COMPARED_FILES_MAX && !known.contains_key(path) {
        return true;
    }
    known.insert(path.to_owned(), hash) != Some(hash)
}

fn names(files: &BTreeSet<PathBuf>) -> String {
    let shown: Vec<String> = files.iter().take(NAMES_MAX).map(|path| path.display().to_string()).collect();
    let more = files.len().saturating_sub(NAMES_MAX);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// What a change leads to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Concerned {
    /// The files that matter.
    files: BTreeSet<PathBuf>,
    /// Capabilities that import one of them.
    capabilities: BTreeSet<String>,
}

fn concerned(changed: &BTreeSet<PathBuf>, capabilities: &[&Stamped], sources: &WatchedSources) -> Concerned {
    let mut found = Concerned::default();
    for path in changed {
        let is_it = |file: &Path| whole(file) == *path;
        let is_setting = sources.file.as_deref().is_some_and(is_it)
            || sources.patterns.iter().any(|pattern| fits(pattern, path))
            || capabilities.iter().any(|(capability, _)| capability.file.as_deref().is_some_and(is_it));
        let of = importers(path, capabilities);
        let is_program = capabilities.iter().any(|(_, stamp)| stamp.iter().map(FileStamp::path).any(is_it));
        if is_setting || is_program || !of.is_empty() {
            found.files.insert(path.clone());
            found.capabilities.extend(of);
        }
    }
    found
}

/// The capabilities whose folder a source file is in: of folders within each other the innermost.
fn importers(path: &Path, capabilities: &[&Stamped]) -> Vec<String> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    if !extension.is_some_and(|extension| SOURCES.contains(&extension)) {
        return Vec::new();
    }
    let folders = capabilities.iter().filter_map(|(capability, _)| match &capability.program {
        Program::Process(process) => {
            let folder = real(&process.folder);
            path.starts_with(&folder).then(|| (folder.components().count(), &capability.manifest.id))
        }
        _ => None,
    });
    let folders: Vec<(usize, &String)> = folders.collect();
    let depth = folders.iter().map(|(depth, _)| *depth).max().unwrap_or(0);
    folders.into_iter().filter(|(of, _)| *of == depth).map(|(_, id)| id.clone()).collect()
}

/// Whether a path may be one that a pattern names: as many parts, and the last one the same, or a
/// pattern itself.
fn fits(pattern: &Path, path: &Path) -> bool {
    let is_pattern = |name: &str| name.contains(['*', '?', '[', '{']);
    let same_name = match (pattern.file_name().and_then(|name| name.to_str()), path.file_name()) {
        (Some(name), Some(_)) if is_pattern(name) => pattern.extension() == path.extension(),
        (Some(name), Some(other)) => other == name,
        _ => false,
    };
    let has_depth_of_its_own = pattern.to_str().is_some_and(|text| text.contains("**"));
    same_name
        && path.starts_with(real(&base(pattern)))
        && (has_depth_of_its_own || pattern.components().count() == path.components().count())
}

/// The part of a pattern that is a path.
fn base(pattern: &Path) -> PathBuf {
    let is_plain =
        |part: &std::path::Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
    let mut base: PathBuf = pattern.components().take_while(is_plain).collect();
    // A pattern without any is a file.
    if base == pattern {
        base.pop();
    }
    base
}

/// The folders to watch.
fn roots(capabilities: &[&Stamped], sources: &WatchedSources) -> BTreeSet<Root> {
    let mut roots = BTreeSet::new();
    let mut add = |folder: PathBuf, is_deep: bool| {
        roots.insert(Root { folder, is_deep });
    };
    let folder_of = |file: &Path| whole(file).parent().map_or_else(PathBuf::new, Path::to_owned);
    if let Some(file) = &sources.file {
        add(folder_of(file), false);
    }
    for pattern in &sources.patterns {
        let base = base(pattern);
        add(real(&base), Some(base.as_path()) != pattern.parent());
    }
    for (capability, stamp) in capabilities {
        for file in capability.file.as_deref().into_iter().chain(stamp.iter().map(FileStamp::path)) {
            add(folder_of(file), false);
        }
        match &capability.program {
            Program::Process(process) => add(real(&process.folder), true),
            Program::Guest(guest) => add(folder_of(&guest.module), false),
            Program::Native(_) | Program::Uplink(_) => {}
        }
    }
    roots
}

/// A folder as the operating system names it, so that two names of one folder are one.
fn real(folder: &Path) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The same of a file, which may be a link itself or not be there.
fn whole(file: &Path) -> PathBuf {
    match (file.parent(), file.file_name()) {
        (Some(folder), Some(name)) => real(folder).join(name),
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_is_not_there_yet_fits_its_pattern() {
        let pattern = Path::new("/app/capabilities/*/capability.toml");
        assert!(fits(pattern, Path::new("/app/capabilities/new/capability.toml")));
        for other in [
            "/app/capabilities/capability.toml",
            "/app/capabilities/new/other.toml",
            "/other/capabilities/new/capability.toml",
        ] {
            assert!(!fits(pattern, Path::new(other)), "{other}");
        }
        assert!(fits(Path::new("/app/*.toml"), Path::new("/app/x.toml")));
        assert_eq!(base(pattern), Path::new("/app/capabilities"));
        assert_eq!(base(Path::new("/app/a.toml")), Path::new("/app"));
    }

    #[test]
    fn a_file_that_is_saved_as_it_was_has_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut known) = (folder.path().join("a.py"), HashMap::new());
        std::fs::write(&path, "1").unwrap();
        assert!(is_other_content(&mut known, &path));
        std::fs::write(&path, "1").unwrap();
        assert!(!is_other_content(&mut known, &path));
        std::fs::write(&path, "2").unwrap();
        assert!(is_other_content(&mut known, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(is_other_content(&mut known, &path));
    }
}
