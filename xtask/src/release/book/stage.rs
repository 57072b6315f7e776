//! The pages of the book, in a folder of their own.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The table of contents, from the root of the repository.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Copies every page of the table of contents; gives their number.
pub(super) fn stage(root: &Path, to: &Path) -> Result<usize> {
    let summary = read(root, Path::new(SUMMARY))?;
    let pages = pages(&summary);
    let listed: BTreeSet<&PathBuf> = pages.iter().collect();
    if listed.len() < pages.len() {
        bail!("{SUMMARY} lists a page twice");
    }
    for page in &pages {
        let text = read(root, page)?;
        write(&to.join(placed(page)), &rewrite(&text, page, &listed))?;
        for picture in targets(&text).into_iter().filter(|target| is_picture(target)) {
            let place = resolve(page, picture);
            let copy = to.join(&place);
            copy.parent().map(fs::create_dir_all).transpose()?;
            fs::copy(root.join(&place), copy).with_context(|| format!("cannot copy {}", place.display()))?;
        }
    }
    let contents = rewrite(&summary, Path::new(SUMMARY), &listed);
    // The table of contents stands at the top of the book, not in `docs`.
    write(&to.join("SUMMARY.md"), &from_the_top(&contents))?;
    Ok(pages.len())
}

fn read(root: &Path, file: &Path) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    let folder = file.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The pages that a table of contents lists, from the root of the repository.
pub(crate) fn pages(summary: &str) -> Vec<PathBuf> {
    targets(summary).into_iter().map(|target| resolve(Path::new(SUMMARY), target)).collect()
}

fn targets(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// Where a link leads, from the root of the repository.
fn resolve(page: &Path, target: &str) -> PathBuf {
    let path = target.split('#').next().unwrap_or_default();
    let mut place = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            _ => {}
        }
    }
    place
}

/// `README.md` is what a folder opens with.
fn placed(page: &Path) -> PathBuf {
    match page.file_name() {
        Some(name) if name == "README.md" => page.with_file_name("index.md"),
        _ => page.to_path_buf(),
    }
}

/// Pictures are parts of their page.
fn is_picture(target: &str) -> bool {
    target.ends_with(".png") && !target.contains("://")
}

/// Links to pages and pictures stay; those to other files lose their target.
fn rewrite(text: &str, page: &Path, pages: &BTreeSet<&PathBuf>) -> String {
    let mut fenced = false;
    let lines = text.lines().map(|line| {
        fenced ^= line.trim_start().starts_with("```");
        if fenced { line.to_owned() } else { rewrite_line(line, page, pages) }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn rewrite_line(line: &str, page: &Path, pages: &BTreeSet<&PathBuf>) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, target, after)) = next_link(rest) {
        let is_here = target.contains("://")
            || target.starts_with('#')
            || target.starts_with("mailto:")
            || is_picture(target);
        let place = resolve(page, target);
        if is_here {
            out += &rest[..rest.len() - after.len()];
        } else if pages.contains(&place) {
            let target = target.replace("README.md", "index.md");
            out += &format!("{before}]({target})");
        } else if let Some((head, text)) = before.rsplit_once('[') {
            out += &format!("{head}{text}");
        }
        rest = after;
    }
    out + rest
}

/// What stands before the target of the first link, the target, and what is behind the link.
fn next_link(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once("](")?;
    let (target, after) = rest.split_once(')')?;
    Some((before, target, after))
}

/// Paths of a page in `docs` as they are from the root.
fn from_the_top(contents: &str) -> String {
    let mut out = String::new();
    let mut rest = contents;
    while let Some((before, target, after)) = next_link(rest) {
        let place = resolve(Path::new(SUMMARY), target);
        out += &format!("{before}]({})", placed(&place).display());
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_pages_stay_and_others_become_text() {
        let pages = [PathBuf::from("docs/a.md"), PathBuf::from("sdk/README.md")];
        let pages: BTreeSet<&PathBuf> = pages.iter().collect();
        let line = "see [a](a.md#one), [the `SDK`](../sdk/README.md), [code](../crates/x.rs), ![p](p.png) and [it](https://a.b)";
        let expected =
            "see [a](a.md#one), [the `SDK`](../sdk/index.md), code, ![p](p.png) and [it](https://a.b)";
        assert_eq!(rewrite_line(line, Path::new("docs/b.md"), &pages), expected);
        assert_eq!(
            from_the_top("- [One](a.md)\n- [Two](../sdk/README.md)"),
            "- [One](docs/a.md)\n- [Two](sdk/index.md)"
        );
    }

    #[test]
    fn every_page_of_the_documents_is_in_the_table_of_contents() {
        let root = crate::command::root();
        let listed = pages(&read(&root, Path::new(SUMMARY)).unwrap());
        let found = crate::documents::files(&root.join("docs"), "md").unwrap();
        let missing: Vec<PathBuf> = found
            .into_iter()
            .map(|page| Path::new("docs").join(page))
            .filter(|page| {
                page != Path::new(SUMMARY) && !page.starts_with("docs/skill") && !listed.contains(page)
            })
            .collect();
        assert!(missing.is_empty(), "add to {SUMMARY}: {missing:?}");
    }
}
