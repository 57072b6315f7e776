//! The pump: once per turn of the reactor it reads from some clients, runs the kernel, carries its
//! effects out and writes what is to be written.
//!
//! This file is that turn, and the one place where an [`Effect`] becomes a deed. `durable` holds
//! back what rests on a record that is not on disk, `reloading` reads settings again off the
//! thread, `fixed` says what of them cannot change, `importing` takes over capabilities of other
//! nodes. `daemon/mod.rs` makes it; signals and listeners call it.

mod durable;
mod fixed;
mod importing;
mod reloading;

use crate::daemon::Options;
use crate::daemon::actors::{ActorFactory, Actors, ChildProcesses, GuestCompiler};
use crate::daemon::clients::Clients;
use crate::daemon::clients::http_bus::HttpBus;
use crate::daemon::flight::Recorder;
use crate::daemon::kernel_cell::KernelCell;
use crate::daemon::operator::notify::Notifier;
use crate::daemon::operator::reload;
use crate::daemon::operator::report::{self, Teller};
use crate::daemon::operator::vitals::Vitals;
use crate::daemon::operator::watch::{FileWatch, SourceFinder};
use crate::daemon::storage::Opening;
use crate::daemon::telemetry::Telemetry;
use crate::daemon::transport::Listeners;
use crate::daemon::uplink::{Bridge, Kept};
use crate::settings::{Listener, Settings, TelemetrySettings};
use durable::Keeping;
use mainspring_kernel::{BootPlan, ConnectionId, Effect, Kernel, Rights, Source, Turn};
use mainspring_message::Json;
use mainspring_reactor::{Handle, Instant, Timer};
use reloading::Reloading;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Turns of the kernel per turn of the reactor.
const KERNEL_TURNS_MAX: usize = 1024;
/// How long the kernel may work, and how long clients may be written to, in one turn of the
/// reactor: nobody's bytes wait for long, whatever others ask for.
const TURN_TIME_MAX: Duration = Duration::from_millis(1);
/// Work of the kernel, by its own count, between two looks at the clock: a few dozen microseconds.
const WORK_BETWEEN_LOOKS: u64 = 50_000;
/// Bytes for clients after which they are written to, though the kernel has more to do.
const UNFLUSHED_BYTES_MAX: usize = 1 << 20;
/// How long guests may answer in one turn of the reactor; the rest of their answers comes in the
/// next one.
const GUESTS_TIME_MAX: Duration = Duration::from_millis(1);

/// Everything that a running daemon consists of.
pub(crate) struct Pump {
    /// Itself, for what goes on after a turn.
    own: Weak<Pump>,
    kernel_cell: Rc<KernelCell>,
    reactor: Handle,
    clients: Rc<Clients>,
    http_bus: Rc<HttpBus>,
    listeners: RefCell<Listeners>,
    actors: RefCell<Actors>,
    teller: Teller,
    notifier: Notifier,
    vitals: Vitals,
    /// What has the settings read again when a file changes, if anything does.
    file_watch: RefCell<Option<FileWatch>>,
    reloading: Reloading,
    /// Whether the service manager was told of the end.
    stopping: Cell<bool>,
    /// What the kernel boots with, until it does.
    plan: Cell<Option<BootPlan>>,
    /// Both kept for their room.
    effects: RefCell<Vec<Effect>>,
    gone: Cell<Vec<ConnectionId>>,
    alarm: Cell<Option<Alarm>>,
    /// Whether the last turn left something that can be done at once.
    more: Cell<bool>,
    started: Instant,
    exit: Cell<Option<i32>>,
    /// The journal, if there is one.
    keeping: Option<Keeping>,
    /// What records what happens, if anything does.
    recorder: Option<Recorder>,
    /// Other nodes, if there are any.
    uplink: Option<Rc<Bridge>>,
    /// Whether to end with a failure once clients were written to.
    exit_after_turn: Cell<bool>,
    /// Spans for other systems: what is wanted, and what makes them once the daemon is ready.
    telemetry_settings: TelemetrySettings,
    telemetry: RefCell<Option<Telemetry>>,
}

/// The peers that have tokens, and what those allow.
fn peers_of(listeners: &[Listener]) -> Vec<(String, Rights)> {
    let tokens = listeners.iter().flat_map(|listener| match listener {
        Listener::Tcp { tokens, .. } => tokens.as_slice(),
        Listener::Http(http) => &http.tokens,
        _ => &[],
    });
    tokens.map(|token| (token.name.clone(), token.rights.clone())).collect()
}

/// The timer that stands for the kernel's next deadline.
#[derive(Clone, Copy)]
struct Alarm {
    timer: Timer,
    deadline_ns: i64,
}

impl Pump {
    #[expect(clippy::too_many_arguments, reason = "it is made once, of everything that there is")]
    pub(crate) fn new(
        reactor: &Handle,
        kernel: Kernel,
        settings: Settings,
        options: Options,
        child_processes: &Rc<ChildProcesses>,
        opening: Option<Opening>,
        recorder: Option<Recorder>,
        nonce: u64,
    ) -> Result<Rc<Pump>, String> {
        let kernel_cell = Rc::new(KernelCell::new(kernel, reactor.clone()));
        let peers = peers_of(&settings.listeners);
        kernel_cell.with(|kernel, now| kernel.peers_have(peers, now));
        let teller = Teller::new(options.report, reactor, opening.as_ref().map(Opening::headline));
        let on_failure = settings.journal.on_failure;
        let mut kept = Kept::new();
        let keeping = opening.map(|mut opening| {
            let mut values = opening.durable.take_all_values();
            kept = importing::take_kept(&mut values);
            options.natives.memory_account().keep(values);
            kernel_cell.with(|kernel, now| kernel.restore(std::mem::take(&mut opening.durable), now));
            let stirred = Rc::clone(&kernel_cell);
            Keeping::start(opening, on_failure, reactor, move || stirred.feed(|_, _| ()))
        });
        let keeping = keeping.transpose()?;
        let fixed = settings.clone();
        let (uplink, settings) = importing::begin(settings, &kept, nonce, &kernel_cell, reactor)?;
        drop(kept);
        let plan = BootPlan {
            capabilities: settings
                .capabilities
                .iter()
                .map(|capability| capability.manifest.clone())
                .collect(),
            adapters: Listeners::names(&settings.listeners),
        };
        let clients = Clients::new(Rc::clone(&kernel_cell), reactor.clone());
        let telemetry_settings = settings.telemetry.clone();
        let capabilities = settings.capabilities.len();
        let http_bus = HttpBus::new(Rc::clone(&kernel_cell));
        let listeners = Listeners::new(
            reactor.clone(),
            Rc::clone(&clients),
            Rc::clone(&http_bus),
            settings.listeners,
            capabilities,
        );
        let factory = ActorFactory {
            reactor: reactor.clone(),
            natives: options.natives,
            child_processes: Rc::clone(child_processes),
            guest_compiler: GuestCompiler::new(reactor),
            uplink: uplink.clone(),
        };
        let notifier = Notifier::from_environment();
        notifier.start_watchdog(reactor);
        let actors = Actors::new(Rc::clone(&kernel_cell), factory, reload::stamp(settings.capabilities));
        Ok(Rc::new_cyclic(|own| Pump {
            own: own.clone(),
            kernel_cell,
            reactor: reactor.clone(),
            clients,
            http_bus,
            listeners: RefCell::new(listeners),
            actors: RefCell::new(actors),
            teller,
            notifier,
            vitals: Vitals::new(reactor, options.configuration),
            file_watch: RefCell::default(),
            reloading: Reloading::new(options.reader, fixed),
            stopping: Cell::new(false),
            plan: Cell::new(Some(plan)),
            effects: RefCell::default(),
            gone: Cell::default(),
            alarm: Cell::new(None),
            more: Cell::new(false),
            started: reactor.now(),
            exit: Cell::new(None),
            keeping,
            recorder,
            uplink,
            exit_after_turn: Cell::new(false),
            telemetry_settings,
            telemetry: RefCell::default(),
        }))
    }

    /// Has the settings read again whenever a file changes that they or a program come from.
    pub(crate) fn watch_files(this: &Rc<Pump>, sources: SourceFinder) {
        match FileWatch::start(&this.reactor, this, sources) {
            Ok(watch) => *this.file_watch.borrow_mut() = Some(watch),
            Err(reason) => tracing::error!("{reason}"),
        }
    }

    pub(crate) fn boot(&self) {
        if let Some(plan) = self.plan.take() {
            self.kernel_cell.feed(|kernel, now| kernel.boot(plan, now));
        }
    }

    /// Begins the shutdown.
    pub(crate) fn shutdown(&self, reason: &str) {
        self.kernel_cell.feed(|kernel, now| kernel.shutdown(reason, now));
    }

    /// Ends the waiting of the shutdown, altogether.
    pub(crate) fn hasten(&self, reason: &str) {
        tracing::warn!("{reason} again: giving up what is left");
        self.kernel_cell.feed(|kernel, now| {
            kernel.hasten(now);
            kernel.hasten(now);
        });
    }

    /// Other nodes, if there are any.
    pub(crate) fn uplink(&self) -> Option<&Rc<Bridge>> {
        self.uplink.as_ref()
    }

    /// Whether [`turn`](Pump::turn) has something to do at once.
    pub(crate) fn has_more(&self) -> bool {
        let uplink_has = self.uplink.as_ref().is_some_and(|uplink| uplink.has_more());
        // Facts that were left for later go in the first turn with nothing else to do.
        let has_gathered = self.keeping.as_ref().is_some_and(Keeping::has_gathered);
        self.more.get() || self.clients.has_readable() || uplink_has || has_gathered
    }

    /// Does what there is to do after a turn of the reactor. Returns the exit code when the daemon
    /// has ended.
    pub(crate) fn turn(&self) -> Option<i32> {
        if self.take_progress() {
            // Whoever has waited for the disk goes on while others are read and worked for.
            self.write_for(TURN_TIME_MAX);
        }
        self.clients.read_some();
        self.tend_uplink();
        let is_idle = !self.kernel_cell.take_stirred() && !self.more.get();
        if !is_idle {
            self.run_kernel();
            self.set_alarm();
        }
        self.forget_gone_clients();
        self.hand_over_facts(is_idle);
        if let Some(uplink) = &self.uplink {
            uplink.flush();
        }
        if self.exit_after_turn.get() && self.exit.get().is_none() {
            self.exit.set(Some(1));
        }
        self.kernel_cell.forget_now();
        self.exit.get()
    }

    /// Writes to actors and clients what there is for them, for so long.
    fn write_for(&self, time: Duration) {
        self.actors.borrow_mut().flush_dirty();
        self.clients.flush_dirty(self.reactor.now().checked_add(time));
    }

    /// Runs the kernel until it has nothing to do, or for its share of the turn.
    fn run_kernel(&self) {
        let mut effects = self.effects.take();
        let began = self.reactor.now();
        let until = began.checked_add(TURN_TIME_MAX).unwrap_or(began);
        let flush_until = until.checked_add(TURN_TIME_MAX).unwrap_or(until);
        let mut looked_at = self.note_memory();
        let mut idle = false;
        for _ in 0..KERNEL_TURNS_MAX {
            self.kernel_cell.take_stirred();
            let (turn, work, is_next_heavy) = self.kernel_cell.turn(|kernel, now| {
                if let Some(keeping) = &self.keeping {
                    kernel.reuse(keeping.take_written());
                }
                let turn = kernel.turn(now);
                kernel.drain_effects(&mut effects);
                (turn, kernel.work(), kernel.is_next_heavy())
            });
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
            if work - looked_at >= WORK_BETWEEN_LOOKS {
                looked_at = work;
                // Whoever has waited for the disk goes on while the rest of the turn is worked on.
                let is_released = self.take_progress();
                if self.reactor.now() >= until {
                    break;
                }
                if is_released {
                    self.actors.borrow_mut().flush_dirty();
                }
                if is_released || self.clients.unflushed_bytes() >= UNFLUSHED_BYTES_MAX {
                    self.clients.flush_dirty(Some(flush_until));
                }
            }
            if is_next_heavy {
                self.clients.flush_dirty(Some(flush_until));
            }
            if turn == Turn::More || self.kernel_cell.take_stirred() {
                continue;
            }
            // What is written, and what actors are given, is told to the kernel: it may have
            // something to do then.
            self.actors.borrow_mut().flush_dirty();
            if self.let_guests_answer(began) {
                continue;
            }
            self.clients.flush_dirty(Some(flush_until));
            if !self.kernel_cell.take_stirred() {
                idle = true;
                break;
            }
        }
        if !idle {
            self.actors.borrow_mut().flush_dirty();
            self.clients.flush_dirty(Some(flush_until));
        }
        *self.effects.borrow_mut() = effects;
        self.more.set((!idle || self.clients.has_dirty()) && self.exit.get().is_none());
    }

    /// Tells the kernel what is held elsewhere on behalf of clients and actors; returns the work
    /// that it has done so far.
    fn note_memory(&self) -> u64 {
        let bytes = self.clients.outside_bytes() + self.actors.borrow().store_bytes();
        self.kernel_cell.with(|kernel, _| {
            kernel.note_outside_bytes(bytes);
            kernel.work()
        })
    }

    /// Lets guests that were given something answer before anybody is written to, so that many
    /// answers leave in one write. True if there is something new for the kernel.
    fn let_guests_answer(&self, began: Instant) -> bool {
        let in_time = self.reactor.now().saturating_duration_since(began) < GUESTS_TIME_MAX;
        in_time && self.reactor.run_woken_tasks() && self.kernel_cell.take_stirred()
    }

    /// Carries an effect out, or keeps it until the fact that it rests on is on disk.
    #[inline(always)]
    fn carry_out(&self, effect: Effect) {
        match &self.keeping {
            None => self.carry_out_now(effect),
            Some(keeping) => self.carry_out_when_kept(keeping, effect),
        }
    }

    /// The same where there is a journal. Apart, so that nothing of it costs those who have none.
    #[inline(never)]
    fn carry_out_when_kept(&self, keeping: &Keeping, effect: Effect) {
        match effect {
            Effect::Record(records) => keeping.record(records),
            Effect::After { fact } => keeping.rest_on(fact),
            effect => {
                if let Some(effect) = keeping.admit(effect, &self.clients) {
                    self.carry_out_now(effect);
                }
            }
        }
    }

    fn carry_out_now(&self, effect: Effect) {
        match effect {
            // A kernel without a journal has none of these.
            Effect::Record(_) | Effect::After { .. } => {}
            Effect::Deliver { actor, message } => self.actors.borrow_mut().deliver(actor, &message),
            Effect::Write { connection, message } if Bridge::has(connection) => {
                if let Some(uplink) = &self.uplink {
                    uplink.write(connection, &message);
                }
            }
            Effect::Write { connection, message } if HttpBus::has(connection) => {
                self.http_bus.write(connection, &message);
            }
            Effect::Write { connection, message } => self.clients.write(connection, &message),
            Effect::PauseReading { source } => self.set_reading(source, false),
            Effect::ResumeReading { source } => self.set_reading(source, true),
            Effect::Close { connection, reason } if Bridge::has(connection) => {
                if let Some(uplink) = &self.uplink {
                    uplink.closed(connection, &reason.to_string());
                }
            }
            Effect::Close { connection, reason } if HttpBus::has(connection) => {
                self.http_bus.close_by_kernel(connection, reason);
            }
            Effect::Close { connection, reason } => self.clients.close(connection, reason),
            Effect::Spawn { actor } => self.actors.borrow_mut().spawn(actor),
            Effect::Attach { actor } => self.actors.borrow_mut().attach(actor),
            Effect::Stop { actor } => self.actors.borrow_mut().stop(actor),
            Effect::Terminate { actor } => self.actors.borrow_mut().terminate(actor),
            Effect::StartAdapter { adapter } => {
                let started = self.listeners.borrow_mut().start(adapter);
                self.kernel_cell.feed(|kernel, now| kernel.adapter_started(adapter, started, now));
            }
            Effect::StopAdapter { adapter } => {
                if !self.stopping.replace(true) {
                    self.notifier.stopping();
                    self.http_bus.set_stopping();
                    if let Some(uplink) = &self.uplink {
                        uplink.part();
                    }
                }
                self.listeners.borrow_mut().stop(adapter);
            }
            Effect::CollectStats { ticket } => {
                let numbers = self.stats();
                self.kernel_cell.feed(|kernel, now| kernel.stats_collected(ticket, numbers, now));
            }
            Effect::ReadSettings { ticket } => {
                if let Some(pump) = self.own.upgrade() {
                    Pump::reload_for(&pump, ticket);
                }
            }
            Effect::OpenConsole { ticket, peer } => {
                let opened = self.listeners.borrow_mut().open_console(&peer);
                self.kernel_cell.feed(|kernel, now| kernel.console_opened(ticket, opened, now));
            }
            Effect::FetchNodeTrace { ticket, peer, id } => match &self.uplink {
                Some(uplink) => uplink.fetch_trace(ticket, &peer, &id),
                None => {
                    let refused = Err("there are no other nodes: [uplink] is not configured".to_owned());
                    self.kernel_cell.feed(|kernel, now| kernel.node_trace_fetched(ticket, refused, now));
                }
            },
            Effect::Ready { summary } => {
                let took = self.reactor.now().saturating_duration_since(self.started);
                self.vitals.note_listeners(&summary);
                self.teller.ready(&summary, took);
                self.http_bus.set_ready();
                let telemetry = Telemetry::start(&self.reactor, &self.http_bus, &self.telemetry_settings);
                *self.telemetry.borrow_mut() = telemetry;
                if let Some(uplink) = &self.uplink {
                    uplink.ready();
                }
                self.notifier.ready();
            }
            Effect::BootFailed { report } => self.teller.failed(&report),
            Effect::Log { level, capability, text } => report::log(level, capability.as_deref(), &text),
            Effect::Exit { code } => self.exit.set(Some(code)),
        }
    }

    fn set_reading(&self, source: Source, reading: bool) {
        match source {
            // Requests of other nodes are bounded where they come in.
            Source::Connection(connection) if Bridge::has(connection) => {}
            Source::Connection(connection) if HttpBus::has(connection) => {
                self.http_bus.pause(connection, !reading);
            }
            Source::Connection(connection) => self.clients.pause(connection, !reading),
            Source::Actor(actor) => self.actors.borrow_mut().set_listening(actor, reading),
        }
    }

    /// Has the reactor wake up for the kernel's next deadline. An alarm that rings too early does
    /// no harm and costs less than moving it with every request, so it is only ever moved to
    /// earlier.
    fn set_alarm(&self) {
        let Some(deadline_ns) = self.kernel_cell.with(|kernel, _| kernel.next_deadline()) else { return };
        let deadline = Instant::from_nanos(deadline_ns);
        match self.alarm.get().filter(|alarm| self.reactor.has_timer(alarm.timer)) {
            Some(alarm) if alarm.deadline_ns <= deadline_ns => {}
            Some(alarm) => {
                self.reactor.reschedule_at(alarm.timer, deadline);
                self.alarm.set(Some(Alarm { deadline_ns, ..alarm }));
            }
            None => {
                let kernel_cell = Rc::clone(&self.kernel_cell);
                match self.reactor.at(deadline, move |_| kernel_cell.feed(|_, _| ())) {
                    Ok(timer) => self.alarm.set(Some(Alarm { timer, deadline_ns })),
                    Err(error) => tracing::error!("cannot set a timer for the next deadline: {error}"),
                }
            }
        }
    }

    /// The numbers of the floors below.
    fn stats(&self) -> Json {
        let (loop_stats, (open, clients)) = (self.reactor.stats(), self.clients.counters());
        let mut event_loop = json!({
            "turns": loop_stats.turns,
            "events": loop_stats.events,
            "callbacks": loop_stats.callbacks,
            "timers": loop_stats.timers,
            "wakeups": loop_stats.wakeups,
            "taskPolls": loop_stats.task_polls,
        });
        self.vitals.tell_timing(&mut event_loop);
        let mut stats = json!({
            "daemon": self.vitals.tell(),
            "loop": event_loop,
            "clients": {
                "open": open,
                "reads": clients.reads,
                "bytesIn": clients.bytes_in,
                "writes": clients.writes,
                "bytesOut": clients.bytes_out,
                "refused": clients.refused,
            },
            "actors": self.actors.borrow().stats(),
        });
        if let Some(keeping) = &self.keeping {
            stats["journal"] = keeping.stats();
        }
        if let Some(telemetry) = &*self.telemetry.borrow() {
            stats["telemetry"] = telemetry.tell();
        }
        if let Some(recorder) = &self.recorder {
            stats["flight"] = recorder.stats();
        }
        if let Some(uplink) = &self.uplink {
            stats["uplink"] = uplink.stats();
        }
        stats.into()
    }

    /// The last moments: what was closed is flushed as far as it goes, and the listeners are taken
    /// away.
    ///
    /// Returns the exit code, given what the kernel says of it.
    pub(crate) fn end(&self, code: i32) -> i32 {
        self.close_journal();
        if let Some(telemetry) = self.telemetry.take() {
            telemetry.end();
        }
        if let Some(uplink) = &self.uplink {
            uplink.close();
        }
        self.teller.end();
        self.clients.end();
        if let Some(recorder) = &self.recorder {
            recorder.close();
        }
        if self.clients.batch_failed() { code.max(1) } else { code }
    }
}
