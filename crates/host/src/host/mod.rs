//! The host: one engine, one linker, any number of guests. What it is made of is in `config` and
//! `engine`, how a guest comes to be in `start`; what runs afterwards is in `guest`.

mod config;
mod engine;
mod start;

use crate::capabilities::AnyCapability;
use crate::compile::CompileLimits;
use crate::guest::run::Run;
use crate::guest::state::GuestState;
use crate::guest::stats::{HostCounters, HostStats};
use crate::guest::{GuestConfig, GuestHandle};
use crate::limits::ticker::Ticker;
use crate::program::Program;
use crate::{Error, Result};
#[cfg(feature = "wasi")]
use config::ComponentLink;
use config::ExitCode;
pub use config::HostConfig;
use config::Resolver;
pub(crate) use engine::guarded;
use mainspring_reactor::Handle;
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "wasi")]
use std::sync::OnceLock;
use wasmtime::{Engine, Linker, Module};

/// What a host and its guests share.
pub(crate) struct HostShared {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) counters: Arc<HostCounters>,
    pub(crate) capabilities: Vec<Box<dyn AnyCapability>>,
    pub(crate) exit_code: Option<ExitCode>,
    #[cfg(feature = "wasi")]
    pub(crate) socket_wait: crate::SocketWait,
    #[cfg(feature = "wasi")]
    pub(crate) component_links: Vec<ComponentLink>,
    /// Made for the first component that needs it. Its guests have no slots made beforehand: they
    /// are few.
    #[cfg(feature = "wasi")]
    async_engine: OnceLock<Engine>,
    pub(crate) resolver: Resolver,
    guests_max: u32,
    memory_bytes_max: usize,
    pub(crate) descriptors_max: u64,
}

/// Compiles guests and starts them on reactors. Cheap to clone, and may be shared between threads
/// that each have a reactor.
///
/// # Examples
/// ```
/// use mainspring_host::{Exit, GuestConfig, Host};
/// use mainspring_reactor::Reactor;
///
/// let host = Host::new()?;
/// let program = host.compile(&wat::parse_str(
///     r#"(module (func (export "main") (param i32 i32) (result i32) (i32.const 42)))"#,
/// )?)?;
/// let mut reactor = Reactor::new()?;
/// let guest = host.spawn(&reactor, &program, GuestConfig::new())?;
/// assert_eq!(reactor.block_on(guest.exit())?, Exit::Returned(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Host {
    linker: Arc<Linker<GuestState>>,
    pub(crate) shared: Arc<HostShared>,
}

impl Host {
    /// A host with the default settings: see [`HostConfig`].
    ///
    /// # Errors
    /// As [`HostConfig::build`].
    pub fn new() -> Result<Host> {
        HostConfig::default().build()
    }

    /// Compiles a module within the default [`CompileLimits`].
    ///
    /// # Errors
    /// As [`compile_within`](Host::compile_within).
    pub fn compile(&self, bytes: &[u8]) -> Result<Program> {
        self.compile_within(bytes, &CompileLimits::default())
    }

    /// Compiles a module, binary or, if the engine was built with it, text. Its sizes are checked
    /// first.
    ///
    /// # Errors
    /// [`Error::GuestTooLarge`], [`Error::FunctionTooLarge`], [`Error::Compile`], [`Error::Link`],
    /// [`Error::NoEntryPoint`], [`Error::EntryPointType`].
    pub fn compile_within(&self, bytes: &[u8], limits: &CompileLimits) -> Result<Program> {
        limits.check(bytes)?;
        let module = guarded(|| Module::new(&self.shared.engine, bytes))?;
        Program::new(&self.linker, &module)
    }

    /// Compiles a module or component to what [`load`](Host::load) and [`Host::load_component`]
    /// take, and does not link it.
    ///
    /// # Errors
    /// [`Error::GuestTooLarge`], [`Error::FunctionTooLarge`], [`Error::Compile`].
    pub fn precompile(&self, bytes: &[u8], limits: &CompileLimits) -> Result<Vec<u8>> {
        limits.check(bytes)?;
        let engine = self.engine_for(bytes)?;
        #[cfg(feature = "wasi")]
        if crate::Component::is_component(bytes) {
            return guarded(|| engine.precompile_component(bytes));
        }
        guarded(|| engine.precompile_module(bytes))
    }

    /// Links a module that was compiled by this host's [`engine`](Host::engine).
    ///
    /// # Errors
    /// [`Error::Link`], [`Error::NoEntryPoint`], [`Error::EntryPointType`].
    pub fn link(&self, module: &Module) -> Result<Program> {
        Program::new(&self.linker, module)
    }

    /// Loads code that [`Program::serialize`] returned.
    ///
    /// # Safety
    /// The bytes must come from [`Program::serialize`] and must not have been changed: they are
    /// machine code.
    ///
    /// # Errors
    /// [`Error::Compile`] if they come from another version or other settings; otherwise as
    /// [`compile`](Host::compile).
    pub unsafe fn load(&self, bytes: &[u8]) -> Result<Program> {
        // SAFETY: the caller vouches for the bytes.
        let module = unsafe { Module::deserialize(&self.shared.engine, bytes) }.map_err(Error::Compile)?;
        Program::new(&self.linker, &module)
    }

    /// Starts a guest on a reactor. It runs from the next turn on.
    ///
    /// # Errors
    /// [`Error::TooManyGuests`], [`Error::Stdio`], [`Error::Reactor`]; with WASI, `Error::Folder`
    /// and `Error::BandwidthOfWasiSockets` too.
    pub fn spawn(&self, reactor: &Handle, program: &Program, config: GuestConfig) -> Result<GuestHandle> {
        self.start(reactor, config, |context, extras| {
            #[cfg(feature = "wasi")]
            let extras = extras.with_wasi(program.imports_wasi(), context)?;
            Ok(Run::new(program, context, extras.into_inner()))
        })
    }

    /// The engine that compiles and runs the guests, except for components that need another: see
    /// [`engine_for`](Host::engine_for).
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// The engine that compiles and runs this module or component. Those that use async features of
    /// the component model have one of their own, made for the first of them, so that the others do
    /// not pay for it.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn engine_for(&self, bytes: &[u8]) -> Result<&Engine> {
        #[cfg(feature = "wasi")]
        if crate::Component::is_component(bytes) && crate::compile::needs_async(bytes) {
            return self.async_engine();
        }
        let _ = bytes;
        Ok(self.engine())
    }

    /// The engine of components that use async features.
    #[cfg(feature = "wasi")]
    pub(crate) fn async_engine(&self) -> Result<&Engine> {
        let shared = &self.shared;
        if let Some(engine) = shared.async_engine.get() {
            return Ok(engine);
        }
        let mut config = engine::base_config();
        config.concurrency_support(true);
        config.wasm_component_model_async(true);
        config.wasm_component_model_more_async_builtins(true);
        let engine =
            Engine::new(&config).map_err(|source| Error::Engine { guests_max: shared.guests_max, source })?;
        // Whoever comes second drops its own.
        let engine = shared.async_engine.get_or_init(|| engine);
        shared.ticker.also(engine);
        Ok(engine)
    }

    /// What all guests have done together.
    pub fn stats(&self) -> HostStats {
        self.shared.counters.snapshot()
    }

    /// Whether the thread that preempts guests is at rest, as it is once no guest has run for a few
    /// milliseconds.
    pub fn is_ticker_parked(&self) -> bool {
        self.shared.ticker.is_parked()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
