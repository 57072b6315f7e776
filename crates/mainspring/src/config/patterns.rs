//! Files by pattern: `*` and `?` stand for any characters within one name.

use std::path::{Component, Path, PathBuf};

/// Files that one pattern may name.
const FILES_MAX: usize = 10_000;

/// The files that match, in order, relative to the folder. A name that begins with a dot needs a pattern that does.
pub(super) fn files(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in Path::new(pattern).components() {
        let name = match part {
            Component::Normal(name) => name.to_string_lossy().into_owned(),
            other => {
                found.iter_mut().for_each(|path| path.push(other));
                continue;
            }
        };
        if !is_pattern(&name) {
            found.iter_mut().for_each(|path| path.push(&name));
            continue;
        }
        found = found.iter().flat_map(|path| matching(folder, path, &name)).take(FILES_MAX).collect();
    }
    // A path without any pattern is named whether or not it is there; whoever opens it tells. So it is with what a pattern finds and
    // nobody can read: only folders are left out, and what lies in folders that have no such file.
    found.retain(|path| {
        let path = folder.join(path);
        !is_pattern(pattern) || (path.symlink_metadata().is_ok() && !path.is_dir())
    });
    found.sort();
    found
}

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

fn matching(folder: &Path, path: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder.join(path)) else { return Vec::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    names
        .filter(|name| name.starts_with('.') == pattern.starts_with('.') && name_matches(pattern, name))
        .map(|name| path.join(name))
        .collect()
}

/// Whether a name matches, without ever trying more than once for each star.
pub(crate) fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, from)) = star {
            (p, n) = (at + 1, from + 1);
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&character| character == '*')
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
        assert!(!name_matches(&"*a".repeat(1000), &"b".repeat(1000)));
    }

    #[test]
    fn files_in_folders_are_found_in_order_and_hidden_ones_are_not() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b/c.toml", "a/c.toml", ".h/c.toml", "a/d.json"] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let found = files(root.path(), pattern);
            found.iter().map(|p| p.display().to_string()).collect()
        };
        assert_eq!(names("*/c.toml"), ["a/c.toml", "b/c.toml"]);
        assert_eq!(names("a/*"), ["a/c.toml", "a/d.json"]);
        assert_eq!(names("x/*"), [""; 0]);
        assert_eq!(names("x/named.toml"), ["x/named.toml"]);
    }
}
