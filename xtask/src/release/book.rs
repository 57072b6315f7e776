//! `cargo xtask book`: the documents as a book, by mdBook, with every link in it checked.
//!
//! `docs/SUMMARY.md` is its table of contents. The pages keep their places in the repository, so
//! links between them hold in both; links to what is no page (sources, examples) become plain text.

mod links;
mod stage;

pub(crate) use stage::pages;

use crate::command::{root, run, target_dir};
use crate::machine::tools::Tool;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const MDBOOK: Tool = Tool { name: "mdbook", version: "0.5.4", features: "search" };
const SETTINGS: &str = "\
[book]
title = \"Mainspring\"
language = \"en\"
src = \"src\"

[output.html]
no-section-label = true
smart-punctuation = false
";

/// Makes the book in `target/book`.
pub(crate) fn make() -> Result<()> {
    let folder = folder();
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let pages = stage::stage(&root(), &folder.join("src"))?;
    fs::write(folder.join("book.toml"), SETTINGS)?;
    run(Command::new(MDBOOK.path()?).arg("build").arg(&folder).env("RUST_LOG", "warn"))?;
    let book = folder.join("book");
    let faults = links::check(&book)?;
    if !faults.is_empty() {
        bail!("{} links of the book lead nowhere:\n{}", faults.len(), faults.join("\n"));
    }
    println!("{pages} pages: {}", book.join("index.html").display());
    Ok(())
}

fn folder() -> PathBuf {
    root().join(target_dir()).join("book")
}
