//! The uplink on the loop's thread: the state machine, and who calls it.

#[cfg(feature = "uplink")]
use super::driving::{self, End};
#[cfg(feature = "uplink")]
use super::nats::Nats;
use super::queues::{Arrival, OUT_BYTES_SOFT, Queues};
use crate::daemon::kernel_cell::KernelCell;
use crate::daemon::operator::throttle::Throttle;
use crate::settings::{Settings, UplinkTable};
use mainspring_kernel::{ActorRef, ConnectionId, Kernel, Level, Manifest, Now};
use mainspring_message::Envelope;
use mainspring_reactor::{Handle, Instant, Timer};
use mainspring_uplink::{Boot, Command, ImportChange, Incoming, Uplink, UplinkSettings};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
#[cfg(feature = "uplink")]
use {crate::daemon::Error, mainspring_reactor::Reactor, std::ops::ControlFlow};

/// How long what came from NATS may keep the loop in one turn; the rest is for the next one.
const ARRIVALS_TIME_MAX: Duration = Duration::from_millis(1);

/// Problems with NATS that are logged in a second. Beyond: they are left out, and counted.
const PROBLEMS_PER_SECOND_MAX: u32 = 10;

/// How long the loop waits by itself before another runtime is tried.
#[cfg(feature = "uplink")]
const RUNTIME_PAUSE: Duration = Duration::from_secs(1);

/// What the journal keeps for uplinks, by store and key.
pub(crate) type Kept = BTreeMap<Box<str>, BTreeMap<Box<str>, Box<str>>>;

/// The uplink of this daemon.
pub(crate) struct Bridge {
    uplink: RefCell<Uplink>,
    kernel_cell: Rc<KernelCell>,
    reactor: Handle,
    queues: Rc<Queues>,
    /// What speaks with NATS, until the end.
    #[cfg(feature = "uplink")]
    nats: RefCell<Option<Nats>>,
    timer: Cell<Option<(Timer, i64)>>,
    /// Kept for their room.
    commands: RefCell<Vec<Command>>,
    /// Publishes that were handed over, and what the kernel is to be told when each has left.
    handed: Cell<u64>,
    unwritten: RefCell<VecDeque<(u64, ConnectionId, usize)>>,
    was_connected: Cell<bool>,
    problems: Throttle,
}

/// An uplink, and the capabilities that an earlier run imported.
type Started = (Rc<Bridge>, Vec<Manifest>);

impl Bridge {
    /// The uplink of these settings, if they ask for one. What an earlier run imported is given
    /// back, to be there from the boot.
    pub(crate) fn start(
        settings: &Settings,
        kept: &Kept,
        boot_nonce: u64,
        kernel_cell: &Rc<KernelCell>,
        reactor: &Handle,
    ) -> Result<Option<Started>, String> {
        let table = &settings.uplink;
        if !table.is_on() {
            return Ok(None);
        }
        let mut uplink = Uplink::new(uplink_settings(settings, table, boot_nonce, kernel_cell));
        let manifests: Vec<&Manifest> = settings.capabilities.iter().map(|of| &of.manifest).collect();
        kernel_cell.with(|kernel, now| uplink.set_capabilities(&manifests, kernel, now));
        let pairs =
            |store: &str| kept.get(store).into_iter().flatten().map(|(key, value)| (&**key, &**value));
        let imported = uplink.restore_imports(pairs("uplink.imports"));
        uplink.restore_targets(pairs("uplink.targets"));
        uplink.restore_cursors(pairs("uplink.cursors"));
        #[cfg(not(feature = "uplink"))]
        {
            Err("[uplink]: this program was built without the feature `uplink`".to_owned())
        }
        #[cfg(feature = "uplink")]
        {
            let queues = Rc::new(Queues::default());
            let nats = Nats::start(table, &queues).map_err(|text| format!("[uplink]: {text}"))?;
            let bridge = Bridge {
                uplink: RefCell::new(uplink),
                kernel_cell: Rc::clone(kernel_cell),
                reactor: reactor.clone(),
                queues,
                nats: RefCell::new(Some(nats)),
                timer: Cell::new(None),
                commands: RefCell::default(),
                handed: Cell::new(0),
                unwritten: RefCell::default(),
                was_connected: Cell::new(false),
                problems: Throttle::new(reactor, PROBLEMS_PER_SECOND_MAX, |count| {
                    tracing::warn!("uplink: ({count} more problems with NATS)");
                }),
            };
            Ok(Some((Rc::new(bridge), imported)))
        }
    }

    /// Calls the state machine with the kernel.
    fn with<R>(&self, call: impl FnOnce(&mut Uplink, &mut Kernel, Now) -> R) -> R {
        self.kernel_cell.feed(|kernel, now| call(&mut self.uplink.borrow_mut(), kernel, now))
    }

    /// The kernel is ready.
    pub(crate) fn ready(&self) {
        self.with(|uplink, kernel, now| uplink.start(kernel, now));
    }

    /// The daemon is about to end.
    pub(crate) fn part(&self) {
        self.with(|uplink, _, now| uplink.part(now));
    }

    /// Whether a connection is one of the uplink's.
    pub(crate) fn has(connection: ConnectionId) -> bool {
        Uplink::has(connection)
    }

    pub(crate) fn deliver(&self, import: &Rc<str>, actor: ActorRef, message: &Envelope) {
        self.with(|uplink, kernel, now| uplink.deliver(import, actor, message, kernel, now));
    }

    pub(crate) fn forget(&self, actor: ActorRef) {
        // Actors end while the daemon does, too.
        if let Ok(mut uplink) = self.uplink.try_borrow_mut() {
            uplink.forget_actor(actor);
        }
    }

    pub(crate) fn write(&self, connection: ConnectionId, message: &Envelope) {
        self.with(|uplink, kernel, now| uplink.write(connection, message, kernel, now));
    }

    pub(crate) fn closed(&self, connection: ConnectionId, reason: &str) {
        self.with(|uplink, _, now| uplink.closed(connection, reason, now));
    }

    pub(crate) fn fetch_trace(&self, ticket: u64, peer: &str, id: &str) {
        self.with(|uplink, kernel, now| uplink.fetch_trace(ticket, peer, id, kernel, now));
    }

    pub(crate) fn flushed(&self, fact: u64) {
        self.with(|uplink, _, now| uplink.flushed(fact, now));
    }

    /// The capabilities of this node have changed.
    pub(crate) fn set_capabilities(&self, manifests: &[&Manifest]) {
        self.with(|uplink, kernel, now| uplink.set_capabilities(manifests, kernel, now));
    }

    /// What the kernel is to know of imports.
    pub(crate) fn take_changes(&self) -> Vec<ImportChange> {
        self.uplink.borrow_mut().take_changes()
    }

    pub(crate) fn adopted(&self, id: &str, result: Result<(), String>) {
        self.uplink.borrow_mut().adopted(id, result);
    }

    /// Does what there is to do before the kernel's turn: what came, and what is due.
    pub(crate) fn tend(&self) {
        self.take_arrivals();
        let now_ns = self.kernel_cell.now().mono_ns;
        let deadline = self.uplink.borrow().next_deadline_ns();
        if deadline.is_some_and(|deadline| deadline <= now_ns) {
            self.with(|uplink, kernel, now| uplink.tick(kernel, now));
            self.note_written();
        }
    }

    /// Takes what came, for its share of the turn.
    fn take_arrivals(&self) {
        let mut until = None;
        while let Some(arrival) = self.queues.next_arrival() {
            match arrival {
                Arrival::Connected(max_payload) => {
                    tracing::info!("uplink: connected to NATS");
                    self.was_connected.set(true);
                    self.with(|uplink, _, now| uplink.connected(max_payload, now));
                }
                Arrival::Disconnected => {
                    if self.was_connected.replace(false) {
                        tracing::warn!("uplink: the connection to NATS is lost");
                    }
                    self.with(|uplink, _, _| uplink.disconnected());
                }
                Arrival::Problem(text) => {
                    self.problems.line(self.reactor.now(), || tracing::warn!("uplink: {text}"));
                }
                Arrival::Message { subject, message } => {
                    let incoming = Incoming { subject: &subject, message: &message };
                    self.with(|uplink, kernel, now| uplink.received(incoming, kernel, now));
                }
            }
            let now = self.reactor.now();
            if now >= *until.get_or_insert(now.checked_add(ARRIVALS_TIME_MAX).unwrap_or(now)) {
                break;
            }
        }
    }

    /// Whether something came for which there was no time.
    pub(crate) fn has_more(&self) -> bool {
        self.queues.has_arrivals()
    }

    /// Tells the kernel which of its bytes have left.
    fn note_written(&self) {
        let mut unwritten = self.unwritten.borrow_mut();
        if unwritten.is_empty() {
            return;
        }
        let levels = self.queues.levels();
        while let Some((_, connection, bytes)) = unwritten.pop_front_if(|(number, ..)| *number <= levels.left)
        {
            self.kernel_cell.feed(|kernel, now| kernel.written(connection, bytes, now));
        }
        self.uplink.borrow_mut().set_congested(levels.bytes_out > OUT_BYTES_SOFT);
    }

    /// Gives to NATS what the turn brought, and sets the timer.
    pub(crate) fn flush(&self) {
        let mut commands = self.commands.take();
        let notices = {
            let mut uplink = self.uplink.borrow_mut();
            uplink.drain_commands(&mut commands);
            uplink.take_notices()
        };
        for notice in notices {
            match notice.level {
                Level::Info => tracing::info!("uplink: {}", notice.text),
                Level::Warn => tracing::warn!("uplink: {}", notice.text),
                Level::Error => tracing::error!("uplink: {}", notice.text),
            }
        }
        if !commands.is_empty() {
            let mut unwritten = self.unwritten.borrow_mut();
            for command in &commands {
                if let Command::Publish { written, .. } = command {
                    self.handed.set(self.handed.get() + 1);
                    let number = self.handed.get();
                    unwritten.extend(written.iter().map(|(connection, bytes)| (number, *connection, *bytes)));
                }
            }
            drop(unwritten);
            let bytes = self.queues.send(&mut commands);
            self.uplink.borrow_mut().set_congested(bytes > OUT_BYTES_SOFT);
            self.note_written();
        }
        *self.commands.borrow_mut() = commands;
        self.set_timer();
    }

    fn set_timer(&self) {
        let Some(deadline_ns) = self.uplink.borrow().next_deadline_ns() else { return };
        let deadline = Instant::from_nanos(deadline_ns);
        match self.timer.get().filter(|(timer, _)| self.reactor.has_timer(*timer)) {
            // One that rings early does no harm.
            Some((_, at_ns)) if at_ns <= deadline_ns => {}
            Some((timer, _)) => {
                self.reactor.reschedule_at(timer, deadline);
                self.timer.set(Some((timer, deadline_ns)));
            }
            None => {
                let stirred = Rc::clone(&self.kernel_cell);
                match self.reactor.at(deadline, move |_| stirred.feed(|_, _| ())) {
                    Ok(timer) => self.timer.set(Some((timer, deadline_ns))),
                    Err(error) => tracing::error!("no timer for the uplink: {error}"),
                }
            }
        }
    }

    /// Numbers for `Sys.Stats`.
    pub(crate) fn stats(&self) -> Value {
        let mut told = self.uplink.borrow().report(self.kernel_cell.now());
        let levels = self.queues.levels();
        told["bytesOut"] = json!(levels.bytes_out);
        told["droppedOut"] = json!(levels.dropped_out);
        told["droppedIn"] = json!(levels.dropped_in);
        told
    }

    /// Runs the loop as a task beside those of NATS, until `turn` ends it.
    #[cfg(feature = "uplink")]
    pub(crate) fn drive(
        self: &Rc<Self>,
        mut reactor: Reactor,
        mut turn: impl FnMut() -> ControlFlow<i32, bool> + 'static,
    ) -> Result<(Reactor, i32), Error> {
        let this = Rc::clone(self);
        let mut turn = move || match turn() {
            ControlFlow::Break(code) => ControlFlow::Break(End::Code(code)),
            ControlFlow::Continue(_) if this.has_excess() => ControlFlow::Break(End::Replace),
            ControlFlow::Continue(has_more) => ControlFlow::Continue(has_more),
        };
        loop {
            let (back, again, end) = match &*self.nats.borrow() {
                Some(nats) => driving::drive(&nats.runtime, reactor, Rc::clone(&self.queues), turn)?,
                None => return Err(Error::Uplink(std::io::ErrorKind::NotConnected.into())),
            };
            (reactor, turn) = (back, again);
            match end {
                End::Code(code) => return Ok((reactor, code)),
                End::Replace => {
                    if let Some(code) = self.start_over(&mut reactor, &mut turn)? {
                        return Ok((reactor, code));
                    }
                }
            }
        }
    }

    /// Whether so much came from the server that is no message that it can be no server of NATS.
    #[cfg(feature = "uplink")]
    fn has_excess(&self) -> bool {
        let now_ns = self.kernel_cell.now().mono_ns;
        self.nats.borrow().as_ref().is_some_and(|nats| nats.has_excess(now_ns))
    }

    /// Ends the connection with everything that it holds, and has it tried again after a while.
    /// Until there can be a runtime for that, the loop waits by itself; it may end meanwhile.
    #[cfg(feature = "uplink")]
    fn start_over(
        &self,
        reactor: &mut Reactor,
        turn: &mut impl FnMut() -> ControlFlow<End, bool>,
    ) -> Result<Option<i32>, Error> {
        let Some(given_up) = self.nats.take().map(Nats::give_up) else { return Ok(None) };
        self.queues.arrive(Arrival::Disconnected);
        let seconds = given_up.pause.as_secs();
        tracing::warn!(
            "uplink: NATS: much came that is no message; the server is given up, and tried again in {seconds} s"
        );
        loop {
            match given_up.start() {
                Ok(nats) => {
                    self.nats.replace(Some(nats));
                    return Ok(None);
                }
                Err(problem) => self.queues.arrive(Arrival::Problem(problem)),
            }
            let tried = self.reactor.now();
            while self.reactor.now().saturating_duration_since(tried) < RUNTIME_PAUSE {
                let has_more = match turn() {
                    ControlFlow::Break(End::Code(code)) => return Ok(Some(code)),
                    ControlFlow::Break(End::Replace) => false,
                    ControlFlow::Continue(has_more) => has_more,
                };
                reactor.poll(Some(if has_more { Duration::ZERO } else { RUNTIME_PAUSE }))?;
            }
        }
    }

    /// Says the last messages, and ends the connection.
    pub(crate) fn close(&self) {
        self.flush();
        self.queues.close();
        #[cfg(feature = "uplink")]
        if let Some(nats) = self.nats.take() {
            nats.close();
        }
    }
}

fn uplink_settings(
    settings: &Settings,
    table: &UplinkTable,
    nonce: u64,
    kernel_cell: &KernelCell,
) -> UplinkSettings {
    let (config, now) = kernel_cell.with(|kernel, now| (kernel.config().clone(), now));
    let late_ms = i64::try_from(config.hang_ms / 2).unwrap_or(10_000).min(10_000);
    UplinkSettings {
        bus: table.bus.clone(),
        node: table.node.clone(),
        import: table.import.clone(),
        events: table.events.clone(),
        boot: Boot { at_ms: now.unix_ms, nonce },
        has_journal: settings.journal.folder.is_some(),
        concurrency: table.concurrency,
        node_requests_max: table.node_requests_max,
        late_ns: late_ms * 1_000_000,
        line_bytes_max: config.limits.line_bytes_max,
    }
}
