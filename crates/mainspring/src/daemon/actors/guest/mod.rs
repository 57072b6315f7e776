//! Capabilities that are WebAssembly guests: lines in and out over pipes in memory, on the daemon's
//! own reactor.
//!
//! A guest is held to its limits and its allow-list by the host. It is compiled off the daemon's
//! thread. What it says waits in a bounded pipe until the kernel wants to hear it, and what it is
//! told waits likewise; a guest that does not read is told nothing more.

mod exit_reason;
mod guest_compiler;
mod incarnation;
mod preflight;
mod stats;

pub(crate) use guest_compiler::GuestCompiler;
pub(crate) use preflight::Preflight;

use crate::daemon::actors::{Actor, Driver, Port};
use crate::settings::GuestProgram;
use guest_compiler::CompiledGuest;
use incarnation::GuestIncarnation;
use mainspring_kernel::ActorExit;
use mainspring_message::Envelope;
use mainspring_reactor::{BlockingOwner, JoinHandle};
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;

/// Starts the incarnations of one guest.
pub(super) struct GuestDriver {
    guest_compiler: GuestCompiler,
    program: Rc<GuestProgram>,
    /// What the last incarnation was made of.
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
        let place: Rc<RefCell<Option<Rc<GuestIncarnation>>>> = Rc::default();
        let theirs = Rc::clone(&place);
        let task = self.guest_compiler.reactor().spawn(async move {
            let compiled = guest_compiler.compiled(owner, &program, known).await;
            let started = compiled.and_then(|compiled| {
                let incarnation = GuestIncarnation::begin(&guest_compiler, &compiled, &program, port.clone());
                kept.replace(Some(compiled));
                incarnation
            });
            match started {
                Ok(incarnation) => {
                    theirs.replace(Some(Rc::clone(&incarnation)));
                    port.spawned(Ok(()));
                    incarnation.converse().await;
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
    place: Rc<RefCell<Option<Rc<GuestIncarnation>>>>,
    task: Option<JoinHandle<()>>,
}

impl GuestActor {
    fn with(&self, call: impl FnOnce(&GuestIncarnation)) {
        if let Some(incarnation) = &*self.place.borrow() {
            call(incarnation);
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
        self.with(GuestIncarnation::attach);
        Ok(())
    }

    fn deliver(&mut self, message: &Envelope) {
        self.with(|incarnation| incarnation.deliver(message));
    }

    fn set_listening(&mut self, listening: bool) {
        self.with(|incarnation| incarnation.set_listening(listening));
    }

    fn stop(&mut self) {
        if self.place.borrow().is_some() {
            return self.with(GuestIncarnation::stop);
        }
        // It has not begun, and never will.
        self.abandon();
        self.port.exited(ActorExit::Done);
    }

    fn terminate(&mut self) {
        self.with(GuestIncarnation::kill);
    }

    fn stats(&self) -> Value {
        let place = self.place.borrow();
        place.as_ref().map_or(Value::Null, |incarnation| stats::of(&incarnation.guest().stats()))
    }
}

impl Drop for GuestActor {
    fn drop(&mut self) {
        self.with(GuestIncarnation::kill);
        self.abandon();
    }
}
