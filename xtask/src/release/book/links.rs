//! The links of a book that was made: each leads to a file of it, and to a place in that file.

use crate::documents;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Pages that repeat others, or that are made by the program.
const SKIPPED: [&str; 3] = ["print.html", "404.html", "toc.html"];

/// What is wrong, a line each.
pub(super) fn check(book: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for file in documents::files(book, "html")? {
        pages.insert(file.clone(), fs::read_to_string(book.join(&file))?);
    }
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(file, text)| (file, values(text, " id=\"").collect())).collect();
    let mut faults = Vec::new();
    for (file, text) in pages.iter().filter(|(file, _)| !SKIPPED.iter().any(|name| file.ends_with(name))) {
        for target in values(text, " href=\"").chain(values(text, " src=\"")) {
            if !leads_somewhere(book, file, target, &anchors) {
                faults.push(format!("{}: {target}", file.display()));
            }
        }
    }
    Ok(faults)
}

/// What stands behind a name up to the next quote.
fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(name).skip(1).filter_map(|rest| rest.split('"').next())
}

fn leads_somewhere(
    book: &Path,
    page: &Path,
    target: &str,
    anchors: &BTreeMap<&PathBuf, BTreeSet<&str>>,
) -> bool {
    if target.contains("://")
        || target.starts_with("mailto:")
        || target.starts_with("data:")
        || target.is_empty()
    {
        return true;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = path.split('?').next().unwrap_or_default();
    let mut place = page.to_path_buf();
    if !path.is_empty() {
        place.pop();
        for part in path.split('/') {
            match part {
                "." | "" => {}
                ".." => drop(place.pop()),
                name => place.push(name),
            }
        }
    }
    match (anchors.get(&place), anchor) {
        (Some(anchors), Some(anchor)) => anchor.is_empty() || anchors.contains(anchor),
        _ => book.join(&place).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_missing_page_or_place_is_found() {
        let folder = std::env::temp_dir().join(format!("mainspring-book-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        let page = "<h1 id=\"one\"></h1><a href=\"../b.html#two\"></a><a href=\"#one\"></a><a href=\"gone.html\"></a>\
                    <a href=\"../b.html#three\"></a>";
        fs::write(folder.join("a/a.html"), page).unwrap();
        fs::write(folder.join("b.html"), "<h1 id=\"two\">").unwrap();
        let found = check(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap(), ["a/a.html: gone.html", "a/a.html: ../b.html#three"]);
    }
}
