//! Whether a configuration names a manifest, and the line that would make it so.

use crate::config::name_matches;
use std::path::{Component, Path, PathBuf};

/// What a configuration says about a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli::project::new) enum Listing {
    /// A pattern of `manifests` names it.
    Named,
    /// None does: this line would.
    Unnamed {
        line: String,
        /// Whether there is such a line already, to be replaced.
        is_there: bool,
    },
    /// It cannot be told.
    Unreadable,
}

impl Listing {
    /// Looks for a manifest in the text of a configuration; `pattern` is what would name it and its
    /// neighbours. Relative paths begin at `folder`.
    pub(in crate::cli::project::new) fn of(
        text: &str,
        folder: &Path,
        manifest: &Path,
        pattern: &str,
    ) -> Listing {
        let Ok(config) = text.parse::<toml::Table>() else { return Listing::Unreadable };
        let Some(listed) = patterns(config.get("manifests")) else { return Listing::Unreadable };
        let (path, begin) =
            (absolute(folder, manifest), |pattern: &&str| absolute(folder, Path::new(pattern)));
        if listed.iter().any(|pattern| names(&begin(pattern), &path)) {
            return Listing::Named;
        }
        let all: Vec<String> =
            listed.iter().chain([&pattern]).map(|pattern| format!("{pattern:?}")).collect();
        Listing::Unnamed {
            line: format!("manifests = [{}]", all.join(", ")),
            is_there: config.contains_key("manifests"),
        }
    }
}

/// The patterns of the key; `None` if they are none.
fn patterns(manifests: Option<&toml::Value>) -> Option<Vec<&str>> {
    match manifests {
        None => Some(Vec::new()),
        Some(list) => list.as_array()?.iter().map(toml::Value::as_str).collect(),
    }
}

/// A path from the root, without detours.
fn absolute(folder: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

/// Whether a pattern names a path: name by name.
fn names(pattern: &Path, path: &Path) -> bool {
    let (mut wanted, mut found) = (pattern.components(), path.components());
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) => {
                let [wanted, found] =
                    [wanted, found].map(|part| part.as_os_str().to_string_lossy().into_owned());
                if !name_matches(&wanted, &found) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(text: &str) -> Listing {
        Listing::of(
            text,
            Path::new("/home/app"),
            Path::new("capabilities/a/capability.toml"),
            "capabilities/*/capability.toml",
        )
    }

    #[test]
    fn a_manifest_is_found_by_every_form_of_pattern() {
        for pattern in [
            "capabilities/*/capability.toml",
            "./capabilities/a/capability.toml",
            "*/?/*.toml",
            "../app/capabilities/*/*",
            "/home/app/capabilities/*/capability.toml",
        ] {
            assert_eq!(listing(&format!("manifests = ['x.toml', '{pattern}']")), Listing::Named, "{pattern}");
        }
    }

    #[test]
    fn the_line_that_is_missing_keeps_what_is_there() {
        let unnamed = |line: &str, is_there| Listing::Unnamed { line: line.into(), is_there };
        assert_eq!(
            listing("manifests = ['capabilities/b/capability.toml']\n[log]\nlevel = 'warn'"),
            unnamed(
                r#"manifests = ["capabilities/b/capability.toml", "capabilities/*/capability.toml"]"#,
                true
            )
        );
        assert_eq!(
            listing("native = []"),
            unnamed(r#"manifests = ["capabilities/*/capability.toml"]"#, false)
        );
        for unreadable in ["manifests = 7", "manifests = [7]", "["] {
            assert_eq!(listing(unreadable), Listing::Unreadable, "{unreadable}");
        }
    }
}
