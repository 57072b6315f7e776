//! Where guests are compiled: off the loop's thread, so that neither a boot nor a restart holds anybody up.
//!
//! Files are looked at and read on one lane of threads, and compiled on another: a guest that takes long to compile does not hold up the
//! restart of one that was compiled before. Each capability has one thread of either at most.

use crate::compiler::code_cache::{Code, CodeCache};
use crate::settings::GuestProgram;
use crate::text::units::show_bytes;
use mainspring_host::{
    CompileLimits, Component, Error, GuestConfig, GuestConfigBuilder, GuestHandle, Host, HostConfig,
    WasiConfig,
};
use mainspring_reactor::{BlockingLane, BlockingOwner, Handle};
use std::cell::{OnceCell, RefCell};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// Guests alive at a time, those that are about to end included. Beyond: a guest is not started, which counts as a failed start.
const GUESTS_MAX: u32 = 1000;

/// The threads that look at modules and load what was compiled before.
const FILES: BlockingLane = BlockingLane::new("guest-files", 4).share(1);
/// The threads that compile. They wait for other processes, which share the processors.
const COMPILERS: BlockingLane = BlockingLane::new("guest-compile", 4).share(1);

/// Compiles guests and starts them. Nothing is set up before the first one.
#[derive(Clone)]
pub(crate) struct GuestCompiler {
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
pub(super) struct CompiledGuest {
    stamp: Stamp,
    code: Code,
}

impl CompiledGuest {
    fn memory_bytes_min(&self) -> u64 {
        match &self.code {
            Code::Module(program) => program.memory_bytes_min(),
            Code::Component(component) => component.memory_bytes_min(),
        }
    }
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

impl GuestCompiler {
    pub(crate) fn new(reactor: &Handle) -> GuestCompiler {
        GuestCompiler { reactor: reactor.clone(), tools: Arc::default(), buffer: Rc::default() }
    }

    pub(super) fn reactor(&self) -> &Handle {
        &self.reactor
    }

    /// The one buffer, so large from its first use on.
    pub(super) fn buffer(&self, bytes: usize) -> Buffer {
        self.buffer.get_or_init(|| Rc::new(RefCell::new(vec![0; bytes].into_boxed_slice()))).clone()
    }

    /// Compiles a guest, unless `known` was compiled from the file as it is now.
    pub(super) async fn cast(
        &self,
        owner: BlockingOwner,
        program: &GuestProgram,
        known: Option<CompiledGuest>,
    ) -> Result<CompiledGuest, String> {
        let (tools, path, limits) = (Arc::clone(&self.tools), program.module.clone(), program.compile);
        let look = move || tools.look(&path, &limits, known);
        let begun = self.reactor.blocking_on(&FILES, owner, look).map_err(|error| error.to_string())?;
        let raw = match begun.await? {
            Look::Known(compiled) => return Ok(compiled),
            Look::New(raw) => raw,
        };
        let tools = Arc::clone(&self.tools);
        let compile = move || tools.compile(&raw, &limits);
        let begun =
            self.reactor.blocking_on(&COMPILERS, owner, compile).map_err(|error| error.to_string())?;
        begun.await
    }

    /// Whether a guest can be compiled, linked and started, as far as that shows before its first instruction.
    pub(super) fn try_out(&self, name: &str, program: &GuestProgram) -> Result<(), String> {
        let compiled = match self.tools.look(&program.module, &program.compile, None)? {
            Look::Known(compiled) => compiled,
            Look::New(raw) => self.tools.compile(&raw, &program.compile)?,
        };
        self.start(&compiled, configuration(name, program)?).map(|guest| guest.kill())
    }

    /// Starts a guest on the loop.
    pub(super) fn start(&self, compiled: &CompiledGuest, config: GuestConfig) -> Result<GuestHandle, String> {
        let host = self.tools.host()?;
        let (needed, limit) = (compiled.memory_bytes_min(), config.limits.memory_bytes as u64);
        if needed > limit {
            let (path, needed, limit) =
                (compiled.stamp.path.display(), show_bytes(needed), show_bytes(limit));
            return Err(format!(
                "{path}: the guest needs {needed} of memory to begin with, and its limit (`limits.memory`) is {limit}"
            ));
        }
        let started = match &compiled.code {
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

    /// Looks at a file, and reads it if it is new.
    fn look(
        &self,
        path: &Path,
        limits: &CompileLimits,
        known: Option<CompiledGuest>,
    ) -> Result<Look, String> {
        let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let stamp = Stamp::of(path).map_err(unreadable)?;
        if let Some(known) = known.filter(|known| known.stamp == stamp) {
            return Ok(Look::Known(known));
        }
        // Anything else might be without end, or never begin.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(format!("{} is not a file", path.display()));
        }
        // One byte more tells what is too large from what just fits.
        let mut bytes = Vec::new();
        let most = limits.bytes.saturating_add(1);
        fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)).map_err(unreadable)?;
        if bytes.len() as u64 > limits.bytes {
            let error = Error::GuestTooLarge { found: stamp.bytes, limit: limits.bytes };
            return Err(refusal(path, &error));
        }
        let raw = Raw { stamp, bytes };
        let (host, cache) = (self.host()?, self.cache());
        Ok(match cache.kept(host, &raw.bytes) {
            Some(code) => Look::Known(CompiledGuest { stamp: raw.stamp, code }),
            None => Look::New(raw),
        })
    }

    fn compile(&self, raw: &Raw, limits: &CompileLimits) -> Result<CompiledGuest, String> {
        let (host, cache) = (self.host()?, self.cache());
        let code = if Component::is_component(&raw.bytes) {
            cache.component_within(host, &raw.bytes, limits).map(Code::Component)
        } else {
            cache.program_within(host, &raw.bytes, limits).map(Code::Module)
        };
        let code = code.map_err(|error| refusal(&raw.stamp.path, &error))?;
        Ok(CompiledGuest { stamp: raw.stamp.clone(), code })
    }

    fn cache(&self) -> &CodeCache {
        self.cache.get_or_init(CodeCache::of_user)
    }
}

/// What a look at a module's file has come to.
enum Look {
    /// It was compiled before.
    Known(CompiledGuest),
    New(Raw),
}

/// A module or component as it was read.
struct Raw {
    stamp: Stamp,
    bytes: Vec<u8>,
}

/// Why a guest is not compiled, with the key of its manifest that would help.
fn refusal(path: &Path, error: &Error) -> String {
    let key = match error {
        Error::GuestTooLarge { .. } => "module",
        Error::FunctionTooLarge { .. } => "function",
        Error::CompileTime { .. } => "compile_time",
        Error::CompileMemory { .. } => "compile_memory",
        _ => return format!("{}: {error}", path.display()),
    };
    format!("{}: {error}; `limits.{key}` of its program raises that", path.display())
}

/// What a guest is given and may do.
pub(super) fn configuration(name: &str, program: &GuestProgram) -> Result<GuestConfig, String> {
    GuestConfigBuilder::new(name)
        .arguments(&program.arguments)
        .environment(program.environment.clone())
        .limits(program.limits.clone())
        .allow_connect(&program.allow_connect)
        .allow_listen(&program.allow_listen)
        .wasi(WasiConfig { folders: program.folders.clone(), sockets: program.wasi_sockets })
        .build()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_reactor::{BLOCKING_THREADS_DEFAULT, Reactor};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_compiler_is_held_up_neither_by_lookups_nor_by_other_work_that_blocks() {
        // (module (func (export "_start")))
        let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("guest.wasm");
        fs::write(&path, module).unwrap();
        let mut reactor = Reactor::new().unwrap();
        // Whatever blocks is stuck: a lookup is made on such a lane, and a configuration is read by such a call.
        let (over, never) = channel::<()>();
        let never = Arc::new(Mutex::new(never));
        let stuck = || {
            let never = never.clone();
            move || {
                let _ = never.lock().unwrap().recv();
            }
        };
        for _ in 0..BLOCKING_THREADS_DEFAULT {
            drop(reactor.blocking(stuck()).unwrap());
        }
        let lookups = BlockingLane::new("lookups", 32);
        for _ in 0..64 {
            drop(reactor.blocking_on(&lookups, BlockingOwner::new(), stuck()).unwrap());
        }
        let program = GuestProgram {
            module: path,
            arguments: Vec::new(),
            environment: Vec::new(),
            allow_connect: Vec::new(),
            allow_listen: Vec::new(),
            wasi_sockets: false,
            folders: Vec::new(),
            limits: mainspring_host::Limits::default(),
            compile: CompileLimits::default(),
            grace: Duration::from_secs(1),
        };
        let guest_compiler = GuestCompiler::new(&reactor);
        let handle = reactor.handle();
        let patience = Duration::from_secs(60);
        let cast = async {
            handle.timeout(patience, guest_compiler.cast(BlockingOwner::new(), &program, None)).await
        };
        let compiled = reactor.block_on(cast).unwrap().expect("it is not held up");
        assert!(compiled.is_ok());
        drop(over);
    }
}
