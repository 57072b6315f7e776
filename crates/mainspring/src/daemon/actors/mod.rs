//! Actors: what carries capabilities out, whatever it is made of.
//!
//! A [`Driver`] knows how to start an incarnation of one capability; an [`Actor`] is one such
//! incarnation. An actor is given messages by [`deliver`](Actor::deliver), and answers through its
//! [`Port`], at once or whenever the reactor calls it back. Nothing here may block.

#[cfg_attr(not(feature = "guests"), path = "no_guests.rs")]
mod guest;
mod native;
mod port;
mod process;
mod stderr_log;

pub(crate) use guest::{GuestCompiler, Preflight};
pub use native::{Native, Natives};
pub use port::Port;
pub(crate) use process::ChildProcesses;

use crate::daemon::kernel_cell::KernelCell;
use crate::daemon::operator::reload::Stamped;
use crate::daemon::uplink::{Bridge, UplinkDriver};
use crate::settings::Program;
use guest::GuestDriver;
use mainspring_kernel::{ActorRef, CapabilityId};
use mainspring_message::Envelope;
use mainspring_reactor::Handle;
use process::ProcessDriver;
use serde_json::Value;
use std::rc::Rc;

/// Begins the lives of one capability.
pub trait Driver {
    /// Starts an incarnation. The actor says through its port when it is there ([`Port::spawned`],
    /// once), before or after this returns.
    ///
    /// # Errors
    /// With a reason for a person, when there will be no actor; then the port is not used.
    fn spawn(&mut self, port: Port) -> Result<Box<dyn Actor>, String>;
}

/// One incarnation of a capability. Dropping it ends it for good, whatever state it is in.
pub trait Actor {
    /// Starts listening: from here on, what the actor says goes to its port.
    ///
    /// # Errors
    /// With a reason for a person.
    fn attach(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Takes a message. What cannot be passed on at once is kept, and [`Port::blocked`] says so.
    fn deliver(&mut self, message: &Envelope);

    /// Passes on what was delivered in this turn of the reactor.
    fn flush(&mut self) {}

    /// Stops or resumes listening, because what the actor said waits to be served.
    fn set_listening(&mut self, _listening: bool) {}

    /// Ends the actor's input and lets it finish in its own time; [`Port::exited`] says when it
    /// has.
    fn stop(&mut self);

    /// Ends the actor now. It is dropped next, and its port is not used any more.
    fn terminate(&mut self);

    /// Numbers of its own for `Sys.Stats`, as an object; `null` when it has none.
    fn stats(&self) -> Value {
        Value::Null
    }
}

/// What drivers are made with.
pub(crate) struct ActorFactory {
    pub(crate) reactor: Handle,
    pub(crate) natives: Natives,
    pub(crate) child_processes: Rc<ChildProcesses>,
    pub(crate) guest_compiler: GuestCompiler,
    /// Other nodes, if there are any.
    pub(crate) uplink: Option<Rc<Bridge>>,
}

impl ActorFactory {
    /// The driver of a capability.
    fn driver(&self, program: &Program) -> Result<Box<dyn Driver>, String> {
        match program {
            Program::Native(name) => Ok(Box::new(self.natives.driver(name)?)),
            Program::Process(program) => Ok(Box::new(ProcessDriver {
                program: Rc::new(program.clone()),
                reactor: self.reactor.clone(),
                child_processes: Rc::clone(&self.child_processes),
            })),
            Program::Guest(program) => Ok(Box::new(GuestDriver::new(&self.guest_compiler, program))),
            Program::Uplink(id) => {
                let bridge = self.uplink.as_ref().ok_or("there is no uplink")?;
                Ok(Box::new(UplinkDriver { bridge: Rc::clone(bridge), import: id.as_str().into() }))
            }
        }
    }
}

/// The actors of a daemon, by the number of their capability.
pub(crate) struct Actors {
    kernel_cell: Rc<KernelCell>,
    factory: ActorFactory,
    places: Vec<ActorPlace>,
    /// Those that were delivered to in this turn of the reactor.
    dirty: Vec<CapabilityId>,
}

struct ActorPlace {
    stamped: Stamped,
    /// Whether a reload has taken the capability away.
    removed: bool,
    name: Rc<str>,
    driver: Option<Box<dyn Driver>>,
    running: Option<(u32, Box<dyn Actor>)>,
    /// That of the incarnation.
    port: Option<Port>,
    dirty: bool,
}

impl ActorPlace {
    fn new(stamped: Stamped) -> ActorPlace {
        let name = Rc::from(stamped.0.manifest.id.as_str());
        ActorPlace { stamped, removed: false, name, driver: None, running: None, port: None, dirty: false }
    }
}

impl Actors {
    pub(crate) fn new(
        kernel_cell: Rc<KernelCell>,
        factory: ActorFactory,
        capabilities: Vec<Stamped>,
    ) -> Actors {
        let places = capabilities.into_iter().map(ActorPlace::new).collect();
        Actors { kernel_cell, factory, places, dirty: Vec::new() }
    }

    /// The capabilities there are, without those of other nodes.
    pub(crate) fn capabilities(&self) -> Vec<&Stamped> {
        let is_own = |stamped: &&Stamped| !matches!(stamped.0.program, Program::Uplink(_));
        self.places.iter().filter(|place| !place.removed).map(|place| &place.stamped).filter(is_own).collect()
    }

    /// Whether there is a capability of this id.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.places.iter().any(|place| !place.removed && place.stamped.0.manifest.id == id)
    }

    /// The next lives of a capability are of this program, or there are none.
    pub(crate) fn change(&mut self, capability: CapabilityId, stamped: Option<Stamped>) {
        match (self.places.get_mut(capability.index()), stamped) {
            (Some(place), Some(stamped)) => {
                (place.stamped, place.driver, place.removed) = (stamped, None, false);
            }
            (Some(place), None) => place.removed = true,
            (None, Some(stamped)) => self.places.push(ActorPlace::new(stamped)),
            (None, None) => {}
        }
    }

    /// Starts an incarnation.
    pub(crate) fn spawn(&mut self, actor: ActorRef) {
        let Some(place) = self.places.get_mut(actor.capability.index()) else { return };
        place.running = None;
        let port = Port::new(Rc::clone(&self.kernel_cell), actor, Rc::clone(&place.name));
        place.port = Some(port.clone());
        let driver = match &mut place.driver {
            Some(driver) => Ok(driver),
            none => self.factory.driver(&place.stamped.0.program).map(|driver| none.insert(driver)),
        };
        match driver.and_then(|driver| driver.spawn(port)) {
            Ok(running) => place.running = Some((actor.incarnation, running)),
            Err(reason) => self.kernel_cell.feed(|kernel, now| kernel.actor_spawned(actor, Err(reason), now)),
        }
    }

    /// Starts listening to an actor.
    pub(crate) fn attach(&mut self, actor: ActorRef) {
        if let Some((_, running)) = self.find(actor) {
            let attached = running.attach();
            self.kernel_cell.feed(|kernel, now| kernel.actor_attached(actor, attached, now));
            self.allow_farewell(actor);
        }
    }

    /// From now on the end of an actor is told as it comes.
    fn allow_farewell(&self, actor: ActorRef) {
        let port = self.places.get(actor.capability.index()).and_then(|place| place.port.as_ref());
        if let Some(port) = port.filter(|port| port.actor() == actor) {
            port.allow_farewell();
        }
    }

    /// Gives an actor a message.
    pub(crate) fn deliver(&mut self, actor: ActorRef, message: &Envelope) {
        if let Some((dirty, running)) = self.find(actor) {
            running.deliver(message);
            if !std::mem::replace(dirty, true) {
                self.dirty.push(actor.capability);
            }
        }
    }

    /// Has every actor pass on what it was given.
    pub(crate) fn flush_dirty(&mut self) {
        for capability in self.dirty.drain(..) {
            let place = &mut self.places[capability.index()];
            place.dirty = false;
            if let Some((_, running)) = &mut place.running {
                running.flush();
            }
        }
    }

    pub(crate) fn set_listening(&mut self, actor: ActorRef, listening: bool) {
        if let Some((_, running)) = self.find(actor) {
            running.set_listening(listening);
        }
    }

    pub(crate) fn stop(&mut self, actor: ActorRef) {
        self.allow_farewell(actor);
        if let Some((_, running)) = self.find(actor) {
            running.stop();
        }
    }

    pub(crate) fn terminate(&mut self, actor: ActorRef) {
        if let Some((_, running)) = self.find(actor) {
            running.terminate();
        }
        if let Some(place) = self.places.get_mut(actor.capability.index())
            && place.running.as_ref().is_some_and(|(incarnation, _)| *incarnation == actor.incarnation)
        {
            place.running = None;
        }
    }

    /// The numbers of every actor that has some, by capability.
    pub(crate) fn stats(&self) -> Value {
        let numbers = self.places.iter().filter_map(|place| {
            let (_, running) = place.running.as_ref()?;
            let stats = running.stats();
            (!stats.is_null()).then(|| (place.stamped.0.manifest.id.clone(), stats))
        });
        Value::Object(numbers.collect())
    }

    /// Bytes that `Memory` holds.
    pub(crate) fn store_bytes(&self) -> usize {
        self.factory.natives.memory_account().bytes.get()
    }

    fn find(&mut self, actor: ActorRef) -> Option<(&mut bool, &mut Box<dyn Actor>)> {
        let place = self.places.get_mut(actor.capability.index())?;
        let (incarnation, running) = place.running.as_mut()?;
        (*incarnation == actor.incarnation).then_some((&mut place.dirty, running))
    }
}
