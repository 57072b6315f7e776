//! What language models and their agents read, made from the documents: `llms.txt`, a list of the
//! pages with what each is about, and `docs/skill/SKILL.md`, how to work with Mainspring.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Component, Path, PathBuf};

const LIST: &str = "llms.txt";
const SKILL: &str = "docs/skill/SKILL.md";

/// What an agent is told first: when to use it.
const SKILL_HEAD: &str = "\
---
name: mainspring
description: Build and run applications on a Mainspring daemon: capabilities (programs that read and write JSON lines), commands, queries and events. Use it when a project has a mainspring.toml or a capability.toml, or when the user wants local services that talk over a supervised message bus.
---

<!-- Made by `cargo xtask documents --write` from the pages that it names. -->

# Working with Mainspring

Begin with `mainspring new capability NAME --lang python|typescript|javascript|go|rust|shell`, check with
`mainspring check` and `mainspring test-capability DIR`, run with `mainspring up`, ask with `mainspring query TYPE
key=value` and `mainspring send TYPE key=value`. `mainspring describe` lists what a running daemon takes, with schemas;
`mainspring COMMAND --help` has examples of every command. Add `--json` for answers to be read by programs.
";

/// The sections that a skill is made of: page, heading.
const SECTIONS: [(&str, &str); 6] = [
    ("docs/how-to/writing-a-capability.md", "## A first one, in Python"),
    ("docs/how-to/writing-a-capability.md", "## The rules"),
    ("docs/how-to/writing-a-capability.md", "## Asking others"),
    ("docs/how-to/writing-a-capability.md", "## More at a time"),
    ("docs/how-to/writing-a-capability.md", "## When things go wrong"),
    ("docs/how-to/operations.md", "## When something is wrong"),
];

/// Writes both.
pub(super) fn write(root: &Path) -> Result<()> {
    for (file, text) in made(root)? {
        let place = root.join(file);
        place.parent().map(fs::create_dir_all).transpose()?;
        fs::write(&place, text).with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

/// Those that are not as they would be made now.
pub(super) fn stale(root: &Path) -> Result<Vec<&'static str>> {
    let files = made(root)?.into_iter();
    let is_stale =
        |(file, text): &(&str, String)| fs::read_to_string(root.join(file)).ok().as_ref() != Some(text);
    Ok(files.filter(is_stale).map(|(file, _)| file).collect())
}

fn made(root: &Path) -> Result<[(&'static str, String); 2]> {
    Ok([(LIST, list(root)?), (SKILL, skill(root)?)])
}

/// The pages in the order of the book, under the headings of its parts.
fn list(root: &Path) -> Result<String> {
    let summary = super::read(root, Path::new("docs/SUMMARY.md"))?;
    let readme = super::read(root, Path::new("README.md"))?;
    let mut text = format!("# Mainspring\n\n> {}\n", first_paragraph(&readme));
    for line in summary.lines().skip_while(|line| !line.starts_with("# Tutorial")) {
        if let Some(part) = line.strip_prefix("# ") {
            text += &format!("\n## {part}\n\n");
        }
        for page in crate::release::book::pages(line) {
            let name = line.split('[').nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
            let about = first_paragraph(&super::read(root, &page)?);
            text += &format!("- [{name}]({}): {about}\n", page.display());
        }
    }
    Ok(text)
}

/// The first sentence of a page's first paragraph of prose, without its links.
fn first_paragraph(page: &str) -> String {
    let is_prose = |line: &&str| {
        line.starts_with(|letter: char| letter.is_alphanumeric() || letter == '`' || letter == '[')
    };
    let lines = page.lines().skip_while(|line| !is_prose(line)).take_while(|line| !line.is_empty());
    let paragraph = plain(&lines.collect::<Vec<_>>().join(" "));
    match paragraph.find(". ") {
        Some(end) => paragraph[..=end].to_owned(),
        None => paragraph,
    }
}

/// Text without the targets of its links.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("](") {
        let (head, name) = before.rsplit_once('[').unwrap_or((before, ""));
        out += &format!("{head}{name}");
        rest = behind.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}

fn skill(root: &Path) -> Result<String> {
    let mut text = SKILL_HEAD.to_owned();
    for (page, heading) in SECTIONS {
        let content = super::read(root, Path::new(page))?;
        let section = section(&content, heading).with_context(|| format!("{page} has no \"{heading}\""))?;
        text += &format!("\n{heading}\n{}", rebased(section, Path::new(page)));
    }
    Ok(text)
}

/// What stands between a heading and the next of its rank.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let begin = page.find(&format!("\n{heading}\n"))? + heading.len() + 2;
    let rest = &page[begin..];
    Some(&rest[..rest.find("\n## ").map_or(rest.len(), |end| end + 1)])
}

/// Links of a page of `docs` as they are from the skill's folder.
fn rebased(section: &str, page: &Path) -> String {
    let mut out = String::new();
    let mut rest = section;
    while let Some((before, behind)) = rest.split_once("](") {
        let target = behind.split(')').next().unwrap_or_default();
        out += before;
        out += "](";
        if target.starts_with('#') || target.contains("://") {
            out += target;
        } else {
            out += &from_the_skill(target, page);
        }
        rest = &behind[target.len()..];
    }
    out + rest
}

/// A path that is relative to a page of `docs`, relative to a folder of `docs`.
fn from_the_skill(target: &str, page: &Path) -> String {
    let within = page.parent().and_then(|folder| folder.strip_prefix("docs").ok()).unwrap_or(Path::new(""));
    let mut path = PathBuf::from("..");
    for part in within.join(target).components() {
        if part != Component::ParentDir || path.ends_with("..") {
            path.push(part);
        } else {
            path.pop();
        }
    }
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_before_the_next_and_links_lead_from_another_folder() {
        let page = "# A\n\n## One\ntext [b](b.md) [c](https://d)\n\n## Two\nmore\n";
        assert_eq!(section(page, "## One"), Some("text [b](b.md) [c](https://d)\n\n"));
        assert_eq!(
            rebased("[b](b.md) [c](https://d) [e](#f)", Path::new("docs/a.md")),
            "[b](../b.md) [c](https://d) [e](#f)"
        );
        let links = "[b](b.md) [c](../c.md#d) [e](../../e/f)";
        assert_eq!(rebased(links, Path::new("docs/a/a.md")), "[b](../a/b.md) [c](../c.md#d) [e](../../e/f)");
        assert_eq!(first_paragraph("# A\n\nOne [two](x) three. Four."), "One two three.");
    }
}
