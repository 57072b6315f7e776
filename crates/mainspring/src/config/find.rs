//! Which `mainspring.toml` is meant when none is named: the one in this folder, or else the nearest
//! one in the folders above it.

use crate::config::CONFIG_FILE;
use crate::config::report::{ConfigError, Problem};
use crate::system::trust;
use std::path::{Path, PathBuf};

/// The file, relative to this folder: a socket beside it may have no longer path.
///
/// # Errors
/// The nearest one is above this folder and belongs to somebody else, who would decide what is run
/// here. In this folder it is read whoever owns it, because whoever is here has chosen the folder.
pub(super) fn nearest() -> Result<Option<PathBuf>, ConfigError> {
    let here = PathBuf::from(CONFIG_FILE);
    if here.exists() {
        return Ok(Some(here));
    }
    let Ok(folder) = std::env::current_dir() else { return Ok(None) };
    let home = std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    let Some(path) = above(&folder, home.as_deref()) else { return Ok(None) };
    match trust::check_file(&path) {
        Ok(()) => Ok(Some(path)),
        Err(distrust) => {
            let message = format!("{distrust}; the file of another user is read in its own folder alone");
            let problems = vec![Problem::of_file(&path, message)];
            Err(ConfigError { problems, unreadable: true })
        }
    }
}

/// The nearest file above a folder. Nothing above the home folder is looked at from within it.
fn above(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let mut way = PathBuf::new();
    for place in folder.ancestors().take_while(|place| Some(*place) != home) {
        way.push("..");
        // Whatever else has that name may have no end, or wait for a writer.
        if place.parent()?.join(CONFIG_FILE).is_file() {
            return Some(way.join(CONFIG_FILE));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_nearest_file_above_a_folder_is_found_up_to_the_home_folder() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let deep = root.join("home/project/capabilities/greeter");
        fs::create_dir_all(&deep).unwrap();
        fs::write(root.join(CONFIG_FILE), "").unwrap();
        // A folder of that name is not meant.
        fs::create_dir(deep.parent().unwrap().join(CONFIG_FILE)).unwrap();
        let home = root.join("home");
        assert_eq!(above(&deep, Some(&home)), None);
        assert_eq!(above(&deep, None), Some("../../../../mainspring.toml".into()));
        assert_eq!(above(&deep, Some(Path::new("/elsewhere"))), Some("../../../../mainspring.toml".into()));
        fs::write(home.join(CONFIG_FILE), "").unwrap();
        assert_eq!(above(&deep, Some(&home)), Some("../../../mainspring.toml".into()));
        assert_eq!(above(&home, Some(&home)), None);
        fs::write(home.join("project").join(CONFIG_FILE), "").unwrap();
        assert_eq!(above(&deep, Some(&home)), Some("../../mainspring.toml".into()));
        assert_eq!(above(Path::new("/"), None), None);
    }
}
