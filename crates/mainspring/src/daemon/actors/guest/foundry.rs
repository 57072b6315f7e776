//! Where guests are compiled: on threads of the reactor's pool, so that neither a boot nor a restart holds anybody up.

use crate::CodeCache;
use crate::settings::GuestProgram;
use crate::units::show_bytes;
use mainspring_host::{Component, GuestConfig, GuestHandle, Host, HostConfig, Program};
use mainspring_reactor::{Blocking, Handle};
use std::cell::{OnceCell, RefCell};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// Guests alive at a time, those that are about to end included. Beyond: a guest is not started, which counts as a failed start.
const GUESTS_MAX: u32 = 1000;

/// Compiles guests and starts them. Nothing is set up before the first one.
#[derive(Clone)]
pub(crate) struct Foundry {
    reactor: Handle,
    tools: Arc<Tools>,
    buffer: Rc<OnceCell<Buffer>>,
}

/// Where what guests say is read to, whoever says it.
pub(super) type Buffer = Rc<RefCell<Box<[u8]>>>;

#[derive(Default)]
struct Tools {
    host: OnceLock<Result<Host, String>>,
    cache: OnceLock<CodeCache>,
}

/// A compiled guest, and the file that it was compiled from.
#[derive(Clone)]
pub(super) struct Casting {
    stamp: Stamp,
    code: Code,
}

impl Casting {
    fn memory_bytes_min(&self) -> u64 {
        match &self.code {
            Code::Module(program) => program.memory_bytes_min(),
            Code::Component(component) => component.memory_bytes_min(),
        }
    }
}

#[derive(Clone)]
enum Code {
    Module(Program),
    Component(Component),
}

/// What tells one state of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Stamp> {
        let metadata = fs::metadata(path)?;
        Ok(Stamp {
            path: path.to_path_buf(),
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: (metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl Foundry {
    pub(crate) fn new(reactor: &Handle) -> Foundry {
        Foundry { reactor: reactor.clone(), tools: Arc::default(), buffer: Rc::default() }
    }

    pub(super) fn reactor(&self) -> &Handle {
        &self.reactor
    }

    /// The one buffer, so large from its first use on.
    pub(super) fn buffer(&self, bytes: usize) -> Buffer {
        self.buffer.get_or_init(|| Rc::new(RefCell::new(vec![0; bytes].into_boxed_slice()))).clone()
    }

    /// Compiles a guest, unless `known` was compiled from the file as it is now.
    pub(super) fn cast(
        &self,
        path: &Path,
        known: Option<Casting>,
    ) -> Result<Blocking<Result<Casting, String>>, String> {
        let (tools, path) = (Arc::clone(&self.tools), path.to_path_buf());
        let job = move || tools.cast(&path, known);
        self.reactor.blocking(job).map_err(|error| error.to_string())
    }

    /// Whether a guest can be compiled, linked and started, as far as that shows before its first instruction.
    pub(super) fn try_out(&self, name: &str, program: &GuestProgram) -> Result<(), String> {
        let casting = self.tools.cast(&program.module, None)?;
        self.start(&casting, configuration(name, program)?).map(|guest| guest.kill())
    }

    /// Starts a guest on the loop.
    pub(super) fn start(&self, casting: &Casting, config: GuestConfig) -> Result<GuestHandle, String> {
        let host = self.tools.host()?;
        let (needed, limit) = (casting.memory_bytes_min(), config.limits.memory_bytes as u64);
        if needed > limit {
            let (path, needed, limit) = (casting.stamp.path.display(), show_bytes(needed), show_bytes(limit));
            return Err(format!(
                "{path}: the guest needs {needed} of memory to begin with, and its limit (`limits.memory`) is {limit}"
            ));
        }
        let started = match &casting.code {
            Code::Module(program) => host.spawn(&self.reactor, program, config),
            Code::Component(component) => host.spawn_component(&self.reactor, component, config),
        };
        started.map_err(|error| error.to_string())
    }
}

impl Tools {
    fn host(&self) -> Result<&Host, String> {
        let made = self.host.get_or_init(|| {
            let mut config = HostConfig::new();
            config.guests_max = GUESTS_MAX;
            // Capabilities are few and live long: slots made beforehand would only take address space.
            config.pooling = false;
            config.build().map_err(|error| error.to_string())
        });
        made.as_ref().map_err(String::clone)
    }

    fn cast(&self, path: &Path, known: Option<Casting>) -> Result<Casting, String> {
        let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let stamp = Stamp::of(path).map_err(unreadable)?;
        if let Some(known) = known.filter(|known| known.stamp == stamp) {
            return Ok(known);
        }
        let bytes = fs::read(path).map_err(unreadable)?;
        let (host, cache) = (self.host()?, self.cache.get_or_init(CodeCache::of_user));
        let code = if Component::is_component(&bytes) {
            cache.component(host, &bytes).map(Code::Component)
        } else {
            cache.program(host, &bytes).map(Code::Module)
        };
        let code = code.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Casting { stamp, code })
    }
}

/// What a guest is given and may do.
pub(super) fn configuration(name: &str, program: &GuestProgram) -> Result<GuestConfig, String> {
    let mut config = GuestConfig::new();
    config.limits = program.limits.clone();
    // As with any program, the first argument is its name.
    config.arguments = std::iter::once(name.to_owned()).chain(program.arguments.iter().cloned()).collect();
    config.environment.clone_from(&program.environment);
    for rule in &program.allow_connect {
        config.network.allow_connect(rule).map_err(|error| error.to_string())?;
    }
    for rule in &program.allow_listen {
        config.network.allow_listen(rule).map_err(|error| error.to_string())?;
    }
    config.wasi.folders.clone_from(&program.folders);
    config.wasi.sockets = program.wasi_sockets;
    Ok(config)
}
