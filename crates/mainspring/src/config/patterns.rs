//! Files by pattern.

use glob::{MatchOptions, Pattern, PatternError};
use std::path::{Path, PathBuf};

/// Files that one pattern may name.
const FILES_MAX: usize = 10_000;

/// As in a shell: no star passes a `/`, and what begins with a dot is named only by a dot.
const AS_IN_A_SHELL: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The files that match, in order, relative to the folder. A path without any pattern is named
/// whether or not it is there; whoever opens it tells. So it is with what a pattern finds and
/// nobody can read: only folders are left out, and what editors leave beside a file.
///
/// # Errors
/// The pattern is none.
pub(super) fn files(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
    if !is_pattern(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let below = Path::new(&Pattern::escape(&folder.to_string_lossy())).join(pattern);
    let found = glob::glob_with(&below.to_string_lossy(), AS_IN_A_SHELL)?.flatten();
    let is_meant = |path: &PathBuf| !path.is_dir() && !is_backup(path);
    let mut files: Vec<PathBuf> = found.filter(is_meant).take(FILES_MAX).collect();
    for path in &mut files {
        if let Ok(relative) = path.strip_prefix(folder) {
            *path = relative.to_path_buf();
        }
    }
    Ok(files)
}

/// Whether an editor or a merge has left it there: `capability.json~`, `capability.json.orig`.
fn is_backup(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with('~') || [".bak", ".orig", ".rej", ".swp", ".tmp"].iter().any(|end| name.ends_with(end))
}

/// The folder that all files of a pattern are below.
pub(super) fn fixed_folder(pattern: &str) -> PathBuf {
    let fixed = Path::new(pattern).components().take_while(|part| {
        let name = part.as_os_str().to_string_lossy();
        !is_pattern(&name)
    });
    fixed.collect()
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether a name matches a pattern.
pub(crate) fn name_matches(pattern: &str, name: &str) -> bool {
    Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*.toml", "a.toml", true),
            ("*.toml", "a.json", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "é", true),
            ("??", "a", false),
            ("a", "a", true),
        ] {
            assert_eq!(name_matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!name_matches(&"*a".repeat(100), &"b".repeat(1000)));
        assert!(!name_matches(&"*a".repeat(20), &"a".repeat(19)));
    }

    #[test]
    fn files_in_folders_are_found_in_order_and_hidden_ones_are_not() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b/c.toml", "a/c.toml", ".h/c.toml", "a/d.json", "a/d.json~", "b/c.toml.orig"] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let found = files(root.path(), pattern).unwrap();
            found.iter().map(|p| p.display().to_string()).collect()
        };
        assert_eq!(names("*/c.toml"), ["a/c.toml", "b/c.toml"]);
        assert_eq!(names("a/*"), ["a/c.toml", "a/d.json"]);
        assert_eq!(names("x/*"), [""; 0]);
        assert_eq!(names("x/named.toml"), ["x/named.toml"]);
        assert_eq!(names("[ab]/c.toml"), ["a/c.toml", "b/c.toml"]);
        assert_eq!(names("**/*.json"), ["a/d.json"]);
        assert!(files(root.path(), "a/[").is_err());
        let fixed = ["a/*/c.*", "*.toml", "/x/y/?.json", "a/b.toml"].map(fixed_folder);
        assert_eq!(fixed, ["a", "", "/x/y", "a/b.toml"].map(PathBuf::from));
    }
}
