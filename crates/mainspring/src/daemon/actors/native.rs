//! Capabilities that are code of this very program.

use crate::daemon::actors::{Actor, Driver, Port};
use crate::daemon::flight::forgiving;
use crate::natives::memory::{Memory, StoreAccount};
use mainspring_kernel::ActorExit;
use mainspring_message::Envelope;
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A capability in Rust. Each call must be short: the whole loop waits for it.
pub trait Native {
    /// Takes a message and says what it has to say through the port, now or later.
    ///
    /// A panic here is a crash of this actor, which is then made anew.
    fn handle(&mut self, message: &Envelope, port: &Port);

    /// Numbers of its own for `Sys.Stats`.
    fn stats(&self) -> Value {
        Value::Null
    }
}

/// Makes a native capability, once for each of its lives.
type Factory = Rc<dyn Fn() -> Box<dyn Native>>;

/// The native capabilities that a daemon may be told to run, by name.
#[derive(Clone, Default)]
pub struct Natives {
    factories: BTreeMap<String, Factory>,
    /// What `Memory` holds, and may hold.
    store: Rc<StoreAccount>,
}

impl Natives {
    /// Those that come with Mainspring.
    #[must_use]
    pub fn built_in() -> Natives {
        let mut natives = Natives::default();
        let store = Rc::clone(&natives.store);
        natives.add(crate::natives::memory::NAME, move || Box::new(Memory::new(Rc::clone(&store))));
        natives
    }

    /// Adds one, or replaces the one of that name.
    pub fn add(&mut self, name: &str, make: impl Fn() -> Box<dyn Native> + 'static) {
        self.factories.insert(name.to_owned(), Rc::new(make));
    }

    /// What `Memory` holds, and may hold.
    pub(crate) fn memory_account(&self) -> &StoreAccount {
        &self.store
    }

    pub(super) fn driver(&self, name: &str) -> Result<NativeDriver, String> {
        match self.factories.get(name) {
            Some(make) => Ok(NativeDriver { make: Rc::clone(make) }),
            None => {
                let known: Vec<&str> = self.factories.keys().map(String::as_str).collect();
                Err(format!("there is no native capability {name:?}; there are: {}", known.join(", ")))
            }
        }
    }
}

impl std::fmt::Debug for Natives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.factories.keys()).finish()
    }
}

/// Begins lives of a native capability.
pub(super) struct NativeDriver {
    make: Factory,
}

impl Driver for NativeDriver {
    fn spawn(&mut self, port: Port) -> Result<Box<dyn Actor>, String> {
        let native =
            forgiving(|| catch_unwind(AssertUnwindSafe(&*self.make))).map_err(|panic| describe(&*panic))?;
        port.spawned(Ok(()));
        Ok(Box::new(NativeActor { native: Some(native), port }))
    }
}

struct NativeActor {
    /// Gone when it panicked or was stopped.
    native: Option<Box<dyn Native>>,
    port: Port,
}

impl Actor for NativeActor {
    fn deliver(&mut self, message: &Envelope) {
        let Some(native) = &mut self.native else { return };
        let call = AssertUnwindSafe(|| native.handle(message, &self.port));
        if let Err(panic) = forgiving(|| catch_unwind(call)) {
            self.native = None;
            self.port.exited(ActorExit::Failed(describe(&*panic)));
        }
    }

    fn stop(&mut self) {
        self.native = None;
        self.port.exited(ActorExit::Done);
    }

    fn terminate(&mut self) {
        self.native = None;
    }

    fn stats(&self) -> Value {
        self.native.as_ref().map_or(Value::Null, |native| native.stats())
    }
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a message"))
}
