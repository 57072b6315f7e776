//! One client: its wire, the line it is in the middle of, what waits to be written to it, and how
//! far it has come.

use crate::daemon::clients::gate::Gate;
use crate::daemon::transport::outgoing::{Drained, Outgoing};
use crate::daemon::transport::wire::Wire;
use mainspring_kernel::ConnectionId;
use mainspring_message::lines::LineSplitter;
use mainspring_reactor::{Handle, Interest, Readiness};
use rustix::io::Errno;
use std::rc::Rc;

/// For so many reads, a client whose answers waited for the disk is taken for one whose answers do.
const WAITING_READS: u8 = 16;

pub(super) struct ConnectedClient {
    pub(super) id: ConnectionId,
    pub(super) wire: Wire,
    /// Where it connected: one of the kernel's adapters.
    pub(super) adapter: u32,
    pub(super) stage: ClientStage,
    pub(super) input: ClientInput,
    pub(super) output: ClientOutput,
    pub(super) lines: LineSplitter,
    pub(super) out: Outgoing,
    pub(super) dirty: Dirty,
    /// The reactor tells of new input once ([`Wire::tells_edges`]), so what it told must be
    /// remembered.
    tells_edges: bool,
    /// There may be something to read: it was told, and no read has found the end of it.
    has_input: bool,
    /// The reactor told that nothing more will come, or that the connection is broken: behind what
    /// there is to read is an end, which it will not tell of again.
    has_end: bool,
    /// It stands in the queue of those to be read.
    pub(super) is_queued: bool,
    /// How many more reads count as those of a client whose answers wait.
    waiting_reads: u8,
}

/// How far a client has come. It only ever moves forward.
pub(super) enum ClientStage {
    /// It has to say who it is; the kernel does not know of it yet.
    AtGate(Rc<Gate>),
    /// The kernel knows it; it sends and receives.
    Open,
    /// It will send no more, and stays for as long as the kernel owes it something.
    HalfClosed,
    /// It is to be closed when everything is written.
    Closing {
        /// It has been given a last while to read.
        lingers: bool,
    },
}

/// Whether a client is read, while its stage allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientInput {
    /// It is read.
    Read,
    /// The kernel wants no more of it for now.
    Paused,
    /// Its listener was closed: it is never read again.
    Stopped,
}

/// Whether a client can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientOutput {
    /// It can.
    Free,
    /// The last write did not take everything.
    Full,
    /// Never again: what is for it is thrown away.
    Failed(Errno),
}

/// Whether there is something to write to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dirty {
    No,
    /// Events and nothing else: whoever waits for an answer comes first.
    Events,
    Yes,
}

impl ConnectedClient {
    /// A client that has sent nothing yet.
    pub(super) fn new(
        id: ConnectionId,
        wire: Wire,
        adapter: u32,
        gate: Option<Rc<Gate>>,
        reactor: &Handle,
    ) -> ConnectedClient {
        ConnectedClient {
            id,
            tells_edges: wire.tells_edges(reactor),
            has_input: false,
            has_end: false,
            wire,
            adapter,
            stage: gate.map_or(ClientStage::Open, ClientStage::AtGate),
            input: ClientInput::Read,
            output: ClientOutput::Free,
            lines: LineSplitter::default(),
            out: Outgoing::default(),
            dirty: Dirty::No,
            is_queued: false,
            waiting_reads: 0,
        }
    }

    /// Notes, at a read, whether answers wait for the disk. True if they do, or did lately: then
    /// those to come will, most likely.
    pub(super) fn note_waiting(&mut self, waits: bool) -> bool {
        self.waiting_reads = if waits { WAITING_READS } else { self.waiting_reads.saturating_sub(1) };
        self.waiting_reads > 0
    }

    /// Whether it is the batch on the standard streams: its lines need no metadata, its end ends
    /// the daemon, and it cannot tell that it is gone from that it will send no more.
    pub(super) fn is_batch(&self) -> bool {
        self.wire.is_standard_streams()
    }

    /// Whether it has not said yet who it is.
    pub(super) fn is_at_gate(&self) -> bool {
        matches!(self.stage, ClientStage::AtGate(_))
    }

    /// Whether it is to be closed when everything is written.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.stage, ClientStage::Closing { .. })
    }

    /// Whether it is to be read when there is something to read.
    pub(super) fn is_read(&self) -> bool {
        self.input == ClientInput::Read && matches!(self.stage, ClientStage::AtGate(_) | ClientStage::Open)
    }

    /// The reactor told of something: remembers what that says about the input.
    pub(super) fn note(&mut self, readiness: Readiness) {
        let end = Readiness::READ_CLOSED | Readiness::HANGUP | Readiness::ERROR;
        self.has_end |= readiness.intersects(end);
        self.has_input |= self.has_end || readiness.contains(Readiness::READ);
    }

    /// A read brought so many bytes, of at most `room`: remembers whether there may be more.
    ///
    /// A stream that gives less than there is room for has no more, unless its end is already
    /// there: that was told with the bytes, and will not be told again. (A peer that passes
    /// descriptors along can make a read shorter; it waits for itself.)
    pub(super) fn note_read(&mut self, count: usize, room: usize) {
        // Standard input may block: it is asked for every time.
        self.has_input = !self.is_batch() && (count == room || self.has_end);
    }

    /// Whether it is to stand in the queue of those to be read, and does not yet.
    pub(super) fn wants_to_queue(&self) -> bool {
        self.has_input && !self.is_queued && self.is_read()
    }

    /// It will send no more. Returns whether that is news.
    pub(super) fn end_input(&mut self) -> bool {
        let is_news = matches!(self.stage, ClientStage::AtGate(_) | ClientStage::Open);
        if is_news {
            self.stage = ClientStage::HalfClosed;
        }
        is_news
    }

    /// What the reactor should tell of it.
    pub(super) fn interest(&self) -> Interest {
        let mut interest = Interest::empty();
        let is_full = self.output == ClientOutput::Full;
        // Where edges are told, a client that is not read for a while stays watched: what is told
        // meanwhile is remembered.
        let is_watched = self.tells_edges && matches!(self.stage, ClientStage::AtGate(_) | ClientStage::Open);
        interest.set(Interest::READ, is_watched || self.is_read());
        interest.set(Interest::WRITE, is_full);
        // A client that will send no more and waits for answers may still go away.
        let waits = matches!(self.stage, ClientStage::HalfClosed);
        interest.set(Interest::ERROR, waits && !is_full && !self.is_batch());
        interest
    }

    /// Whether a report of the reactor says that what waits can be written now, or that it never
    /// can.
    pub(super) fn can_go_on(&self, readiness: Readiness) -> bool {
        self.output == ClientOutput::Full
            && readiness.intersects(Readiness::WRITE | Readiness::ERROR | Readiness::HANGUP)
    }

    /// Whether a report of the reactor says that a client who waits for answers is not there any
    /// more.
    pub(super) fn is_gone(&self, readiness: Readiness) -> bool {
        matches!(self.stage, ClientStage::HalfClosed)
            && readiness.intersects(Readiness::ERROR | Readiness::HANGUP)
    }

    /// Writes what can be written now; returns how much that was.
    pub(super) fn write(&mut self) -> usize {
        let start = self.out.len();
        if let ClientOutput::Failed(_) = self.output {
            self.out.clear();
            return start;
        }
        let wire = &self.wire;
        self.output = match self.out.drain(|bytes| wire.write(bytes)) {
            Ok(Drained::Everything) => ClientOutput::Free,
            Ok(Drained::NoRoom) => ClientOutput::Full,
            Err(error) => {
                self.out.clear();
                ClientOutput::Failed(error)
            }
        };
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
