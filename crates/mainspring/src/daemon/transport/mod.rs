//! The doors: where clients come in. Each is one of the kernel's adapters.

pub(super) mod lines;
mod listener;
pub(super) mod outlet;
mod stdio;
mod tcp;
mod unix;
pub(super) mod wire;

use crate::daemon::clients::Clients;
use crate::daemon::operator::limits::Allowance;
use crate::settings::Door;
use listener::{Listener, Room};
use mainspring_reactor::Handle;
use std::rc::Rc;

/// The doors of a daemon, by their place in the boot plan.
pub(crate) struct Doors {
    reactor: Handle,
    clients: Rc<Clients>,
    settings: Vec<Door>,
    allowance: Allowance,
    open: Vec<Option<OpenDoor>>,
}

/// A door that is open. Dropping it closes it, and removes what it left in the file system.
enum OpenDoor {
    Unix { listener: Listener, _place: unix::Place },
    Tcp { listener: Listener },
    Stdio,
}

impl Doors {
    /// The doors of a daemon with so many capabilities.
    pub(crate) fn new(
        reactor: Handle,
        clients: Rc<Clients>,
        settings: Vec<Door>,
        capabilities: usize,
    ) -> Doors {
        let open = settings.iter().map(|_| None).collect();
        Doors { reactor, clients, settings, allowance: Allowance::new(capabilities), open }
    }

    /// The names that the kernel knows them by.
    pub(crate) fn names(settings: &[Door]) -> Vec<String> {
        let name = |door: &Door| match door {
            Door::Unix { .. } => "unix",
            Door::Tcp { .. } => "tcp",
            Door::Stdio => "stdio",
        };
        settings.iter().map(|door| name(door).to_owned()).collect()
    }

    /// Opens a door, and says where.
    pub(crate) fn start(&mut self, door: u32) -> Result<String, String> {
        let at = door as usize;
        let settings = self.settings.get(at).ok_or("there is no such door")?;
        let room = |gated| Room { clients: Rc::clone(&self.clients), allowance: self.allowance, gated };
        let (opened, address) = match settings {
            Door::Unix { path } => {
                let (listener, place) = unix::open(&self.reactor, room(false), door, path)?;
                (OpenDoor::Unix { listener, _place: place }, path.display().to_string())
            }
            Door::Tcp { address, tokens } => {
                let (listener, bound) = tcp::open(&self.reactor, room(true), door, *address, tokens)?;
                (OpenDoor::Tcp { listener }, bound.to_string())
            }
            Door::Stdio => {
                stdio::open(&self.clients, door)?;
                (OpenDoor::Stdio, "standard input and output".to_owned())
            }
        };
        self.open[at] = Some(opened);
        Ok(address)
    }

    /// Accepts no more through a door, and reads no more from who came through it.
    pub(crate) fn stop(&mut self, door: u32) {
        if let Some(OpenDoor::Unix { listener, .. } | OpenDoor::Tcp { listener }) =
            self.open.get_mut(door as usize).and_then(Option::as_mut)
        {
            listener.close();
        }
        self.clients.stop_reading(door);
    }
}
