//! Links between documents lead somewhere: to a file that is there, and to a heading of it.

use super::Fault;
use super::markdown::{self, Kind};
use std::path::Path;

pub(super) fn check(root: &Path, file: &Path, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (line, content, _) in markdown::lines(text).filter(|&(_, _, kind)| kind != Kind::Code) {
        for target in targets(content) {
            if let Some(what) = fault_of(root, file, text, target) {
                faults.push(Fault { file: file.to_owned(), line, what });
            }
        }
    }
    faults
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
    fn a_link_to_a_missing_file_or_heading_is_found() {
        let root = crate::command::root();
        let text = "# One thing\n[a](#one-thing) [b](#another) [c](../README.md) [d](nothing.md)\n    [e](nothing.md)\n[f](https://nowhere.example)";
        let found = check(&root, Path::new("docs/some.md"), text);
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = [
            "docs/some.md:2: there is no heading for the link to #another",
            "docs/some.md:2: the link to nothing.md leads nowhere",
        ];
        assert_eq!(lines, expected);
    }
}
