//! The fingerprint of everything that a guest is built from.

use crate::command::root;
use anyhow::{Context, Result};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Raised when the way of building changes, so that kept modules are built again.
const RECIPE: u32 = 2;

/// Every folder that a guest may take code from.
const SOURCES: [&str; 5] = ["guests", "crates/guest", "crates/host/wit", "crates/zcl", "crates/message"];

/// A text that differs whenever any of those files differs.
pub(super) fn of_sources() -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&root().join(source), &mut files)?;
    }
    files.push(root().join("Cargo.toml"));
    files.sort();
    of_files(&files)
}

fn of_files(files: &[PathBuf]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    RECIPE.hash(&mut hasher);
    for file in files {
        let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        file.strip_prefix(root()).unwrap_or(file).hash(&mut hasher);
        content.hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if name != "target" && name != "tests" {
                collect(&path, files)?;
            }
        } else if !name.to_string_lossy().starts_with('.') {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_and_a_moved_file_change_the_fingerprint() {
        let folder = std::env::temp_dir().join(format!("mainspring-fingerprint-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (first, second) = (folder.join("a"), folder.join("b"));
        fs::write(&first, "1").unwrap();
        let before = of_files(std::slice::from_ref(&first)).unwrap();
        assert_eq!(before, of_files(std::slice::from_ref(&first)).unwrap());
        fs::write(&first, "2").unwrap();
        let changed = of_files(std::slice::from_ref(&first)).unwrap();
        assert_ne!(before, changed);
        fs::rename(&first, &second).unwrap();
        assert_ne!(changed, of_files(&[second]).unwrap());
        fs::remove_dir_all(&folder).unwrap();
    }
}
