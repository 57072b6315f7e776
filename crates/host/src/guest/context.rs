//! A guest as the host's calls and capabilities see it.

use crate::capabilities::sys_loop::next_turn;
use crate::capabilities::{Capability, CapabilityData, PerGuest};
use crate::guest::ExitSlot;
use crate::guest::control::Control;
use crate::guest::stats::{Counters, count, uncount};
use crate::handles::resource::Resource;
use crate::handles::table::{HandleEntry, Table};
use crate::host::HostShared;
use crate::limits::bandwidth::Bandwidth;
use crate::limits::denial::{Denial, Denials};
use crate::limits::meter::Stretch;
use crate::limits::policy::NetworkPolicy;
use crate::limits::{Limit, Limits};
use crate::readiness::signal::Signal;
use mainspring_reactor::Handle;
use mainspring_zcl::abi::ErrorCode;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Called with a topic and a message of the guest's.
pub(crate) type Telemetry = Box<dyn Fn(&[u8], &[u8])>;

/// A guest as its resources and capabilities see it: its reactor, its limits, its handles.
pub struct GuestContext {
    pub(crate) reactor: Handle,
    pub(crate) counters: Counters,
    pub(crate) table: RefCell<Table>,
    pub(crate) control: Arc<Control>,
    /// Where its end is left for whoever asks.
    pub(crate) exit: ExitSlot,
    /// What its host has for all guests.
    pub(crate) host: Arc<HostShared>,
    pub(crate) capability_data: RefCell<CapabilityData>,
    pub(crate) bandwidth: Option<Bandwidth>,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) telemetry: Option<Telemetry>,
    /// Who is told of what it may not reach.
    pub(crate) denials: Option<Arc<Denials>>,
    /// The stretch that it is in, while it runs.
    pub(crate) stretch: Cell<Option<Stretch>>,
    pub(crate) limits: Limits,
    pub(crate) network: NetworkPolicy,
}

impl GuestContext {
    /// The reactor that the guest runs on.
    pub fn reactor(&self) -> &Handle {
        &self.reactor
    }

    /// What the guest may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where the guest may connect and listen.
    pub fn network(&self) -> &NetworkPolicy {
        &self.network
    }

    /// The guest's arguments.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The guest's environment.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// What a capability has for this guest: its configuration, and what it keeps. Made, by
    /// [`Capability::prepare`], when it is first asked for.
    pub fn own<C: Capability>(&self, capability: &C) -> Rc<PerGuest<C>> {
        if let Some(own) = self.capability_data.borrow().get() {
            return own;
        }
        let config = self.capability_data.borrow_mut().take_config::<C>();
        let state = capability.prepare(self, &config);
        let own = Rc::new(PerGuest { config, state });
        self.capability_data.borrow_mut().put(own.clone());
        own
    }

    /// Counts a refusal, for the guest and for the host.
    pub fn refuse(&self, limit: Limit) {
        count(&self.counters.refused[limit as usize], 1);
        self.host.counters.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts that the guest may not reach something, and tells of it.
    pub(crate) fn deny(&self, denial: Denial) {
        self.refuse(Limit::Network);
        if let Some(denials) = &self.denials {
            denials.tell(denial);
        }
    }

    /// What counts refusals on behalf of code that cannot reach the guest.
    #[cfg(feature = "wasi")]
    pub(crate) fn shared_refusals(&self) -> crate::guest::stats::SharedRefusals {
        crate::guest::stats::SharedRefusals::new(&self.counters, &self.host.counters, &self.denials)
    }

    /// Gives the guest another handle.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfMemory`] if it has as many as it may have.
    pub fn open(&self, resource: Rc<dyn Resource>) -> Result<u32, ErrorCode> {
        self.insert(HandleEntry::Resource(resource))
    }

    pub(crate) fn insert(&self, entry: HandleEntry) -> Result<u32, ErrorCode> {
        let holds_descriptor = entry.resource().holds_descriptor();
        if holds_descriptor {
            self.check_descriptors()?;
        }
        let inserted = self.table.borrow_mut().insert(entry);
        self.count_handles();
        if holds_descriptor && inserted.is_some() {
            self.host.counters.descriptors.fetch_add(1, Ordering::Relaxed);
        }
        inserted.ok_or_else(|| {
            self.refuse(Limit::Handles);
            ErrorCode::OutOfMemory
        })
    }

    /// Whether guests may hold another descriptor; a refusal is counted.
    fn check_descriptors(&self) -> Result<(), ErrorCode> {
        if self.host.counters.descriptors.load(Ordering::Relaxed) < self.host.descriptors_max {
            return Ok(());
        }
        self.refuse(Limit::Handles);
        Err(ErrorCode::OutOfMemory)
    }

    /// Whether another handle that holds a descriptor may be opened; a refusal is counted.
    pub(crate) fn check_handle_room(&self) -> Result<(), ErrorCode> {
        if self.table.borrow().has_room() {
            return self.check_descriptors();
        }
        self.refuse(Limit::Handles);
        Err(ErrorCode::OutOfMemory)
    }

    pub(crate) fn entry(&self, number: i32) -> Result<HandleEntry, ErrorCode> {
        self.table.borrow().get(number)
    }

    /// `zi_end`.
    pub(crate) fn close(&self, number: i32) -> Result<(), ErrorCode> {
        let entry = self.table.borrow_mut().remove(number)?;
        self.count_handles();
        self.end(&entry);
        Ok(())
    }

    fn end(&self, entry: &HandleEntry) {
        if entry.resource().holds_descriptor() {
            self.host.counters.descriptors.fetch_sub(1, Ordering::Relaxed);
        }
        entry.resource().close(self);
        if let Some(watchable) = entry.resource().watchable() {
            uncount(&self.counters.watches, watchable.signal().close() as u64);
        }
    }

    /// Closes every handle: the guest has ended.
    pub(crate) fn close_all(&self) {
        let entries = self.table.borrow_mut().clear();
        for entry in entries.iter().flatten() {
            self.end(entry);
        }
        drop(entries);
        self.count_handles();
        // Its owner may look at its numbers for long; what capabilities kept for it is not needed.
        drop(self.capability_data.take());
    }

    fn count_handles(&self) {
        self.counters.handles.set(self.table.borrow().open_count() as u64);
    }

    /// Waits for the reactor's next turn, so that its neighbours come first.
    pub(crate) async fn make_way(&self) {
        self.counters.makes_way.set(true);
        next_turn(&self.reactor).await;
    }

    /// It has used up its slice: its neighbours come first.
    pub(crate) async fn be_preempted(&self) {
        count(&self.counters.preemptions, 1);
        self.make_way().await;
    }

    /// Lets its neighbours come first if it has used up its slice. For calls that go on for as long
    /// as their arguments say: guest code is preempted by itself.
    #[cfg(feature = "wasi")]
    pub(crate) async fn make_way_if_due(&self) {
        if self.stretch.get().is_some_and(|stretch| stretch.has_used(self.limits.cpu_slice)) {
            self.be_preempted().await;
        }
    }

    /// The CPU time that it has used, up to now.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.counters.cpu_time.get() + self.stretch_cpu_time()
    }

    /// The CPU time that it had used at a reading of the thread's clock.
    #[cfg(feature = "wasi")]
    pub(crate) fn cpu_time_at(&self, reading: crate::limits::meter::Reading) -> Duration {
        let stretch = self.stretch.get().map(|stretch| stretch.cpu_time_at(reading));
        self.counters.cpu_time.get() + stretch.unwrap_or_default()
    }

    /// The CPU time that it has used since it was last resumed.
    fn stretch_cpu_time(&self) -> Duration {
        self.stretch.get().map_or_else(Default::default, Stretch::cpu_time)
    }

    /// How much longer it may run at a stretch.
    pub(crate) fn slice_left(&self) -> Duration {
        self.limits.cpu_slice.saturating_sub(self.stretch_cpu_time())
    }

    /// How many more bytes the host may hold for the guest.
    pub(crate) fn buffer_room(&self) -> usize {
        self.limits.buffered_bytes.saturating_sub(self.counters.buffered_bytes.get() as usize)
    }

    pub(crate) fn buffered(&self, bytes: usize) {
        count(&self.counters.buffered_bytes, bytes as u64);
    }

    pub(crate) fn unbuffered(&self, bytes: usize) {
        uncount(&self.counters.buffered_bytes, bytes as u64);
    }

    /// How many of `wanted` bytes may pass to or from the network now.
    ///
    /// # Errors
    /// [`ErrorCode::Again`] if none; `signal` is then held back until some may.
    pub fn take_bandwidth(&self, signal: &Rc<Signal>, wanted: usize) -> Result<usize, ErrorCode> {
        let Some(bandwidth) = &self.bandwidth else { return Ok(wanted) };
        bandwidth.available(&self.reactor, signal, wanted).ok_or_else(|| {
            self.refuse(Limit::Bandwidth);
            ErrorCode::Again
        })
    }

    /// Tells how many bytes did pass.
    pub fn spend_bandwidth(&self, bytes: usize) {
        if let Some(bandwidth) = &self.bandwidth {
            bandwidth.spend(bytes);
        }
    }
}

impl std::fmt::Debug for GuestContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestContext").field("stats", &self.counters.snapshot()).finish_non_exhaustive()
    }
}
