//! One client: its wire, the line it is in the middle of, and what waits to be written to it.

use crate::daemon::clients::gate::Gate;
use crate::daemon::clients::outgoing::Outgoing;
use crate::daemon::transport::lines::LineCutter;
use crate::daemon::transport::wire::Wire;
use mainspring_kernel::ConnectionId;
use mainspring_reactor::Interest;
use rustix::io::Errno;
use std::rc::Rc;

pub(super) struct Client {
    pub(super) id: ConnectionId,
    pub(super) wire: Wire,
    pub(super) door: u32,
    /// What must be passed before the kernel hears of this client.
    pub(super) gate: Option<Rc<Gate>>,
    pub(super) lines: LineCutter,
    pub(super) out: Outgoing,
    pub(super) dirty: Dirty,
    /// The kernel asked for no more.
    pub(super) paused: bool,
    /// Its door was closed.
    pub(super) door_closed: bool,
    /// It stands in the queue of those to be read.
    pub(super) queued: bool,
    /// The client said that nothing more will come.
    pub(super) input_ended: bool,
    /// The peer cannot be written to any more: what is for it is thrown away.
    pub(super) output_failed: Option<Errno>,
    /// To be closed when everything is written.
    pub(super) closing: bool,
    /// The last write did not take everything.
    pub(super) full: bool,
    /// It has been given a last while.
    pub(super) lingers: bool,
}

impl Client {
    /// A client that has sent nothing yet.
    pub(super) fn new(id: ConnectionId, wire: Wire, door: u32, gate: Option<Rc<Gate>>) -> Client {
        Client {
            id,
            wire,
            door,
            gate,
            lines: LineCutter::default(),
            out: Outgoing::default(),
            dirty: Dirty::No,
            paused: false,
            door_closed: false,
            queued: false,
            input_ended: false,
            output_failed: None,
            closing: false,
            full: false,
            lingers: false,
        }
    }

    /// Whether it is the batch on the standard streams, whose lines need no metadata.
    pub(super) fn is_written_by_hand(&self) -> bool {
        !self.wire.tells_hangups()
    }

    /// What the loop should tell of it.
    pub(super) fn interest(&self) -> Interest {
        let mut interest = Interest::empty();
        let reading = !self.paused && !self.door_closed && !self.input_ended && !self.closing;
        interest.set(Interest::READ, reading);
        interest.set(Interest::WRITE, self.full);
        // A client that will send no more and waits for answers may still go away.
        interest.set(Interest::ERROR, self.input_ended && !self.full && self.wire.tells_hangups());
        interest
    }

    /// Writes what can be written now; returns how much that was.
    pub(super) fn write(&mut self) -> usize {
        let start = self.out.len();
        while !self.out.is_empty() {
            if self.output_failed.is_some() {
                self.out.clear();
                break;
            }
            match self.wire.write(self.out.next()) {
                Ok(count) => self.out.advance(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.full = true;
                    break;
                }
                Err(error) => self.output_failed = Some(error),
            }
        }
        start - self.out.len()
    }

    /// There is something to write to it, or it is to be closed; true if nobody knew.
    pub(super) fn mark_dirty(&mut self) -> bool {
        std::mem::replace(&mut self.dirty, Dirty::Yes) != Dirty::Yes
    }

    /// There is an event to write to it; true if nobody knew.
    pub(super) fn mark_event(&mut self) -> bool {
        let is_new = self.dirty == Dirty::No;
        if is_new {
            self.dirty = Dirty::Events;
        }
        is_new
    }
}

/// Whether there is something to write to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dirty {
    No,
    /// Events and nothing else: whoever waits for an answer comes first.
    Events,
    Yes,
}
