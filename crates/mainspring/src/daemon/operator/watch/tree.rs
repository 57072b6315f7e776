//! Folders and their files, as they change: inotify on the loop.
//!
//! Folders are watched and never files: a save by renaming leaves the watch of a file on what is
//! not there any more. A new folder is watched first and read then, or what came in between would
//! be missed. When the queue of the operating system overflows, everything counts as changed.
//!
//! Not seen: a save through a hard link from outside, a write through a mapping until the file is
//! closed, a change on a network file system that was made elsewhere.

use mainspring_reactor::{Handle, Interest, Timer, Watcher};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Changes are told when there was none for so long: a save is often several of them.
const SETTLE: Duration = Duration::from_millis(50);
/// Changes are told after so long, though there are more.
const SETTLE_MAX: Duration = Duration::from_millis(100);
/// Folders that are watched. Beyond: those that come last are not, which is told.
const FOLDERS_MAX: usize = 4096;
/// Folders within folders that are followed.
const DEPTH_MAX: usize = 16;
/// Bytes of changes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Folders that hold what others made of the sources, or fetched: no change in there is one that
/// somebody typed.
const LEFT_OUT: &[&str] = &["node_modules", "target", "__pycache__", "venv", "vendor"];

/// A folder to watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Root {
    pub(super) folder: PathBuf,
    /// Whether folders within it are watched as well.
    pub(super) is_deep: bool,
}

/// Who is told which paths have changed.
type Changed = Box<dyn Fn(&Handle, BTreeSet<PathBuf>)>;

/// What watches folders, and whom it tells.
pub(super) struct Tree {
    reactor: Handle,
    inotify: OwnedFd,
    watcher: Option<Watcher>,
    folders: HashMap<i32, Root>,
    /// What has changed and was not told yet, and since when.
    changed: BTreeSet<PathBuf>,
    settling: Option<(Timer, mainspring_reactor::Instant)>,
    tell: Rc<Changed>,
    is_full: bool,
}

impl Tree {
    /// Watches nothing yet.
    pub(super) fn new(
        reactor: &Handle,
        tell: impl Fn(&Handle, BTreeSet<PathBuf>) + 'static,
    ) -> Result<Rc<RefCell<Tree>>, String> {
        let words = |error: &dyn std::fmt::Display| format!("files cannot be watched: {error}");
        let inotify =
            inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(|error| words(&error))?;
        let descriptor = inotify.as_raw_fd();
        let tree = Rc::new(RefCell::new(Tree {
            reactor: reactor.clone(),
            inotify,
            watcher: None,
            folders: HashMap::new(),
            changed: BTreeSet::new(),
            settling: None,
            tell: Rc::new(Box::new(tell)),
            is_full: false,
        }));
        let reading = Rc::downgrade(&tree);
        let watching = reactor.watch_raw(descriptor, ()).label("file changes").start_with(
            Interest::READ,
            move |(), _| {
                if let Some(tree) = reading.upgrade() {
                    Tree::read(&tree);
                }
            },
        );
        tree.borrow_mut().watcher = Some(watching.map_err(|error| words(&error))?);
        Ok(tree)
    }

    /// Watches these folders from now on; those that are watched already stay so.
    pub(super) fn watch(&mut self, roots: &BTreeSet<Root>) {
        for root in roots {
            let is_known = self
                .folders
                .values()
                .any(|known| known.folder == root.folder && known.is_deep >= root.is_deep);
            if !is_known {
                self.add(root, 0, false);
            }
        }
    }

    /// Watches a folder and, if it is deep, those within. What a new folder holds counts as
    /// changed.
    fn add(&mut self, root: &Root, depth: usize, is_new: bool) {
        if self.folders.len() >= FOLDERS_MAX {
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::warn!(
                    "more than {FOLDERS_MAX} folders: changes in the rest of them are not noticed"
                );
            }
            return;
        }
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        match inotify::add_watch(&self.inotify, &root.folder, flags) {
            Ok(number) => drop(self.folders.insert(number, root.clone())),
            Err(Errno::NOSPC) => {
                tracing::warn!(
                    "changes in {} are not noticed: the limit fs.inotify.max_user_watches is reached",
                    root.folder.display()
                );
                return;
            }
            Err(error) => {
                return tracing::debug!("changes in {} are not noticed: {error}", root.folder.display());
            }
        }
        if !(root.is_deep || is_new) || depth >= DEPTH_MAX {
            return;
        }
        for entry in std::fs::read_dir(&root.folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && root.is_deep && is_followed(&entry.file_name()) {
                self.add(&Root { folder: entry.path(), is_deep: true }, depth + 1, is_new);
            } else if !is_folder && is_new {
                self.changed.insert(entry.path());
            }
        }
    }

    fn read(this: &Rc<RefCell<Tree>>) {
        let mut tree = this.borrow_mut();
        let found = tree.take_events();
        for (number, events, name) in found {
            tree.take(number, events, name.as_deref());
        }
        drop(tree);
        Tree::settle(this);
    }

    fn take_events(&self) -> Vec<(i32, ReadFlags, Option<PathBuf>)> {
        let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut found = Vec::new();
        // One read: what comes after it is told by the loop again.
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| PathBuf::from(OsStr::from_bytes(name.to_bytes())));
            found.push((event.wd(), event.events(), name));
            if reader.is_buffer_empty() {
                break;
            }
        }
        found
    }

    fn take(&mut self, number: i32, events: ReadFlags, name: Option<&Path>) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            // Everything may have changed, and nobody knows what.
            let folders: Vec<PathBuf> = self.folders.values().map(|root| root.folder.clone()).collect();
            for entry in folders.iter().flat_map(std::fs::read_dir).flatten().flatten() {
                self.changed.insert(entry.path());
            }
            return;
        }
        if events.intersects(ReadFlags::IGNORED | ReadFlags::DELETE_SELF) {
            self.folders.remove(&number);
            return;
        }
        let Some((root, name)) = self.folders.get(&number).cloned().zip(name) else { return };
        let path = root.folder.join(name);
        if !events.contains(ReadFlags::ISDIR) {
            // A file that was only made has no content yet; its end of writing follows.
            if events.intersects(!ReadFlags::CREATE & ReadFlags::all()) {
                self.changed.insert(path);
            }
            return;
        }
        if events.contains(ReadFlags::MOVED_FROM) {
            self.forget(&path);
        } else if events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)
            && root.is_deep
            && is_followed(name.as_os_str())
        {
            self.add(&Root { folder: path, is_deep: true }, 0, true);
        }
    }

    /// Ends the watches below a folder that is not there any more: they would go on under its old
    /// name.
    fn forget(&mut self, folder: &Path) {
        let gone: Vec<i32> = self
            .folders
            .iter()
            .filter(|(_, root)| root.folder.starts_with(folder))
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            self.folders.remove(&number);
            let _ = inotify::remove_watch(&self.inotify, number);
        }
    }

    /// Tells what has changed once there is no more of it for a moment.
    fn settle(this: &Rc<RefCell<Tree>>) {
        let mut tree = this.borrow_mut();
        if tree.changed.is_empty() {
            return;
        }
        let now = tree.reactor.now();
        if let Some((timer, since)) = tree.settling
            && tree.reactor.has_timer(timer)
        {
            let left = SETTLE_MAX.saturating_sub(now.saturating_duration_since(since));
            let _ = tree.reactor.reschedule_after(timer, SETTLE.min(left));
            return;
        }
        let settled = Rc::downgrade(this);
        let timer = tree.reactor.after(SETTLE, move |reactor| {
            let Some(tree) = settled.upgrade() else { return };
            let (changed, tell) = {
                let mut tree = tree.borrow_mut();
                tree.settling = None;
                (std::mem::take(&mut tree.changed), Rc::clone(&tree.tell))
            };
            tell(reactor, changed);
        });
        tree.settling = timer.ok().map(|timer| (timer, now));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            self.reactor.unwatch(watcher);
        }
    }
}

/// Whether a folder within a folder is watched too.
fn is_followed(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b".") && !LEFT_OUT.iter().any(|left_out| name == *left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_reactor::Reactor;
    use std::fs;

    /// A folder that is watched, and the names that were told.
    struct Watched {
        reactor: Reactor,
        folder: tempfile::TempDir,
        told: Rc<RefCell<BTreeSet<PathBuf>>>,
        _tree: Rc<RefCell<Tree>>,
    }

    impl Watched {
        fn new(prepare: impl FnOnce(&Path)) -> Watched {
            let (reactor, folder) = (Reactor::new().unwrap(), tempfile::tempdir().unwrap());
            prepare(folder.path());
            let told: Rc<RefCell<BTreeSet<PathBuf>>> = Rc::default();
            let tell = Rc::clone(&told);
            let tree = Tree::new(&reactor, move |_, changed| tell.borrow_mut().extend(changed)).unwrap();
            tree.borrow_mut().watch(&[Root { folder: folder.path().to_owned(), is_deep: true }].into());
            Watched { reactor, folder, told, _tree: tree }
        }

        /// Runs the loop until this name was told.
        fn sees(&mut self, name: &str) {
            let path = self.folder.path().join(name);
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            while !self.told.borrow().contains(&path) {
                assert!(std::time::Instant::now() < deadline, "{name} was not told: {:?}", self.told);
                self.reactor.poll(Some(Duration::from_millis(10))).unwrap();
            }
            self.told.borrow_mut().clear();
        }
    }

    #[test]
    fn a_save_is_told_in_whatever_way_it_is_made() {
        let mut watched = Watched::new(|folder| fs::write(folder.join("a.py"), "1").unwrap());
        let path = |name: &str| watched.folder.path().join(name);
        let (file, other) = (path("a.py"), path(".a.tmp"));
        fs::write(&file, "2").unwrap();
        watched.sees("a.py");
        // As most editors do it.
        fs::write(&other, "3").unwrap();
        fs::rename(&other, &file).unwrap();
        watched.sees("a.py");
        fs::write(&file, "4").unwrap();
        watched.sees("a.py");
        fs::remove_file(&file).unwrap();
        watched.sees("a.py");
    }

    #[test]
    fn folders_that_come_and_go_are_watched_too() {
        let mut watched = Watched::new(|_| {});
        let folder = watched.folder.path().to_owned();
        fs::create_dir_all(folder.join("a/b/c")).unwrap();
        fs::write(folder.join("a/b/c/x.py"), "1").unwrap();
        watched.sees("a/b/c/x.py");
        fs::rename(folder.join("a/b"), folder.join("moved")).unwrap();
        watched.sees("moved/c/x.py");
        fs::write(folder.join("moved/c/x.py"), "2").unwrap();
        watched.sees("moved/c/x.py");
    }

    #[test]
    fn what_others_fetched_or_made_is_left_alone() {
        let mut watched = Watched::new(|folder| {
            for left_out in LEFT_OUT.iter().chain(&[".git"]) {
                fs::create_dir(folder.join(left_out)).unwrap();
            }
        });
        let folder = watched.folder.path().to_owned();
        fs::write(folder.join("node_modules/x.js"), "1").unwrap();
        fs::write(folder.join(".git/x.py"), "1").unwrap();
        fs::write(folder.join("last.py"), "1").unwrap();
        let path = folder.join("last.py");
        while !watched.told.borrow().contains(&path) {
            watched.reactor.poll(Some(Duration::from_millis(10))).unwrap();
        }
        assert_eq!(*watched.told.borrow(), [path].into());
    }
}
