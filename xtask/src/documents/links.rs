//! Links between documents lead somewhere: to a file that is there, and to a heading of it. So do
//! paths in backticks, from the root of the repository or from the document.

use super::Fault;
use super::markdown::{self, Kind, quoted};
use std::path::Path;

/// The folders at the root of the repository that paths begin with.
const FOLDERS: [&str; 8] = ["bench/", "crates/", "docs/", "examples/", "fuzz/", "guests/", "sdk/", "xtask/"];
/// It tells what was, too.
const CHANGELOG: &str = "CHANGELOG.md";

pub(super) fn check(root: &Path, file: &Path, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (line, content, _) in markdown::lines(text).filter(|&(_, _, kind)| kind != Kind::Code) {
        for target in targets(content) {
            if let Some(what) = fault_of(root, file, text, target) {
                faults.push(Fault { file: file.to_owned(), line, what });
            }
        }
        for path in quoted(content).filter(|path| is_path(path) && file != Path::new(CHANGELOG)) {
            let beside = root.join(file).with_file_name(path);
            if !root.join(path).exists() && !beside.exists() {
                let what = format!("there is no {path}");
                faults.push(Fault { file: file.to_owned(), line, what });
            }
        }
    }
    faults
}

/// Whether what is in backticks is a path, and not a pattern or a part of a command.
fn is_path(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    FOLDERS.iter().any(|folder| text.starts_with(folder)) && text.chars().all(is_plain)
}

/// Where the links of a line lead, but those to other sites.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn fault_of(root: &Path, file: &Path, text: &str, target: &str) -> Option<String> {
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let place = root.join(file).parent().map(|folder| folder.join(path))?;
    if !path.is_empty() && !place.exists() {
        return Some(format!("the link to {target} leads nowhere"));
    }
    let heading = heading?;
    let of_other;
    let headings = if path.is_empty() {
        text
    } else {
        of_other = std::fs::read_to_string(&place).unwrap_or_default();
        &of_other
    };
    let found = headings.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    (!found).then(|| format!("there is no heading for the link to {target}"))
}

/// The name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_or_a_path_to_a_missing_file_or_heading_is_found() {
        let root = crate::command::root();
        let text = "`docs/contracts` `docs/nowhere.md` `docs/*.md`\n# One thing\n[a](#one-thing) [b](#another) [c](../README.md) [d](nothing.md)\n    [e](nothing.md)\n[f](https://nowhere.example)";
        let found = check(&root, Path::new("docs/some.md"), text);
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = [
            "docs/some.md:1: there is no docs/nowhere.md",
            "docs/some.md:3: there is no heading for the link to #another",
            "docs/some.md:3: the link to nothing.md leads nowhere",
        ];
        assert_eq!(lines, expected);
    }
}
