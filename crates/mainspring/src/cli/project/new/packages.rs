//! The packages of the SDKs, which the binary carries: nothing of ours is installed by name from a
//! registry, where it is not.

use crate::cli::project::new::{failed, write_new};
use crate::cli::support::target::Failure;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A file that the binary carries.
pub(in crate::cli::project::new) struct CarriedFile {
    pub(in crate::cli::project::new) name: &'static str,
    pub(in crate::cli::project::new) text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/packages.rs"));

/// A package that a skeleton uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::project::new) enum Package {
    /// `mainspring` for Python: a folder beside the program, which Python finds there.
    Python,
    /// `@mainspring/sdk`: a folder beside the program, and the link to it that npm would make.
    Node,
    /// `mainspring-capability` and what it is made of: a folder with a crate each, which the
    /// program's manifest names by its path.
    Rust,
    /// `mainspring-guest`, likewise.
    Guest,
}

impl Package {
    /// Writes the package into the folder of a capability.
    pub(super) fn write(self, folder: &Path) -> Result<(), Failure> {
        let files = match self {
            Package::Python => PYTHON_PACKAGE,
            Package::Node => NODE_PACKAGE,
            Package::Rust => RUST_PACKAGE,
            Package::Guest => GUEST_PACKAGE,
        };
        for file in files {
            let path = folder.join(file.name);
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
            write_new(&path, file.text).map_err(|error| failed(&path, &error))?;
        }
        if self == Package::Node {
            let modules = folder.join("node_modules/@mainspring");
            fs::create_dir_all(&modules).map_err(|error| failed(&modules, &error))?;
            let link = modules.join("sdk");
            symlink("../../mainspring-sdk", &link).map_err(|error| failed(&link, &error))?;
        }
        Ok(())
    }
}
