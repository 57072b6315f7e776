//! The host: one engine, one linker, any number of guests.

use crate::abi::imports;
use crate::capabilities::Capability;
use crate::capabilities::{net_tcp, process, sys_info, sys_loop};
use crate::compile::CompileLimits;
use crate::guest::context::GuestContext;
use crate::guest::run::Run;
use crate::guest::state::{Extras, GuestState};
use crate::guest::stats::{Counters, HostCounters, HostStats};
use crate::guest::{ExitSlot, GuestConfig, GuestHandle};
use crate::handles::table::{Entry, Table};
use crate::limits::Limits;
use crate::limits::bandwidth;
use crate::limits::ticker::Ticker;
use crate::program::Program;
use crate::{Error, Result};
use mainspring_reactor::{BlockingOwner, Handle};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
#[cfg(feature = "wasi")]
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, Linker, Module, PoolingAllocationConfig,
};

/// Memory mappings that one guest may take: its memory, its stack and the guards around them.
const MAPPINGS_PER_GUEST: u64 = 5;
/// Memory mappings left for everything else in the process.
const MAPPINGS_RESERVED: u64 = 4096;
/// Bytes of a guest's memory that stay resident in a free slot, so that starting the next guest there is cheap.
const KEEP_RESIDENT_BYTES: usize = 1 << 20;
/// Address space that is set aside for each guest's memory while there is enough: no bounds check is then needed.
const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;
/// Address space that all guests together may set aside.
const ADDRESS_SPACE_BYTES: u64 = 64 << 40;

/// Modules that one component may be made of: its own, the adapter of preview 1, and the two that tie them together.
#[cfg(feature = "wasi")]
const MODULES_PER_COMPONENT: u32 = 4;

type Link = Box<dyn FnOnce(&mut Linker<GuestState>) -> wasmtime::Result<()>>;

/// Adds imports to a component's linker, once for each component.
#[cfg(feature = "wasi")]
type ComponentLink =
    Box<dyn Fn(&mut wasmtime::component::Linker<GuestState>) -> wasmtime::Result<()> + Send + Sync>;

/// How a host is made.
///
/// # Examples
/// ```
/// use mainspring_host::HostConfig;
///
/// let mut config = HostConfig::default();
/// config.guests_max = 10;
/// let host = config.build()?;
/// assert_eq!(host.stats().guests, 0);
/// # Ok::<(), mainspring_host::Error>(())
/// ```
#[non_exhaustive]
pub struct HostConfig {
    /// Most guests alive at a time. Address space is set aside for them, memory is not. 1,000.
    pub guests_max: u32,
    /// The largest memory that any guest may have, whatever its own limit. 4 GiB, or less if there are many guests.
    pub memory_bytes_max: usize,
    /// Most descriptors that all guests together may hold: connections and listeners, by `net/tcp@v1` and `mainspring:sockets`. Beyond, a
    /// guest is told that there is no room. Half of what the process may open.
    pub descriptors_max: u64,
    /// Whether slots for guests are made beforehand. Without, starting a guest is slower, and only limits bound their number.
    pub pooling: bool,
    /// How long a component that wakes itself is made to wait when a socket of `mainspring:sockets` would block. What
    /// [`SocketWait::from_environment`](crate::SocketWait::from_environment) says.
    #[cfg(feature = "wasi")]
    pub socket_wait: crate::SocketWait,
    capabilities: Vec<Arc<dyn Capability>>,
    links: Vec<Link>,
    #[cfg(feature = "wasi")]
    component_links: Vec<ComponentLink>,
    exit_code: Option<ExitCode>,
    resolver: Resolver,
}

/// Looks a name up, and may block.
pub(crate) type Resolver = Arc<dyn Fn(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Asks the system.
fn system_resolver(name: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    Ok((name, port).to_socket_addrs()?.collect())
}

/// Finds the exit code in an error that is none.
pub(crate) type ExitCode = fn(&wasmtime::Error) -> Option<i32>;

impl Default for HostConfig {
    fn default() -> HostConfig {
        HostConfig {
            guests_max: 1000,
            memory_bytes_max: 4 << 30,
            descriptors_max: half_of_the_descriptors(),
            pooling: true,
            #[cfg(feature = "wasi")]
            socket_wait: crate::SocketWait::from_environment(),
            capabilities: vec![
                Arc::new(net_tcp::NetTcp),
                Arc::new(process::Arguments),
                Arc::new(process::Environment),
                Arc::new(sys_info::SysInfo),
                Arc::new(sys_loop::SysLoop),
            ],
            links: Vec::new(),
            #[cfg(feature = "wasi")]
            component_links: Vec::new(),
            #[cfg(feature = "wasi")]
            exit_code: Some(crate::wasi::exit_code),
            #[cfg(not(feature = "wasi"))]
            exit_code: None,
            resolver: Arc::new(system_resolver),
        }
    }
}

impl HostConfig {
    /// The defaults.
    pub fn new() -> HostConfig {
        HostConfig::default()
    }

    /// Adds a capability. One of the same kind and name is replaced.
    pub fn capability(&mut self, capability: impl Capability) -> &mut HostConfig {
        self.capabilities
            .retain(|known| (known.kind(), known.name()) != (capability.kind(), capability.name()));
        self.capabilities.push(Arc::new(capability));
        self
    }

    /// Adds imports, such as WASI's. What they need per guest goes into [`GuestConfig::extension`].
    pub fn link(
        &mut self,
        link: impl FnOnce(&mut Linker<GuestState>) -> wasmtime::Result<()> + 'static,
    ) -> &mut HostConfig {
        self.links.push(Box::new(link));
        self
    }

    /// Adds imports for components. One of the same name replaces the host's own.
    #[cfg(feature = "wasi")]
    pub fn link_component(
        &mut self,
        link: impl Fn(&mut wasmtime::component::Linker<GuestState>) -> wasmtime::Result<()>
        + Send
        + Sync
        + 'static,
    ) -> &mut HostConfig {
        self.component_links.push(Box::new(link));
        self
    }

    /// Tells guests that asked to exit, by an error that an added import returns, from those that trapped.
    pub fn exit_code(&mut self, exit_code: fn(&wasmtime::Error) -> Option<i32>) -> &mut HostConfig {
        self.exit_code = Some(exit_code);
        self
    }

    /// Looks names up in another way than the system's, for `net/tcp@v1` and `mainspring:sockets`. It runs on other threads, and may block:
    /// a guest that waits for it holds up no other.
    pub fn resolver(
        &mut self,
        resolver: impl Fn(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> &mut HostConfig {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Makes the host.
    ///
    /// # Errors
    /// [`Error::MapCount`], [`Error::Engine`], [`Error::Thread`], [`Error::Link`].
    pub fn build(mut self) -> Result<Host> {
        check_map_count(self.guests_max)?;
        let engine = Engine::new(&engine_config(&self))
            .map_err(|source| Error::Engine { guests_max: self.guests_max, source })?;
        let ticker = Ticker::start(&engine).map_err(Error::Thread)?;
        let mut linker = Linker::new(&engine);
        imports::add_to(&mut linker).map_err(Error::Link)?;
        #[cfg(feature = "wasi")]
        crate::wasi::add_to_linker(&mut linker).map_err(Error::Link)?;
        for link in self.links {
            link(&mut linker).map_err(Error::Link)?;
        }
        self.capabilities.sort_by(|a, b| (a.kind(), a.name()).cmp(&(b.kind(), b.name())));
        Ok(Host {
            linker: Arc::new(linker),
            shared: Arc::new(Shared {
                engine,
                ticker,
                counters: Arc::default(),
                capabilities: self.capabilities.into(),
                exit_code: self.exit_code,
                #[cfg(feature = "wasi")]
                socket_wait: self.socket_wait,
                #[cfg(feature = "wasi")]
                component_links: self.component_links,
                #[cfg(feature = "wasi")]
                async_engine: OnceLock::new(),
                resolver: self.resolver,
                guests_max: self.guests_max,
                memory_bytes_max: self.memory_bytes_max,
                descriptors_max: self.descriptors_max,
            }),
        })
    }
}

impl fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConfig")
            .field("guests_max", &self.guests_max)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("pooling", &self.pooling)
            .finish_non_exhaustive()
    }
}

/// Half of the descriptors that the process may open: the rest is for whatever else it does.
fn half_of_the_descriptors() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(u64::MAX, |limit| limit / 2)
}

/// The number of mappings runs out long before memory does; better to say so now than to fail at some guest.
fn check_map_count(guests_max: u32) -> Result<()> {
    let needed = u64::from(guests_max) * MAPPINGS_PER_GUEST + MAPPINGS_RESERVED;
    let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    match allowed.and_then(|text| text.trim().parse().ok()) {
        Some(allowed) if allowed < needed => Err(Error::MapCount { guests_max, needed, allowed }),
        _ => Ok(()),
    }
}

/// What all engines have in common.
fn base_config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config
}

fn engine_config(host: &HostConfig) -> Config {
    let mut config = base_config();
    // Fibers do all the waiting there is; the machinery for concurrent calls into one guest costs time and has no use here.
    config.concurrency_support(false);
    if !host.pooling {
        return config;
    }
    let guests = host.guests_max.max(1);
    let share = ADDRESS_SPACE_BYTES / u64::from(guests);
    let reservation = MEMORY_RESERVATION_BYTES.min(share.next_power_of_two() / 2).max(1 << 20);
    let memory_max = host.memory_bytes_max.min(usize::try_from(reservation).unwrap_or(usize::MAX));
    config.memory_reservation(reservation);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(guests)
        .total_memories(guests)
        .total_tables(guests)
        .total_stacks(guests)
        .max_memory_size(memory_max)
        .table_elements(Limits::default().table_elements)
        .max_core_instance_size(1 << 20)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    // A component is several modules that share one memory, and there are no others to share the places with.
    #[cfg(feature = "wasi")]
    pool.total_component_instances(guests)
        .total_core_instances(guests.saturating_mul(MODULES_PER_COMPONENT))
        .total_tables(guests.saturating_mul(MODULES_PER_COMPONENT));
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// Compiles something that comes from outside: should the compiler panic, that is a reason like any other.
pub(crate) fn guarded<T>(compile: impl FnOnce() -> wasmtime::Result<T>) -> Result<T> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compile));
    outcome.unwrap_or_else(|_| Err(wasmtime::Error::msg("the compiler gave up"))).map_err(Error::Compile)
}

/// What a host and its guests share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) counters: Arc<HostCounters>,
    pub(crate) capabilities: Arc<[Arc<dyn Capability>]>,
    pub(crate) exit_code: Option<ExitCode>,
    #[cfg(feature = "wasi")]
    pub(crate) socket_wait: crate::SocketWait,
    #[cfg(feature = "wasi")]
    pub(crate) component_links: Vec<ComponentLink>,
    /// Made for the first component that needs it. Its guests have no slots made beforehand: they are few.
    #[cfg(feature = "wasi")]
    async_engine: OnceLock<Engine>,
    pub(crate) resolver: Resolver,
    guests_max: u32,
    memory_bytes_max: usize,
    descriptors_max: u64,
}

/// Compiles guests and starts them on loops. Cheap to clone, and may be shared between threads that each have a loop.
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
    pub(crate) shared: Arc<Shared>,
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

    /// Compiles a module, binary or, if the engine was built with it, text. Its sizes are checked first.
    ///
    /// # Errors
    /// [`Error::GuestTooLarge`], [`Error::FunctionTooLarge`], [`Error::Compile`], [`Error::Link`], [`Error::NoEntryPoint`],
    /// [`Error::EntryPointType`].
    pub fn compile_within(&self, bytes: &[u8], limits: &CompileLimits) -> Result<Program> {
        limits.check(bytes)?;
        let module = guarded(|| Module::new(&self.shared.engine, bytes))?;
        Program::new(&self.linker, &module)
    }

    /// Compiles a module or component to what [`load`](Host::load) and [`Host::load_component`] take, and does not link it.
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
    /// The bytes must come from [`Program::serialize`] and must not have been changed: they are machine code.
    ///
    /// # Errors
    /// [`Error::Compile`] if they come from another version or other settings; otherwise as [`compile`](Host::compile).
    pub unsafe fn load(&self, bytes: &[u8]) -> Result<Program> {
        // SAFETY: the caller vouches for the bytes.
        let module = unsafe { Module::deserialize(&self.shared.engine, bytes) }.map_err(Error::Compile)?;
        Program::new(&self.linker, &module)
    }

    /// Starts a guest on a loop. It runs from the loop's next turn on.
    ///
    /// # Errors
    /// [`Error::TooManyGuests`], [`Error::Stdio`], [`Error::Reactor`]; with WASI, `Error::Folder` and `Error::BandwidthOfWasiSockets` too.
    pub fn spawn(&self, reactor: &Handle, program: &Program, config: GuestConfig) -> Result<GuestHandle> {
        self.start(reactor, config, |context, extras, exit| {
            #[cfg(feature = "wasi")]
            let extras = extras.with_wasi(program.imports_wasi(), context)?;
            Ok(Run::new(&self.shared, program, context, extras.into_inner(), exit))
        })
    }

    /// Admits a guest, makes what every guest has, and puts its task on the loop.
    pub(crate) fn start(
        &self,
        reactor: &Handle,
        mut config: GuestConfig,
        run: impl FnOnce(&Rc<GuestContext>, Wanted, &Rc<ExitSlot>) -> Result<Run>,
    ) -> Result<GuestHandle> {
        let admission = Admission::new(&self.shared)?;
        config.limits.memory_bytes = config.limits.memory_bytes.min(self.shared.memory_bytes_max);
        let wanted = Wanted::take(&mut config);
        let context = Rc::new(self.context(reactor, config)?);
        let exit = Rc::new(ExitSlot::default());
        let run = run(&context, wanted, &exit)?;
        // From here on the guest takes itself off the count.
        admission.keep();
        self.shared.counters.started.fetch_add(1, Ordering::Relaxed);
        reactor.spawn(run)?;
        Ok(GuestHandle { context, exit })
    }

    /// The engine that compiles and runs the guests, except for components that need another: see [`engine_for`](Host::engine_for).
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// The engine that compiles and runs this module or component. Those that use async features of the component model have one of
    /// their own, made for the first of them, so that the others do not pay for it.
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
        let mut config = base_config();
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

    /// Whether the thread that preempts guests is at rest, as it is once no guest has run for a few milliseconds.
    pub fn is_ticker_parked(&self) -> bool {
        self.shared.ticker.is_parked()
    }
}

impl Host {
    fn context(&self, reactor: &Handle, config: GuestConfig) -> Result<GuestContext> {
        let mut table = Table::new(config.limits.handles);
        let streams = [
            config.stdin.open(reactor),
            config.stdout.open(reactor, false),
            config.stderr.open(reactor, true),
        ];
        for (number, stream) in streams.into_iter().enumerate() {
            table.place(number, Entry::Resource(stream.map_err(Error::Stdio)?));
        }
        let counters = Counters::default();
        counters.handles.set(table.open_count() as u64);
        Ok(GuestContext {
            handle: reactor.clone(),
            counters,
            table: RefCell::new(table),
            control: Arc::default(),
            capabilities: self.shared.capabilities.clone(),
            bandwidth: config.limits.bandwidth_bytes_per_s.map(bandwidth::Bandwidth::new),
            lookups: Arc::default(),
            resolver: self.shared.resolver.clone(),
            owner: BlockingOwner::new(),
            arguments: config.arguments,
            environment: config.environment,
            telemetry: config.telemetry,
            stretch: Cell::new(None),
            limits: config.limits,
            network: config.network,
            host_counters: self.shared.counters.clone(),
            descriptors_max: self.shared.descriptors_max,
        })
    }
}

/// What of a guest's configuration goes into its store.
pub(crate) struct Wanted {
    extras: Extras,
    #[cfg(feature = "wasi")]
    wasi: crate::wasi::WasiConfig,
}

impl Wanted {
    fn take(config: &mut GuestConfig) -> Wanted {
        Wanted {
            extras: Extras {
                extension: config.extension.take(),
                #[cfg(feature = "wasi")]
                wasi: None,
                #[cfg(feature = "wasi")]
                sockets: None,
            },
            #[cfg(feature = "wasi")]
            wasi: std::mem::take(&mut config.wasi),
        }
    }

    pub(crate) fn into_inner(self) -> Extras {
        self.extras
    }

    /// Opens what WASI needs, if the guest imports it.
    #[cfg(feature = "wasi")]
    pub(crate) fn with_wasi(mut self, imports_wasi: bool, context: &Rc<GuestContext>) -> Result<Wanted> {
        if imports_wasi {
            if self.wasi.sockets && context.bandwidth.is_some() {
                return Err(Error::BandwidthOfWasiSockets);
            }
            self.extras.wasi = Some(Box::new(crate::wasi::WasiState::new(context, &self.wasi)?));
        }
        Ok(self)
    }
}

/// A place among the guests, given back unless it is kept.
struct Admission<'a>(Option<&'a Shared>);

impl Admission<'_> {
    fn new(shared: &Shared) -> Result<Admission<'_>> {
        let limit = shared.guests_max;
        let admitted = shared.counters.guests.fetch_add(1, Ordering::AcqRel) < u64::from(limit);
        let admission = Admission(Some(shared));
        if admitted {
            return Ok(admission);
        }
        shared.counters.not_admitted.fetch_add(1, Ordering::Relaxed);
        Err(Error::TooManyGuests { limit })
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.counters.guests.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
