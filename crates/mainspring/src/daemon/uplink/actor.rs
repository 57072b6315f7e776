//! Imported capabilities: actors whose work other nodes do.

use super::bridge::Bridge;
use crate::daemon::actors::{Actor, Driver, Port};
use mainspring_kernel::ActorExit;
use mainspring_message::Envelope;
use std::rc::Rc;

/// Begins incarnations of an imported capability.
pub(crate) struct UplinkDriver {
    pub(crate) bridge: Rc<Bridge>,
    /// The id that the capability has on other nodes.
    pub(crate) import: Rc<str>,
}

impl Driver for UplinkDriver {
    fn spawn(&mut self, port: Port) -> Result<Box<dyn Actor>, String> {
        port.spawned(Ok(()));
        Ok(Box::new(UplinkActor { bridge: Rc::clone(&self.bridge), import: Rc::clone(&self.import), port }))
    }
}

struct UplinkActor {
    bridge: Rc<Bridge>,
    import: Rc<str>,
    port: Port,
}

impl Actor for UplinkActor {
    fn deliver(&mut self, message: &Envelope) {
        self.bridge.deliver(&self.import, self.port.actor(), message);
    }

    fn stop(&mut self) {
        self.port.exited(ActorExit::Done);
    }

    fn terminate(&mut self) {}
}

impl Drop for UplinkActor {
    fn drop(&mut self) {
        self.bridge.forget(self.port.actor());
    }
}
