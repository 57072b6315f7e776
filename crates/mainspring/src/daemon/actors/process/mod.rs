//! Capabilities that are child processes: lines on standard input, lines from standard output,
//! standard error into the log.
//!
//! A child has a process group of its own, is killed with everything in it, and is always reaped.
//! How it ended is known from its pidfd.

mod child_processes;
mod incarnation;
mod launch;
mod outcome;
mod stderr_budget;
mod streams;
mod sweep;

pub(crate) use child_processes::ChildProcesses;

use crate::daemon::actors::{Actor, Driver, Port};
use crate::settings::ProcessProgram;
use incarnation::ProcessIncarnation;
use mainspring_message::Envelope;
use mainspring_reactor::Handle;
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;

/// Starts the incarnations of a child process.
pub(super) struct ProcessDriver {
    pub(super) program: Rc<ProcessProgram>,
    pub(super) reactor: Handle,
    pub(super) child_processes: Rc<ChildProcesses>,
}

impl Driver for ProcessDriver {
    fn spawn(&mut self, port: Port) -> Result<Box<dyn Actor>, String> {
        let child = launch::launch(&self.program, &port, &self.child_processes)?;
        let incarnation =
            ProcessIncarnation::begin(child, port, &self.reactor, &self.program, &self.child_processes)?;
        Ok(Box::new(ProcessActor { incarnation }))
    }
}

/// One incarnation: the daemon's hold on it. The reactor's callbacks hold it as well, until the
/// child is reaped.
struct ProcessActor {
    incarnation: Rc<RefCell<ProcessIncarnation>>,
}

impl Actor for ProcessActor {
    fn attach(&mut self) -> Result<(), String> {
        ProcessIncarnation::attach(&self.incarnation)
    }

    fn deliver(&mut self, message: &Envelope) {
        self.incarnation.borrow_mut().deliver(message);
    }

    fn flush(&mut self) {
        ProcessIncarnation::flush(&self.incarnation);
    }

    fn set_listening(&mut self, listening: bool) {
        self.incarnation.borrow_mut().set_listening(listening);
    }

    fn stop(&mut self) {
        ProcessIncarnation::stop(&self.incarnation);
    }

    fn terminate(&mut self) {
        self.incarnation.borrow_mut().terminate();
    }

    fn stats(&self) -> Value {
        self.incarnation.borrow().stats()
    }
}

impl Drop for ProcessActor {
    fn drop(&mut self) {
        self.incarnation.borrow_mut().terminate();
    }
}
