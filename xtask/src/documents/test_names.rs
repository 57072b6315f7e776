//! The names of the tests of this repository, read from their sources.

use super::{files, read};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders that have tests.
const FOLDERS: [&str; 3] = ["crates", "examples", "xtask"];

/// Tests by name, each with the files in which a test of that name is.
pub(super) struct TestNames(BTreeMap<String, Vec<PathBuf>>);

impl TestNames {
    /// Reads the sources of the repository at `root`.
    pub(super) fn read(root: &Path) -> Result<TestNames> {
        let mut names: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for folder in FOLDERS {
            for (ending, names_in) in [("rs", of_rust as fn(&str) -> Vec<String>), ("c", of_c)] {
                for file in files(&root.join(folder), ending)? {
                    let file = Path::new(folder).join(file);
                    for name in names_in(&read(root, &file)?) {
                        names.entry(name).or_default().push(file.clone());
                    }
                }
            }
        }
        Ok(TestNames(names))
    }

    /// Whether there is a test of this name, or with this beginning if it ends in `*`.
    pub(super) fn has(&self, pattern: &str) -> bool {
        self.0.keys().any(|name| matches(pattern, name))
    }

    /// The tests that are in a file or below a folder.
    pub(super) fn within<'a>(&'a self, place: &'a str) -> impl Iterator<Item = (&'a str, &'a Path)> {
        let tests = self.0.iter().flat_map(|(name, files)| files.iter().map(move |file| (name, file)));
        tests
            .filter(move |(_, file)| file.starts_with(place))
            .map(|(name, file)| (name.as_str(), file.as_path()))
    }
}

/// Whether a name is meant: `k13_1_*` means every name that begins so.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

/// Functions behind `#[test]`, and those of the reactor's suite, which run on each backend.
fn of_rust(source: &str) -> Vec<String> {
    let (mut names, mut on_each_backend, mut test) = (Vec::new(), false, false);
    for line in source.lines() {
        match line.trim_start() {
            "on_each_backend! {" => on_each_backend = true,
            "#[test]" => test = true,
            _ if line == "}" => on_each_backend = false,
            text => {
                let is_test = test || (on_each_backend && line.starts_with("    fn "));
                if let Some(rest) = text.strip_prefix("fn ").filter(|_| is_test) {
                    names.extend(rest.split('(').next().map(str::to_owned));
                    test = false;
                }
            }
        }
    }
    names
}

/// What the C suite runs: `RUN(name)`, or `RUN_ON_BACKENDS(name)` and the like.
fn of_c(source: &str) -> Vec<String> {
    let runs = source.lines().filter_map(|line| line.trim().strip_prefix("RUN"));
    runs.filter_map(|line| line.split(['(', ')']).nth(1)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_their_attribute_and_in_the_suite_of_both_backends() {
        let source = "fn helper() {}\n#[test]\n#[ignore]\nfn one() {\n}\non_each_backend! {\n    fn two(backend: Backend) {\n    }\n}\n    fn no_test() {}\n";
        assert_eq!(of_rust(source), ["one", "two"]);
        assert_eq!(of_c("int main() {\n    RUN(three);\n    RUN_BOTH(four);\n"), ["three", "four"]);
    }
}
