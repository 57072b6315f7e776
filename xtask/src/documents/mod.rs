//! `cargo xtask documents`: what the documents say is there, and is readable.
//!
//! Four checks, each in a file of its own: the clauses of the contracts and the tests that prove
//! them (`contracts.rs`, which reads the tests' names by `test_names.rs`), links that lead
//! somewhere (`links.rs`), the width of prose (`prose.rs`, which `wrapping.rs` mends), and what
//! agents read, which is made from the pages (`agents.rs`). They read files and start nothing, so
//! they are a test of this crate too.

mod agents;
mod contracts;
mod links;
mod markdown;
mod prose;
mod test_names;
mod wrapping;

use crate::command::root;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct DocumentsArguments {
    /// Break paragraphs that are too wide, before anything is checked.
    #[arg(long)]
    wrap: bool,
    /// Write what is made from the documents: llms.txt and the skill of agents.
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(arguments: &DocumentsArguments) -> Result<()> {
    if arguments.wrap {
        wrap_all()?;
    }
    if arguments.write {
        agents::write(&root())?;
    }
    check()
}

/// Breaks what is too wide in every document.
fn wrap_all() -> Result<()> {
    let root = root();
    for document in files(&root, "md")?.iter().filter(|path| is_read_in_its_place(path)) {
        let text = read(&root, document)?;
        let wrapped = wrapping::wrap(&text);
        if wrapped != text && !prose::is_exempt(document) {
            println!("wrapped {}", document.display());
            std::fs::write(root.join(document), wrapped)
                .with_context(|| format!("cannot write {}", document.display()))?;
        }
    }
    Ok(())
}

/// Something that is wrong in a document, or with what it is about.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    /// The file, from the root of the repository.
    file: PathBuf,
    /// Counted from 1; 0 is the file as a whole.
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Checks every document of the repository, and tells all that is wrong at once.
pub(crate) fn check() -> Result<()> {
    let root = root();
    let documents = files(&root, "md").context("cannot read the documents")?;
    let mut faults = contracts::check(&root)?;
    faults.extend(agents::stale(&root)?.into_iter().map(|file| Fault {
        file: file.into(),
        line: 0,
        what: "its pages have changed: `cargo xtask documents --write` makes it anew".into(),
    }));
    for document in documents.iter().filter(|path| is_read_in_its_place(path)) {
        let text = read(&root, document)?;
        faults.extend(links::check(&root, document, &text));
        faults.extend(prose::check(document, &text));
    }
    for source in files(&root, "rs").context("cannot read the sources")? {
        faults.extend(prose::check_comments(&source, &read(&root, &source)?));
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.sort();
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    bail!("{} faults in the documents:\n{}", lines.len(), lines.join("\n"));
}

/// Whether a document is read where it lies. Those below a `src` folder are parts of others.
fn is_read_in_its_place(path: &Path) -> bool {
    !path.iter().any(|part| part == "src")
}

fn read(root: &Path, file: &Path) -> Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {}", file.display()))
}

/// The files below a folder whose names have an ending, from that folder, in order. Hidden folders
/// and those that programs fill are left out.
pub(crate) fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(within) = folders.pop() {
        let here = folder.join(&within);
        for entry in std::fs::read_dir(&here).with_context(|| format!("cannot read {}", here.display()))? {
            let entry = entry?;
            let name = entry.file_name();
            let text = name.to_string_lossy();
            if text.starts_with('.') || matches!(&*text, "target" | "node_modules" | "dist") {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(within.join(&name));
            } else if Path::new(&name).extension().is_some_and(|found| found == ending) {
                found.push(within.join(&name));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_documents_of_this_repository_are_right() {
        if let Err(faults) = super::check() {
            panic!("{faults:#}");
        }
    }
}
