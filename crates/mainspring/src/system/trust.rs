//! Whose a folder is: who could put something else in the place of what is in it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why others have a say in what a folder holds.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Distrust {
    /// It, a folder above it or a link on the way belongs to another user, who is not the system's
    /// either.
    #[error("{} belongs to user {owner}", .place.display())]
    Owner {
        /// What belongs to him.
        place: PathBuf,
        /// The user.
        owner: u32,
    },
    /// Others may write to it, or to a folder above it without the sticky bit.
    #[error("{} may be written to by other users", .place.display())]
    Writable {
        /// What they may write to.
        place: PathBuf,
    },
    /// It cannot be looked at.
    #[error("{}: {reason}", .place.display())]
    Unknown {
        /// What cannot be looked at.
        place: PathBuf,
        /// Why.
        reason: io::Error,
    },
}

/// Makes sure that nobody but this user (and the system's owner) can write to a folder, or put
/// another in its place.
pub(crate) fn check_folder(folder: &Path) -> Result<(), Distrust> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let cannot = |reason| Distrust::Unknown { place: folder.to_owned(), reason };
    let (written, real) =
        (std::path::absolute(folder).map_err(cannot)?, fs::canonicalize(folder).map_err(cannot)?);
    // As it is written, with the links on the way; and where they lead.
    for place in written.ancestors() {
        let about = look_at_link(place)?;
        check_owner(place, &about)?;
        if !about.is_symlink() {
            check_parent(place, &about)?;
        }
    }
    for place in real.ancestors() {
        let about = look(place)?;
        check_owner(place, &about)?;
        check_parent(place, &about)?;
    }
    match is_writable_by_others(&look(&real)?) {
        true => Err(Distrust::Writable { place: folder.to_owned() }),
        false => Ok(()),
    }
}

/// Makes sure that nobody else decides what a path leads to: neither its folder nor, if it is a
/// link, the link is another's.
pub(crate) fn check_path(path: &Path) -> Result<(), Distrust> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    check_owner(folder, &look(folder)?)?;
    let about = look_at_link(path)?;
    if about.is_symlink() { check_owner(path, &about) } else { Ok(()) }
}

/// Makes sure that a file is not another's, nor is its folder or a link that leads to it.
pub(crate) fn check_file(path: &Path) -> Result<(), Distrust> {
    check_path(path)?;
    check_owner(path, &look(path)?)
}

fn look(place: &Path) -> Result<Metadata, Distrust> {
    fs::metadata(place).map_err(|reason| Distrust::Unknown { place: place.to_owned(), reason })
}

/// The same of a link itself.
fn look_at_link(place: &Path) -> Result<Metadata, Distrust> {
    fs::symlink_metadata(place).map_err(|reason| Distrust::Unknown { place: place.to_owned(), reason })
}

/// It is this user's, or the system's: root's, or that of whoever owns `/`, who can do anything
/// here (in a container, for one, where root outside has no name).
fn check_owner(place: &Path, about: &Metadata) -> Result<(), Distrust> {
    let owner = about.uid();
    let is_systems = || owner == 0 || fs::metadata("/").is_ok_and(|root| root.uid() == owner);
    match owner == rustix::process::geteuid().as_raw() || is_systems() {
        true => Ok(()),
        false => Err(Distrust::Owner { place: place.to_owned(), owner }),
    }
}

/// Where others may write, only the sticky bit keeps them from renaming what is there.
fn check_parent(place: &Path, about: &Metadata) -> Result<(), Distrust> {
    let is_sticky = about.mode() & 0o1000 != 0;
    match is_writable_by_others(about) && !is_sticky {
        true => Err(Distrust::Writable { place: place.to_owned() }),
        false => Ok(()),
    }
}

/// Whether everybody may write there, or a group that is not this user's own: the one that has the
/// user's number, as it is usual.
fn is_writable_by_others(about: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_own_group = about.gid() == rustix::process::getegid().as_raw() && about.gid() == user;
    about.mode() & 0o002 != 0 || (about.mode() & 0o020 != 0 && !is_own_group)
}
