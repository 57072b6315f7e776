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
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return Ok(()) };
    // A package of this crate alone has no SDKs beside it: the program made of it has the plain
    // skeletons.
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let mut text = String::new();
    for (name, list) in lists(&root, &out)? {
        let _ = writeln!(text, "pub(super) const {name}: &[CarriedFile] = &[");
        for (name, path) in list {
            // What this run made is newer than its beginning, and would have it run each time.
            if !path.starts_with(&out) {
                println!("cargo::rerun-if-changed={}", path.display());
            }
            let path = fs::canonicalize(&path)?;
            let _ = writeln!(text, "    CarriedFile {{ name: {name:?}, text: include_str!({path:?}) }},");
        }
        text.push_str("];\n");
    }
    fs::write(out.join("packages.rs"), text)
}

/// Files with the names that they get.
type Files = Vec<(String, PathBuf)>;

/// What the program carries, by the names of its lists.
fn lists(root: &Path, out: &Path) -> io::Result<Vec<(&'static str, Files)>> {
    let sdk = &root.join("sdk");
    let mut node = files(&sdk.join("typescript/dist"), "mainspring-sdk/dist")?;
    for name in ["package.json", "LICENSE-MIT", "LICENSE-APACHE"] {
        let path = sdk.join("typescript").join(name);
        node.extend(path.is_file().then(|| (format!("mainspring-sdk/{name}"), path)));
    }
    let skeleton = |folder: &str| -> io::Result<Files> {
        let found = files(&sdk.join(folder), "")?;
        // The one is hidden where it goes, the other is for whoever changes the skeleton.
        let named = found.into_iter().filter(|(name, _)| name != "README.md").map(|(name, path)| match name
            .strip_suffix(".template")
        {
            Some(name) => (name.to_owned(), path),
            None if name == "gitignore" => (".gitignore".to_owned(), path),
            None => (name, path),
        });
        Ok(named.collect())
    };
    Ok(vec![
        ("PYTHON_PACKAGE", files(&sdk.join("python/src/mainspring"), "mainspring")?),
        ("NODE_PACKAGE", node),
        ("PYTHON_SKELETON", skeleton("python/skeleton")?),
        ("JAVASCRIPT_SKELETON", skeleton("typescript/skeleton/javascript")?),
        ("TYPESCRIPT_SKELETON", skeleton("typescript/skeleton/typescript")?),
        ("RUST_PACKAGE", crates(root, out, &["capability", "message"])?),
        ("GUEST_PACKAGE", crates(root, out, &["guest", "capability", "message", "ticks", "zcl"])?),
        ("RUST_SKELETON", skeleton("rust/skeleton/process")?),
        ("GUEST_SKELETON", skeleton("rust/skeleton/guest")?),
    ])
}

/// The sources of crates of the workspace, side by side, each with a manifest that needs no
/// workspace.
fn crates(root: &Path, out: &Path, names: &[&str]) -> io::Result<Files> {
    let mut found = Files::new();
    let workspace = root.join("Cargo.toml");
    if !workspace.is_file() || names.iter().any(|name| !root.join("crates").join(name).is_dir()) {
        return Ok(found);
    }
    println!("cargo::rerun-if-changed={}", workspace.display());
    let workspace = fs::read_to_string(workspace)?;
    for name in names {
        let folder = root.join("crates").join(name);
        found.extend(files(&folder.join("src"), &format!("mainspring-sdk/{name}/src"))?);
        for file in ["build.rs", "README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            let path = folder.join(file);
            found.extend(path.is_file().then(|| (format!("mainspring-sdk/{name}/{file}"), path)));
        }
        let manifest = folder.join("Cargo.toml");
        println!("cargo::rerun-if-changed={}", manifest.display());
        let alone = out.join(format!("{name}.toml"));
        fs::write(&alone, stand_alone(&fs::read_to_string(manifest)?, &workspace))?;
        found.push((format!("mainspring-sdk/{name}/Cargo.toml"), alone));
    }
    Ok(found)
}

/// A manifest with what it takes from the workspace written out, and without what only its own
/// tests need.
fn stand_alone(manifest: &str, workspace: &str) -> String {
    const LEFT_OUT: [&str; 4] = ["[lints]", "[dev-dependencies]", "[[example]]", "[package.metadata"];
    let mut text = String::new();
    let mut is_kept = true;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_kept = !LEFT_OUT.iter().any(|section| line.starts_with(section));
        }
        if !is_kept {
            continue;
        }
        let inherited = line.strip_suffix(".workspace = true").and_then(|key| {
            let beginning = format!("{key} = ");
            workspace.lines().find(|line| line.starts_with(&beginning))
        });
        // Side by side, as they are in the workspace.
        text += &inherited.unwrap_or(line).replace("path = \"crates/", "path = \"../");
        text.push('\n');
    }
    text
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
