//! The Debian package.

use super::{PROGRAMS, SHELLS, gzip, parts_list};
use crate::command::{root, run};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where each shell looks for completions.
const COMPLETIONS: [&str; 3] = [
    "usr/share/bash-completion/completions",
    "usr/share/zsh/vendor-completions",
    "usr/share/fish/vendor_completions.d",
];
/// The files of the repository, and where they are installed.
const FILES: [(&str, &str); 9] = [
    ("packaging/systemd/system/mainspring.service", "usr/lib/systemd/system/mainspring.service"),
    ("packaging/systemd/system/mainspring.socket", "usr/lib/systemd/system/mainspring.socket"),
    ("packaging/systemd/user/mainspring.service", "usr/lib/systemd/user/mainspring.service"),
    ("packaging/systemd/user/mainspring.socket", "usr/lib/systemd/user/mainspring.socket"),
    ("packaging/debian/sysusers.conf", "usr/lib/sysusers.d/mainspring.conf"),
    ("packaging/mainspring.toml", "etc/mainspring/mainspring.toml"),
    ("packaging/debian/copyright", "usr/share/doc/mainspring/copyright"),
    ("LICENSE-MIT", "usr/share/doc/mainspring/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/mainspring/LICENSE-APACHE"),
];
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Files that belong to the administrator once they are there.
const CONFFILES: &str = "/etc/mainspring/mainspring.toml\n";

/// Packs what lies in the folder; gives the package.
pub(super) fn pack(folder: &Path, version: &str) -> Result<PathBuf> {
    let tree = folder.join("tree");
    for (program, _) in PROGRAMS {
        install(&folder.join(program), &tree.join("usr/bin").join(program), 0o755)?;
        let list = parts_list(program);
        install(&folder.join(&list), &tree.join("usr/share/doc/mainspring").join(list), 0o644)?;
    }
    for (from, to) in FILES {
        install(&root().join(from), &tree.join(to), 0o644)?;
    }
    fs::create_dir_all(tree.join("etc/mainspring/capabilities"))?;
    let extras = folder.join("extras");
    for ((_, file), place) in SHELLS.iter().zip(COMPLETIONS) {
        install(&extras.join("completions").join(file), &tree.join(place).join(file), 0o644)?;
    }
    for page in fs::read_dir(extras.join("man1"))? {
        let page = page?;
        let to = tree.join("usr/share/man/man1").join(page.file_name());
        install(&page.path(), &to, 0o644)?;
        gzip(&to)?;
    }
    let changes = tree.join("usr/share/doc/mainspring/changelog");
    install(&extras.join("CHANGELOG.md"), &changes, 0o644)?;
    gzip(&changes)?;
    control(&tree, version)?;
    let package = folder.join(format!("mainspring_{version}_amd64.deb"));
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&package);
    run(deb.env("SOURCE_DATE_EPOCH", super::time_of_commit()))?;
    fs::remove_dir_all(&tree)?;
    Ok(package)
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let folder = to.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

/// What dpkg reads.
fn control(tree: &Path, version: &str) -> Result<()> {
    let kilobytes = size(tree)?.div_ceil(1024);
    let folder = tree.join("DEBIAN");
    fs::create_dir_all(&folder)?;
    let text = format!(
        "Package: mainspring\n\
         Version: {version}\n\
         Architecture: amd64\n\
         Maintainer: The Mainspring developers <mainspring@localhost>\n\
         Installed-Size: {kilobytes}\n\
         Section: net\n\
         Priority: optional\n\
         Recommends: systemd\n\
         Description: message bus for local services and sandboxed guests\n \
         A daemon that carries commands, queries and events between clients and\n \
         supervised capabilities: programs in any language, as processes or as\n \
         sandboxed WebAssembly guests. Every request ends in exactly one answer.\n"
    );
    fs::write(folder.join("control"), text)?;
    fs::write(folder.join("conffiles"), CONFFILES)?;
    for script in SCRIPTS {
        install(&root().join("packaging/debian").join(script), &folder.join(script), 0o755)?;
    }
    Ok(())
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        sum += if kind.is_dir() { size(&entry.path())? } else { kind.len() };
    }
    Ok(sum)
}
