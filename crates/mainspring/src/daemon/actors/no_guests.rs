//! In place of `guest/`, in a program that was built without guests. The configuration refuses them
//! before anything here is asked; whoever embeds the daemon is told when a guest is to start.

use crate::daemon::actors::{Actor, Driver, Port};
use crate::settings::GuestProgram;
use mainspring_reactor::Handle;

const REFUSAL: &str = "this mainspring was built without guests (the feature `guests` of its package)";

/// Compiles nothing.
pub(crate) struct GuestCompiler;

impl GuestCompiler {
    pub(crate) fn new(_reactor: &Handle) -> GuestCompiler {
        GuestCompiler
    }
}

/// Refuses every guest before it is started.
pub(crate) struct Preflight;

impl Preflight {
    pub(crate) fn new() -> Result<Preflight, String> {
        Err(REFUSAL.into())
    }

    pub(crate) fn refusal(&self, _name: &str, _program: &GuestProgram) -> Option<String> {
        Some(REFUSAL.into())
    }
}

/// Refuses to start an incarnation.
pub(super) struct GuestDriver;

impl GuestDriver {
    pub(super) fn new(_compiler: &GuestCompiler, _program: &GuestProgram) -> GuestDriver {
        GuestDriver
    }
}

impl Driver for GuestDriver {
    fn spawn(&mut self, _port: Port) -> Result<Box<dyn Actor>, String> {
        Err(REFUSAL.into())
    }
}
