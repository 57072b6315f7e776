//! Starting a guest: a place among the others, what every guest has, and its task on the reactor.

use super::{Host, HostShared};
use crate::capabilities::{CapabilityConfig, CapabilityData};
use crate::guest::context::GuestContext;
use crate::guest::run::Run;
use crate::guest::state::Extras;
use crate::guest::stats::Counters;
use crate::guest::{ExitSlot, GuestConfig, GuestHandle};
use crate::handles::table::{HandleEntry, Table};
use crate::limits::denial::Denials;
use crate::limits::{Limits, bandwidth};
use crate::{Error, Result};
use mainspring_reactor::Handle;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Host {
    /// Admits a guest, makes what every guest has, and puts its task on the reactor.
    pub(crate) fn start(
        &self,
        reactor: &Handle,
        mut config: GuestConfig,
        run: impl FnOnce(&Rc<GuestContext>, Wanted) -> Result<Run>,
    ) -> Result<GuestHandle> {
        let admission = Admission::new(&self.shared)?;
        config.limits.memory_bytes = config.limits.memory_bytes.min(self.shared.memory_bytes_max);
        for capability in &config.capabilities {
            self.check_capability(capability, &config.limits)?;
        }
        let wanted = Wanted::take(&mut config);
        let context = Rc::new(self.context(reactor, config)?);
        let run = run(&context, wanted)?;
        // From here on the guest takes itself off the count.
        admission.keep();
        self.shared.counters.started.fetch_add(1, Ordering::Relaxed);
        reactor.spawn(run)?;
        Ok(GuestHandle { context })
    }

    /// Whether the host has a capability that a guest is configured for, and that accepts it.
    fn check_capability(&self, config: &CapabilityConfig, limits: &Limits) -> Result<()> {
        let id = config.id;
        let mut capabilities = self.shared.capabilities.iter();
        let capability = capabilities.find(|capability| capability.key() == config.key);
        let capability = capability.ok_or(Error::NoCapability { id })?;
        let configured = capability.configure(&*config.config, limits);
        configured.map_err(|reason| Error::CapabilityConfig { id, reason })
    }

    fn context(&self, reactor: &Handle, config: GuestConfig) -> Result<GuestContext> {
        let mut table = Table::new(config.limits.handles);
        let streams = [
            config.stdin.open(reactor),
            config.stdout.open(reactor, false),
            config.stderr.open(reactor, true),
        ];
        for (number, stream) in streams.into_iter().enumerate() {
            table.place(number, HandleEntry::Resource(stream.map_err(Error::Stdio)?));
        }
        let counters = Counters::default();
        counters.handles.set(table.open_count() as u64);
        Ok(GuestContext {
            reactor: reactor.clone(),
            counters,
            table: RefCell::new(table),
            control: Arc::default(),
            exit: ExitSlot::default(),
            host: self.shared.clone(),
            capability_data: RefCell::new(CapabilityData::new(config.capabilities)),
            bandwidth: config.limits.bandwidth_bytes_per_s.map(bandwidth::Bandwidth::new),
            arguments: config.arguments,
            environment: config.environment,
            telemetry: config.telemetry,
            denials: config.on_denial.map(|callback| Arc::new(Denials::new(callback))),
            stretch: Cell::new(None),
            limits: config.limits,
            network: config.network,
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
struct Admission<'a>(Option<&'a HostShared>);

impl Admission<'_> {
    fn new(shared: &HostShared) -> Result<Admission<'_>> {
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
