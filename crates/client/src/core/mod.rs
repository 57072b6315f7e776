//! A client's side of a connection, across reconnections, without the connection: lines in, bytes
//! out, deadlines.
//!
//! Whoever has the socket calls `opened`, `take_line` and `lost`, writes what `take_output` gives,
//! and calls `tick` no later than at `next_deadline`. Commands and queries outlive a connection:
//! they are sent again on the next one, byte for byte and under the same id, so that the daemon
//! answers a command that it has done already and does not do it twice.

mod incoming;
mod slot;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use slot::Slot;
pub use watch::{Gap, GapReason, Watched};
pub(crate) use watch::{WatchState, check_pattern};

use crate::error::{ConnectError, Error};
use crate::request::{Reply, Request};
use mainspring_message::{Kind, Started};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How much longer than the daemon a client waits: the daemon's own word about a timeout says more.
const GRACE: Duration = Duration::from_secs(2);
/// How long a daemon may be silent while something is asked before it is sent a ping.
const SILENCE: Duration = Duration::from_secs(30);
/// Unfinished requests, and the bytes of their lines. Beyond: whoever asks waits.
const REQUESTS_MAX: usize = 4096;
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// What becomes of an outcome.
#[derive(Debug)]
enum Purpose {
    /// A command or query of the program.
    Caller(Slot),
    /// An event of the program. It has no outcome but a refusal; a ping after it shows that it was
    /// taken.
    Event(Slot),
    /// The ping after the event of this number.
    EventPing(u64),
    /// A subscription of the program.
    Subscribe(WatchState, Slot),
    /// Rights that the program gives up.
    Restrict(Value, Slot),
    /// The ping after the token: a right token is not answered, and every daemon answers this.
    Admission,
    /// What was given up before, on a new connection.
    RestrictAgain,
    /// The subscriptions from before, on a new connection.
    SubscribeAgain(Vec<WatchState>),
    /// A cancel on the way.
    Cancel,
    /// A ping after a long silence.
    Probe,
    /// Nobody waits for it.
    Unwatched,
}

/// A message whose outcome is not there yet.
#[derive(Debug)]
struct Pending {
    id: String,
    type_name: String,
    line: String,
    purpose: Purpose,
    /// Whether it is written on this connection, and whether it ever was on one.
    is_written: bool,
    was_written: bool,
}

impl Pending {
    /// Whether it is sent again on the next connection.
    fn is_repeated(&self) -> bool {
        matches!(self.purpose, Purpose::Caller(_) | Purpose::Subscribe(..) | Purpose::Restrict(..))
    }
}

/// The state of a client.
#[derive(Debug)]
pub(crate) struct Core {
    token: Option<String>,
    /// By number, which is their order; and their numbers by id.
    pending: BTreeMap<u64, Pending>,
    numbers: HashMap<String, u64>,
    pending_bytes: usize,
    watches: Vec<WatchState>,
    restriction: Option<Value>,
    out: Vec<u8>,
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    /// What ids begin with, and how many messages there were.
    prefix: String,
    count: u64,
    heard: Instant,
    is_probing: bool,
    /// Whether there is a connection; and whether the daemon has taken the token and the
    /// restriction, so that requests pass.
    is_connected: bool,
    is_open: bool,
    /// Whether any connection ever was.
    was_open: bool,
    can_cancel: bool,
    closed: Option<Error>,
    /// Told when the first connection is open, or is not to be had.
    admission: Slot<Result<(), Error>>,
    room_wakers: Vec<Waker>,
}

impl Core {
    /// A client whose ids begin with `prefix`.
    pub(crate) fn new(token: Option<String>, prefix: String) -> Core {
        Core {
            token,
            pending: BTreeMap::new(),
            numbers: HashMap::new(),
            pending_bytes: 0,
            watches: Vec::new(),
            restriction: None,
            out: Vec::new(),
            deadlines: BinaryHeap::new(),
            prefix,
            count: 0,
            heard: Instant::now(),
            is_probing: false,
            is_connected: false,
            is_open: false,
            was_open: false,
            can_cancel: true,
            closed: None,
            admission: Slot::default(),
            room_wakers: Vec::new(),
        }
    }

    // What is asked.

    /// Ready when another request may be made.
    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let has_room = self.pending.len() < REQUESTS_MAX && self.pending_bytes < REQUEST_BYTES_MAX;
        if has_room || self.closed.is_some() {
            return Poll::Ready(());
        }
        self.room_wakers.push(context.waker().clone());
        Poll::Pending
    }

    /// Makes a request, and returns its number.
    pub(crate) fn request(&mut self, request: &Request, slot: Slot) -> Result<u64, Error> {
        let number = self.add(request, Purpose::Caller(slot))?;
        if let Some(timeout) = request.timeout {
            // A deadline beyond what can be told is none.
            let at = Instant::now().checked_add(timeout.saturating_add(GRACE));
            self.deadlines.extend(at.map(|at| Reverse((at, number))));
        }
        self.write(number, false);
        Ok(number)
    }

    /// Tells an event.
    pub(crate) fn event(&mut self, event: &Request, slot: Slot) -> Result<u64, Error> {
        let number = self.add(event, Purpose::Event(slot))?;
        let ping = self.add(&ping(), Purpose::EventPing(number))?;
        self.write(number, false);
        self.write(ping, false);
        Ok(number)
    }

    /// The requester does not want the outcome any more.
    pub(crate) fn cancel(&mut self, number: u64) {
        let Some(pending) = self.remove(number) else { return };
        if let Purpose::Caller(slot) | Purpose::Event(slot) = &pending.purpose {
            slot.settle(Err(Error::Cancelled));
        }
        let is_request = matches!(pending.purpose, Purpose::Caller(_));
        if is_request && pending.is_written && self.is_open && self.can_cancel {
            let cancel = Request::command("Syscall.Cancel", &json!({ "id": pending.id }));
            self.own(&cancel, Purpose::Cancel);
        }
    }

    /// Gives rights up, on this connection and first of all on every later one.
    pub(crate) fn restrict(&mut self, wanted: Value, slot: Slot) -> Result<u64, Error> {
        let request = Request::command("Sys.Restrict", &wanted);
        let number = self.add(&request, Purpose::Restrict(wanted, slot))?;
        self.write(number, false);
        Ok(number)
    }

    /// Begins a watch; events come from the moment that this is answered.
    pub(crate) fn subscribe(&mut self, watch: &WatchState, slot: Slot) -> Result<u64, Error> {
        let request = Request::command("Sys.Subscribe", &json!({ "types": watch.types() }));
        let number = self.add(&request, Purpose::Subscribe(watch.clone(), slot))?;
        self.watches.push(watch.clone());
        self.write(number, false);
        Ok(number)
    }

    /// Ends a watch.
    pub(crate) fn unsubscribe(&mut self, watch: &WatchState) {
        let before = self.watches.len();
        self.watches.retain(|other| !other.is(watch));
        if self.watches.len() == before {
            return;
        }
        let was_live = watch.is_live();
        watch.end(None);
        let wanted: Vec<String> = self.watches.iter().flat_map(WatchState::types).collect();
        let unwanted: Vec<String> =
            watch.types().into_iter().filter(|pattern| !wanted.contains(pattern)).collect();
        if was_live && self.is_open && !unwanted.is_empty() {
            let request = Request::command("Sys.Unsubscribe", &json!({ "types": unwanted }));
            self.own(&request, Purpose::Unwatched);
        }
    }

    /// Adds a message to those that are waited for.
    fn add(&mut self, request: &Request, purpose: Purpose) -> Result<u64, Error> {
        if let Some(closed) = &self.closed {
            let reason = closed.to_string();
            return Err(Error::Closed { reason, started: Some(Started::No) });
        }
        let number = self.count;
        let id = request.id.clone().unwrap_or_else(|| format!("{}{number}", self.prefix));
        if self.numbers.contains_key(&id) {
            return Err(Error::Invalid(format!("a request with the id {id:?} is under way")));
        }
        let line = request.line(&id)?;
        self.count += 1;
        self.pending_bytes += line.len();
        self.numbers.insert(id.clone(), number);
        let type_name = request.type_name.clone();
        self.pending
            .insert(number, Pending { id, type_name, line, purpose, is_written: false, was_written: false });
        Ok(number)
    }

    /// A message of the client itself, which goes with its connection.
    fn own(&mut self, request: &Request, purpose: Purpose) {
        if let Ok(number) = self.add(request, purpose) {
            self.write(number, true);
        }
    }

    fn write(&mut self, number: u64, is_own: bool) {
        if !(self.is_open || (is_own && self.is_connected)) {
            return;
        }
        if self.pending.len() == 1 {
            // The daemon was not asked anything, and had no reason to speak.
            self.heard = Instant::now();
        }
        if let Some(pending) = self.pending.get_mut(&number) {
            (pending.is_written, pending.was_written) = (true, true);
            self.out.extend_from_slice(pending.line.as_bytes());
        }
    }

    fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        self.numbers.remove(&pending.id);
        self.pending_bytes -= pending.line.len();
        self.room_wakers.drain(..).for_each(Waker::wake);
        Some(pending)
    }

    // What comes and goes.

    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// What is to be written now.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Whether somebody waits for something.
    pub(crate) fn needs_connection(&self) -> bool {
        !self.pending.is_empty() || !self.watches.is_empty()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn was_open(&self) -> bool {
        self.was_open
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    pub(crate) fn admission(&self) -> Slot<Result<(), Error>> {
        self.admission.clone()
    }

    /// There is a connection. By TCP the token comes first, then what was given up, then everything
    /// else.
    pub(crate) fn opened(&mut self) {
        self.out.clear();
        self.is_probing = false;
        self.heard = Instant::now();
        self.is_connected = true;
        match &self.token {
            None => self.restrict_or_resume(),
            Some(token) => {
                self.out.extend_from_slice(format!("{}\n", json!({ "token": token })).as_bytes());
                self.own(&ping(), Purpose::Admission);
            }
        }
    }

    fn restrict_or_resume(&mut self) {
        match &self.restriction {
            None => self.resume(),
            Some(restriction) => {
                let request = Request::command("Sys.Restrict", restriction);
                self.own(&request, Purpose::RestrictAgain);
            }
        }
    }

    fn resume(&mut self) {
        (self.is_open, self.was_open) = (true, true);
        self.admission.settle(Ok(()));
        let live: Vec<WatchState> = self.watches.iter().filter(|watch| watch.is_live()).cloned().collect();
        if !live.is_empty() {
            let mut patterns: Vec<String> = live.iter().flat_map(WatchState::types).collect();
            patterns.sort_unstable();
            patterns.dedup();
            let request = Request::command("Sys.Subscribe", &json!({ "types": patterns }));
            self.own(&request, Purpose::SubscribeAgain(live));
        }
        for pending in self.pending.values_mut().filter(|pending| !pending.is_written) {
            (pending.is_written, pending.was_written) = (true, true);
            self.out.extend_from_slice(pending.line.as_bytes());
        }
    }

    /// The connection has ended. What may be repeated waits for the next one.
    pub(crate) fn lost(&mut self, error: Option<&Error>) {
        (self.is_open, self.is_connected, self.is_probing) = (false, false, false);
        self.out.clear();
        let mut over = Vec::new();
        for (number, pending) in &mut self.pending {
            let is_new =
                !pending.is_written && matches!(pending.purpose, Purpose::Event(_) | Purpose::EventPing(_));
            match pending.is_repeated() || is_new {
                true => pending.is_written = false,
                false => over.push(*number),
            }
        }
        for number in over {
            let Some(pending) = self.remove(number) else { continue };
            if let Purpose::Event(slot) = pending.purpose {
                let words =
                    format!("the connection ended before {} was known to be taken", pending.type_name);
                let reason = error.map_or_else(|| words.clone(), |error| format!("{words}: {error}"));
                slot.settle(Err(Error::closed(reason)));
            }
        }
    }

    /// There is no connection to be had: nobody need wait any longer. What is asked later tries
    /// again.
    pub(crate) fn give_up(&mut self, error: &ConnectError) {
        self.admission.settle(Err(error.clone().into()));
        self.end_all(&Error::Connect(error.clone()), true);
    }

    /// Ends everything, for good.
    pub(crate) fn close(&mut self, error: Option<Error>) {
        if self.closed.is_some() {
            return;
        }
        let is_fault = error.is_some();
        let error = error.unwrap_or_else(|| Error::closed("the client is closed"));
        self.closed = Some(error.clone());
        (self.is_open, self.is_connected) = (false, false);
        self.admission.settle(Err(error.clone()));
        self.end_all(&error, is_fault);
        self.room_wakers.drain(..).for_each(Waker::wake);
    }

    fn end_all(&mut self, error: &Error, is_fault: bool) {
        while let Some((&number, _)) = self.pending.first_key_value() {
            let Some(pending) = self.remove(number) else { continue };
            let started = if pending.was_written { None } else { Some(Started::No) };
            let error = Error::Closed { reason: error.to_string(), started };
            match pending.purpose {
                Purpose::Caller(slot)
                | Purpose::Event(slot)
                | Purpose::Subscribe(_, slot)
                | Purpose::Restrict(_, slot) => slot.settle(Err(error)),
                _ => {}
            }
        }
        for watch in self.watches.drain(..) {
            watch.end(is_fault.then(|| error.clone()));
        }
    }

    // Time.

    /// When `tick` must be called; `None` if nothing is waited for.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        if self.pending.is_empty() {
            return None;
        }
        while let Some(Reverse((_, number))) = self.deadlines.peek() {
            if self.pending.contains_key(number) {
                break;
            }
            self.deadlines.pop();
        }
        let silence = if self.is_probing { GRACE } else { SILENCE };
        let quiet = self.is_connected.then(|| self.heard + silence);
        let first = self.deadlines.peek().map(|Reverse((at, _))| *at);
        [quiet, first].into_iter().flatten().min()
    }

    /// Ends what is overdue. False: the daemon does not even answer a ping, and the connection is
    /// of no use.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        while let Some(Reverse((at, number))) = self.deadlines.peek().copied() {
            if at > now && self.pending.contains_key(&number) {
                break;
            }
            self.deadlines.pop();
            let Some(pending) = self.remove(number) else { continue };
            if let Purpose::Caller(slot) = pending.purpose {
                let type_name = pending.type_name;
                slot.settle(Err(Error::NoAnswer { type_name, grace_secs: GRACE.as_secs() }));
            }
        }
        if !self.is_connected || self.pending.is_empty() {
            return true;
        }
        if self.is_probing {
            return now < self.heard + GRACE;
        }
        if now >= self.heard + SILENCE {
            self.heard = now;
            self.is_probing = true;
            self.own(&ping(), Purpose::Probe);
        }
        true
    }
}

fn ping() -> Request {
    Request::new(Kind::Query, "Syscall.Ping", &())
}

/// What to answer whoever asked, from a reply or from the error in its place.
type Settled = Result<Reply, Error>;
