//! Capabilities that are WebAssembly guests: lines in and out over pipes in memory, on the daemon's own loop.
//!
//! A guest is held to its limits and its allow-list by the host. It is compiled off the loop's thread. What it says waits in a
//! bounded pipe until the kernel wants to hear it, and what it is told waits likewise; a guest that does not read is told nothing more.

mod exit_reason;
mod guest_compiler;
mod life;
mod preflight;
mod stats;

pub(crate) use guest_compiler::GuestCompiler;
pub(crate) use preflight::Preflight;

use crate::daemon::actors::{Actor, Driver, Port};
use crate::settings::GuestProgram;
use guest_compiler::CompiledGuest;
use life::Life;
use mainspring_kernel::ActorExit;
use mainspring_message::Envelope;
use mainspring_reactor::{BlockingOwner, JoinHandle};
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;

/// Begins lives of one guest.
pub(super) struct GuestDriver {
    guest_compiler: GuestCompiler,
    program: Rc<GuestProgram>,
    /// What the last life was made of.
    compiled: Rc<RefCell<Option<CompiledGuest>>>,
    /// On whose account it is compiled.
    owner: BlockingOwner,
}

impl GuestDriver {
    pub(super) fn new(guest_compiler: &GuestCompiler, program: &GuestProgram) -> GuestDriver {
        GuestDriver {
            guest_compiler: guest_compiler.clone(),
            program: Rc::new(program.clone()),
            compiled: Rc::default(),
            owner: BlockingOwner::new(),
        }
    }
}

impl Driver for GuestDriver {
    fn spawn(&mut self, port: Port) -> Result<Box<dyn Actor>, String> {
        let (owner, known) = (self.owner, self.compiled.borrow().clone());
        let ours = port.clone();
        let (guest_compiler, program, kept) =
            (self.guest_compiler.clone(), self.program.clone(), self.compiled.clone());
        let place: Rc<RefCell<Option<Rc<Life>>>> = Rc::default();
        let theirs = Rc::clone(&place);
        let task = self.guest_compiler.reactor().spawn(async move {
            let compiled = guest_compiler.cast(owner, &program, known).await;
            let started = compiled.and_then(|compiled| {
                let life = Life::begin(&guest_compiler, &compiled, &program, port.clone());
                kept.replace(Some(compiled));
                life
            });
            match started {
                Ok(life) => {
                    theirs.replace(Some(Rc::clone(&life)));
                    port.spawned(Ok(()));
                    life.converse().await;
                }
                Err(reason) => port.spawned(Err(reason)),
            }
        });
        let task = task.map_err(|error| error.to_string())?;
        Ok(Box::new(GuestActor { port: ours, place, task: Some(task) }))
    }
}

/// A guest at work, or about to be.
struct GuestActor {
    port: Port,
    /// Empty while it is compiled.
    place: Rc<RefCell<Option<Rc<Life>>>>,
    task: Option<JoinHandle<()>>,
}

impl GuestActor {
    fn with(&self, call: impl FnOnce(&Life)) {
        if let Some(life) = &*self.place.borrow() {
            call(life);
        }
    }
}

impl GuestActor {
    /// Nobody hears its end.
    fn abandon(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Actor for GuestActor {
    fn attach(&mut self) -> Result<(), String> {
        self.with(Life::attach);
        Ok(())
    }

    fn deliver(&mut self, message: &Envelope) {
        self.with(|life| life.deliver(message));
    }

    fn set_listening(&mut self, listening: bool) {
        self.with(|life| life.set_listening(listening));
    }

    fn stop(&mut self) {
        if self.place.borrow().is_some() {
            return self.with(Life::stop);
        }
        // It has not begun, and never will.
        self.abandon();
        self.port.exited(ActorExit::Done);
    }

    fn terminate(&mut self) {
        self.with(Life::kill);
    }

    fn stats(&self) -> Value {
        let place = self.place.borrow();
        place.as_ref().map_or(Value::Null, |life| stats::of(&life.guest().stats()))
    }
}

impl Drop for GuestActor {
    fn drop(&mut self) {
        self.with(Life::kill);
        self.abandon();
    }
}
