//! Programs from the package registry that checks are made with. Each is built once, in a version
//! that is written down, into `target/tools`; nothing of the machine is changed.

use crate::command::{self, cargo, root, target_dir};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// A program, which has the name of its package.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The features that are needed beside none.
    pub(crate) features: &'static str,
}

impl Tool {
    /// The program's path. The first call builds it, without optimisation: that takes a minute, and
    /// the program has little to do.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let folder = root().join(target_dir()).join("tools").join(format!("{}-{}", self.name, self.version));
        let program = folder.join("bin").join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        println!("==> building {} {}", self.name, self.version);
        let build = folder.join("build");
        let mut install = cargo();
        install.args(["install", self.name, "--version", self.version, "--locked", "--debug", "--quiet"]);
        install.args(["--no-default-features", "--features", self.features, "--root"]).arg(&folder);
        install.arg("--target-dir").arg(&build);
        command::run(&mut install).with_context(|| format!("cannot build {}", self.name))?;
        // Half a gigabyte that nobody needs again.
        fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
        Ok(program)
    }
}
