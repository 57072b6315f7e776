//! Says in a sentence that this is for Linux, instead of a page of errors about what is missing
//! elsewhere. And lists the files of the SDKs' packages, which `mainspring new` writes beside a
//! program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if system != "linux" {
        println!(
            "cargo::error=the program mainspring runs on Linux alone, not on {system}; mainspring-client, -reactor, -message, \
             -kernel, -journal and -zcl build on every Unix"
        );
    }
    // A package of this crate alone has no SDKs beside it: the program made of it has the plain skeletons.
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../sdk");
    let mut text = String::new();
    for (name, list) in lists(&root)? {
        let _ = writeln!(text, "pub(super) const {name}: &[CarriedFile] = &[");
        for (name, path) in list {
            println!("cargo::rerun-if-changed={}", path.display());
            let path = fs::canonicalize(&path)?;
            let _ = writeln!(text, "    CarriedFile {{ name: {name:?}, text: include_str!({path:?}) }},");
        }
        text.push_str("];\n");
    }
    match env::var_os("OUT_DIR") {
        Some(folder) => fs::write(PathBuf::from(folder).join("packages.rs"), text),
        None => Ok(()),
    }
}

/// Files with the names that they get.
type Files = Vec<(String, PathBuf)>;

/// What the program carries, by the names of its lists.
fn lists(sdk: &Path) -> io::Result<Vec<(&'static str, Files)>> {
    let mut node = files(&sdk.join("typescript/dist"), "mainspring-sdk/dist")?;
    for name in ["package.json", "LICENSE-MIT", "LICENSE-APACHE"] {
        let path = sdk.join("typescript").join(name);
        node.extend(path.is_file().then(|| (format!("mainspring-sdk/{name}"), path)));
    }
    let skeleton = |folder: &str| -> io::Result<Files> {
        let found = files(&sdk.join(folder), "")?;
        // The one is hidden where it goes, the other is for whoever changes the skeleton.
        let named = found
            .into_iter()
            .filter(|(name, _)| name != "README.md")
            .map(|(name, path)| (if name == "gitignore" { ".gitignore".to_owned() } else { name }, path));
        Ok(named.collect())
    };
    Ok(vec![
        ("PYTHON_PACKAGE", files(&sdk.join("python/src/mainspring"), "mainspring")?),
        ("NODE_PACKAGE", node),
        ("PYTHON_SKELETON", skeleton("python/skeleton")?),
        ("JAVASCRIPT_SKELETON", skeleton("typescript/skeleton/javascript")?),
        ("TYPESCRIPT_SKELETON", skeleton("typescript/skeleton/typescript")?),
    ])
}

/// The files below a folder, in order, each with the name that it gets.
fn files(folder: &Path, name: &str) -> io::Result<Files> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        let own = entry.file_name().to_string_lossy().into_owned();
        if own == "__pycache__" {
            continue;
        }
        let inner = if name.is_empty() { own } else { format!("{name}/{own}") };
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path(), &inner)?);
        } else {
            found.push((inner, entry.path()));
        }
    }
    Ok(found)
}
