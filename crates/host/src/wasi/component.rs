//! Components: guests in the shape of WASI 0.2.
//!
//! They get the same limits, streams, network rules and preemption as modules. What they do not get
//! is `sys/loop`: a component waits in `wasi:io/poll`.

use super::{HasWasi, WasiState, WithTokio, add_to_component_linker};
use crate::compile::CompileLimits;
use crate::guest::confined::Confined;
use crate::guest::context::GuestContext;
use crate::guest::run::{Run, store};
use crate::guest::state::{Extras, GuestState};
use crate::guest::{GuestConfig, GuestHandle};
use crate::host::Host;
use crate::sockets::{self, Sockets};
use crate::{Error, Result};
use mainspring_reactor::Handle;
use std::fmt;
use std::rc::Rc;
use wasmtime::component::{self, Linker};
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::{WasiCtxView, WasiView};

impl HasWasi for GuestState {
    fn wasi(&mut self) -> &mut WasiState {
        let wasi = self.extras.wasi.as_mut();
        wasi.expect("a guest that calls WASI imports it, and whoever imports it has its state")
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        super::view(self)
    }
}

/// A compiled and linked component that exports `wasi:cli/run`, ready to be started any number of
/// times. Cheap to clone.
#[derive(Clone)]
pub struct Component {
    command: CommandPre<GuestState>,
}

impl Component {
    /// Whether bytes are a component, compiled or not: their header tells them from modules.
    #[must_use]
    pub fn is_component(bytes: &[u8]) -> bool {
        bytes.starts_with(b"\0asm\x0d\0\x01\0")
    }

    fn new(host: &Host, component: &component::Component) -> Result<Component> {
        let mut linker = Linker::new(component.engine());
        add_to_component_linker(&mut linker).map_err(Error::Link)?;
        sockets::add_to_linker(&mut linker).map_err(Error::Link)?;
        linker.allow_shadowing(true);
        for capability in &host.shared.capabilities {
            capability.link_component(&mut linker).map_err(Error::Link)?;
        }
        for link in &host.shared.component_links {
            link(&mut linker).map_err(Error::Link)?;
        }
        let pre = linker.instantiate_pre(component).map_err(Error::Link)?;
        let command = CommandPre::new(pre).map_err(Error::Link)?;
        Ok(Component { command })
    }

    /// The compiled code, to be kept and given to [`Host::load_component`] by this very program on
    /// this very machine.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.command.instance_pre().component().serialize().map_err(Error::Compile)
    }

    /// What its largest memory begins with, in bytes, as far as that can be told: a component may
    /// import modules.
    #[must_use]
    pub fn memory_bytes_min(&self) -> u64 {
        let resources = self.command.instance_pre().component().resources_required();
        resources.map_or(0, |resources| crate::program::memory_bytes_min(&resources))
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component").finish_non_exhaustive()
    }
}

impl Host {
    /// Compiles a component within the default [`CompileLimits`].
    ///
    /// # Errors
    /// As [`compile_component_within`](Host::compile_component_within).
    pub fn compile_component(&self, bytes: &[u8]) -> Result<Component> {
        self.compile_component_within(bytes, &CompileLimits::default())
    }

    /// Compiles a component. Its sizes are checked first.
    ///
    /// # Errors
    /// [`Error::GuestTooLarge`], [`Error::FunctionTooLarge`], [`Error::Compile`], [`Error::Link`],
    /// [`Error::Engine`].
    pub fn compile_component_within(&self, bytes: &[u8], limits: &CompileLimits) -> Result<Component> {
        limits.check(bytes)?;
        let engine = self.engine_for(bytes)?;
        let component = crate::host::guarded(|| component::Component::new(engine, bytes))?;
        Component::new(self, &component)
    }

    /// Loads code that [`Component::serialize`] returned.
    ///
    /// # Safety
    /// The bytes must come from [`Component::serialize`] and must not have been changed: they are
    /// machine code.
    ///
    /// # Errors
    /// [`Error::Compile`] if they come from another version or other settings; otherwise as
    /// [`compile_component`](Host::compile_component).
    pub unsafe fn load_component(&self, bytes: &[u8]) -> Result<Component> {
        // SAFETY: the caller vouches for the bytes.
        let load = |engine| unsafe { component::Component::deserialize(engine, bytes) };
        let component = match load(self.engine()) {
            Ok(component) => component,
            // Code tells which settings it was compiled with, and is refused by any other engine.
            Err(reason) => load(self.async_engine()?).map_err(|_| Error::Compile(reason))?,
        };
        Component::new(self, &component)
    }

    /// Starts a component on a reactor, as [`spawn`](Host::spawn) starts a module.
    ///
    /// # Errors
    /// [`Error::TooManyGuests`], [`Error::Stdio`], [`Error::Folder`],
    /// [`Error::BandwidthOfWasiSockets`], [`Error::Reactor`].
    pub fn spawn_component(
        &self,
        reactor: &Handle,
        component: &Component,
        config: GuestConfig,
    ) -> Result<GuestHandle> {
        self.start(reactor, config, |context, wanted| {
            let mut extras = wanted.with_wasi(true, context)?.into_inner();
            extras.sockets = Some(Confined::new(Sockets::new(context, self.shared.socket_wait)));
            let run = execute(component.clone(), context.clone(), extras);
            Ok(Run::with_program(context, Box::pin(WithTokio::new(run))))
        })
    }
}

/// Runs a component from its first instruction to its last.
async fn execute(component: Component, context: Rc<GuestContext>, extras: Extras) -> wasmtime::Result<i32> {
    let engine = component.command.engine().clone();
    let mut store = store(&engine, context, extras);
    let command = component.command.instantiate_async(&mut store).await?;
    let outcome = command.wasi_cli_run().call_run(&mut store).await?;
    Ok(i32::from(outcome.is_err()))
}
