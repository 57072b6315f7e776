//! Compiled guests, kept between runs.
//!
//! What is kept is machine code, and loading it means trusting it. So the folder must belong to
//! this user and nobody else may write to it; otherwise nothing is kept and every run compiles.

use crate::compiler;
use mainspring_host::wasmtime::Engine;
use mainspring_host::{CompileLimits, Component, Host, Program};
use sha2::{Digest, Sha256};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many compiled guests are kept; beyond that, those unused for the longest time go.
pub const CACHED_PROGRAMS_MAX: usize = 256;

/// A folder of compiled guests. The name of each is a hash of the guest's bytes, of the engine's
/// settings and of this program's version.
///
/// # Examples
/// ```
/// use mainspring::CodeCache;
/// use mainspring_host::Host;
///
/// let folder = std::env::temp_dir().join(format!("mainspring-cache-doc-{}", std::process::id()));
/// let cache = CodeCache::at(&folder)?;
/// let host = Host::new()?;
/// let module = b"\0asm\x01\0\0\0"; // has nothing to run
/// assert!(cache.program(&host, module).is_err());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CodeCache {
    /// `None`: nothing is kept.
    folder: Option<PathBuf>,
}

impl CodeCache {
    /// Keeps nothing.
    #[must_use]
    pub fn none() -> CodeCache {
        CodeCache { folder: None }
    }

    /// The user's own: `$XDG_CACHE_HOME/mainspring/code`, or `~/.cache/mainspring/code`. Keeps
    /// nothing where there is no such folder.
    #[must_use]
    pub fn of_user() -> CodeCache {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        base.and_then(|base| CodeCache::at(&base.join("mainspring/code")).ok())
            .unwrap_or_else(CodeCache::none)
    }

    /// A certain folder, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or others may write to it.
    pub fn at(folder: &Path) -> io::Result<CodeCache> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let metadata = fs::metadata(folder)?;
        let ours = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == metadata.uid());
        if !ours || metadata.permissions().mode() & 0o022 != 0 {
            let text =
                format!("{} may be written by others, so compiled code is not kept there", folder.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(CodeCache { folder: Some(folder.to_path_buf()) })
    }

    /// A module or component that was compiled earlier, if its code was kept.
    pub(crate) fn kept(&self, host: &Host, bytes: &[u8]) -> Option<Code> {
        let code = |kind| kept(self.path(host.engine_for(bytes).ok()?, bytes, kind).as_deref());
        if Component::is_component(bytes) {
            // SAFETY: only this user writes to the folder, and only what a compiler of this program
            // returned; the name covers engine and content.
            unsafe { host.load_component(&code("component")?) }.ok().map(Code::Component)
        } else {
            // SAFETY: as above.
            unsafe { host.load(&code("module")?) }.ok().map(Code::Module)
        }
    }

    /// A module, compiled now or earlier.
    ///
    /// # Errors
    /// As [`Host::compile`].
    pub fn program(&self, host: &Host, bytes: &[u8]) -> mainspring_host::Result<Program> {
        self.program_within(host, bytes, &CompileLimits::default())
    }

    /// A module, compiled now, within limits, or earlier.
    ///
    /// # Errors
    /// As [`Host::compile_within`]; in the program `mainspring`, which compiles in processes of
    /// their own, [`CompileTime`](mainspring_host::Error::CompileTime) and
    /// [`CompileMemory`](mainspring_host::Error::CompileMemory) too.
    pub fn program_within(
        &self,
        host: &Host,
        bytes: &[u8],
        limits: &CompileLimits,
    ) -> mainspring_host::Result<Program> {
        let path = self.path(host.engine(), bytes, "module");
        // SAFETY: only this user writes to the folder, and only what a compiler of this program
        // returned; the name covers engine and content. Or a compiler of this program has just
        // returned it.
        let load = |code: &[u8]| unsafe { host.load(code) };
        if let Some(program) = kept(path.as_deref()).and_then(|code| load(&code).ok()) {
            return Ok(program);
        }
        let code = compiler::compile(host, bytes, limits)?;
        let program = load(&code)?;
        self.keep(path, &code);
        Ok(program)
    }

    /// A component, compiled now or earlier.
    ///
    /// # Errors
    /// As [`Host::compile_component`].
    pub fn component(&self, host: &Host, bytes: &[u8]) -> mainspring_host::Result<Component> {
        self.component_within(host, bytes, &CompileLimits::default())
    }

    /// A component, compiled now, within limits, or earlier.
    ///
    /// # Errors
    /// As [`program_within`](CodeCache::program_within).
    pub fn component_within(
        &self,
        host: &Host,
        bytes: &[u8],
        limits: &CompileLimits,
    ) -> mainspring_host::Result<Component> {
        // Nothing that is too large is looked at any closer.
        limits.check(bytes)?;
        let path = self.path(host.engine_for(bytes)?, bytes, "component");
        // SAFETY: as above.
        let load = |code: &[u8]| unsafe { host.load_component(code) };
        if let Some(component) = kept(path.as_deref()).and_then(|code| load(&code).ok()) {
            return Ok(component);
        }
        let code = compiler::compile(host, bytes, limits)?;
        let component = load(&code)?;
        self.keep(path, &code);
        Ok(component)
    }

    fn path(&self, engine: &Engine, bytes: &[u8], kind: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let mut settings = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut settings);
        let mut content = Sha256::new();
        content.update(env!("CARGO_PKG_VERSION"));
        content.update(settings.finish().to_le_bytes());
        content.update(bytes);
        let name: String = content.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(folder.join(format!("{name}.{kind}")))
    }

    /// Keeps code. That it cannot be kept is no reason to fail: the guest runs all the same.
    fn keep(&self, path: Option<PathBuf>, code: &[u8]) {
        let (Some(folder), Some(path)) = (&self.folder, path) else { return };
        // Written aside and renamed, so that nobody ever loads half of it.
        let aside = path.with_extension(format!("{}.tmp", std::process::id()));
        if fs::write(&aside, code).and_then(|()| fs::rename(&aside, &path)).is_err() {
            let _ = fs::remove_file(&aside);
        }
        let _ = forget_oldest(folder, CACHED_PROGRAMS_MAX);
    }
}

/// A compiled guest of either shape.
#[derive(Clone)]
pub(crate) enum Code {
    Module(Program),
    Component(Component),
}

/// Kept code. Its file is touched, so that what is used stays.
fn kept(path: Option<&Path>) -> Option<Vec<u8>> {
    let path = path?;
    let code = fs::read(path).ok()?;
    let _ = fs::File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
    Some(code)
}

fn forget_oldest(folder: &Path, files_max: usize) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    for (_, path) in files.iter().take(files.len().saturating_sub(files_max)) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mainspring-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = folder("cache-shared");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(CodeCache::at(&folder).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_module_is_compiled_once_and_damaged_code_is_compiled_again() {
        let folder = folder("cache-module");
        let cache = CodeCache::at(&folder).unwrap();
        let host = Host::new().unwrap();
        // (module (func (export "_start")))
        let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";
        cache.program(&host, module).unwrap();
        let files = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        assert_eq!(files().len(), 1);
        let kept = fs::read(&files()[0]).unwrap();
        cache.program(&host, module).unwrap();
        assert_eq!(files().len(), 1);
        fs::write(&files()[0], b"rubbish").unwrap();
        cache.program(&host, module).unwrap();
        assert_eq!(fs::read(&files()[0]).unwrap().len(), kept.len());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_was_unused_for_longest_goes_first() {
        let folder = folder("cache-oldest");
        fs::create_dir_all(&folder).unwrap();
        for (name, age) in [("old", 30), ("older", 60), ("new", 0)] {
            let file = fs::File::create(folder.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        forget_oldest(&folder, 2).unwrap();
        assert!(folder.join("old").exists() && folder.join("new").exists() && !folder.join("older").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
