//! A host in memory: virtual time, streams made of queues, and a script of what happens while the
//! guest waits.

use mainspring_guest::backend::{Backend, Installed, install};
use mainspring_guest::zi::ErrorCode;
use mainspring_zcl::cap::{AcceptRecord, TcpOpen, tcp_flags};
use mainspring_zcl::info::{OP_RANDOM_SEED, OP_TIME_NOW, RandomSeed, TimeNow};
use mainspring_zcl::sys_loop::{Event, PollResponse, Readiness, Request, TIMEOUT_FOREVER};
use mainspring_zcl::{Frame, Header, STATUS_OK};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The time of day, which stands still.
const REALTIME_NS: u64 = 5_000_000;

/// What a handle is.
enum Entry {
    Loop { answers: VecDeque<u8> },
    Info { answers: VecDeque<u8> },
    Stream(Stream),
    Listener { records: VecDeque<u8> },
}

/// One connection or standard stream, seen from outside.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) incoming: VecDeque<u8>,
    pub(crate) ended: bool,
    pub(crate) outgoing: Vec<u8>,
    /// How many bytes a write may still take.
    pub(crate) room: usize,
}

type Step = Box<dyn FnOnce(&Host)>;

/// The host.
#[derive(Default)]
pub(crate) struct Host {
    entries: RefCell<BTreeMap<i32, Entry>>,
    watches: RefCell<BTreeMap<u64, (i32, Readiness)>>,
    timers: RefCell<BTreeMap<u64, u64>>,
    now_ns: Cell<u64>,
    /// What happens, one step per POLL that would otherwise wait.
    script: RefCell<VecDeque<Step>>,
    refuse_watches: Cell<bool>,
    /// What the guest asked of its loop.
    pub(crate) polls: Cell<u32>,
    pub(crate) zero_polls: Cell<u32>,
    /// Those that waited and brought nothing.
    pub(crate) empty_polls: Cell<u32>,
    pub(crate) watch_requests: Cell<u32>,
    pub(crate) timer_requests: Cell<u32>,
    pub(crate) clock_requests: Cell<u32>,
    /// Every `zi_*` call.
    pub(crate) calls: Cell<u32>,
}

fn bump(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

impl Host {
    /// A host with empty standard streams, installed on this thread.
    pub(crate) fn start() -> (Rc<Host>, Installed) {
        let host = Rc::new(Host::default());
        host.now_ns.set(1_000_000);
        for number in 0..3 {
            host.entries
                .borrow_mut()
                .insert(number, Entry::Stream(Stream { room: 1 << 20, ..Stream::default() }));
        }
        let installed = install(host.clone());
        (host, installed)
    }

    /// Adds a step of the script.
    pub(crate) fn then(&self, step: impl FnOnce(&Host) + 'static) -> &Host {
        self.script.borrow_mut().push_back(Box::new(step));
        self
    }

    pub(crate) fn with_stream<T>(&self, handle: i32, work: impl FnOnce(&mut Stream) -> T) -> T {
        match self.entries.borrow_mut().get_mut(&handle) {
            Some(Entry::Stream(stream)) => work(stream),
            _ => panic!("{handle} is not a stream"),
        }
    }

    /// Bytes arrive at a stream.
    pub(crate) fn deliver(&self, handle: i32, bytes: &[u8]) {
        self.with_stream(handle, |stream| stream.incoming.extend(bytes));
    }

    pub(crate) fn written(&self, handle: i32) -> Vec<u8> {
        self.with_stream(handle, |stream| stream.outgoing.clone())
    }

    /// A peer connects to the listener; returns the connection's handle.
    pub(crate) fn connect_to(&self, listener: i32) -> i32 {
        let handle = self.insert(Entry::Stream(Stream { room: 1 << 20, ..Stream::default() }));
        let record =
            AcceptRecord { handle: handle as u32, peer_port: 1234, peer_address: [0; 16], local_port: 7 };
        match self.entries.borrow_mut().get_mut(&listener) {
            Some(Entry::Listener { records }) => records.extend(record.encode()),
            _ => panic!("{listener} is not a listener"),
        }
        handle
    }

    pub(crate) fn refuse_watches(&self) {
        self.refuse_watches.set(true);
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn installed_watches(&self) -> usize {
        self.watches.borrow().len()
    }

    fn insert(&self, entry: Entry) -> i32 {
        let mut entries = self.entries.borrow_mut();
        let handle = (3..).find(|handle| !entries.contains_key(handle)).unwrap_or(3);
        entries.insert(handle, entry);
        handle
    }

    fn readiness(&self, handle: i32) -> Readiness {
        match self.entries.borrow().get(&handle) {
            Some(Entry::Stream(stream)) => {
                let readable = stream.ended || !stream.incoming.is_empty();
                let read = if readable { Readiness::READABLE } else { Readiness::NONE };
                if stream.room > 0 { read | Readiness::WRITABLE } else { read }
            }
            Some(Entry::Listener { records }) if !records.is_empty() => Readiness::READABLE,
            _ => Readiness::NONE,
        }
    }

    fn request(&self, frame: &Frame<'_>) -> Vec<u8> {
        let acknowledge =
            |status| Header { op: frame.op, rid: frame.rid, status, payload_len: 0 }.encode().to_vec();
        match Request::decode(frame).expect("guests write well-formed requests") {
            Request::Watch(watch) => {
                bump(&self.watch_requests);
                if self.refuse_watches.get() {
                    return acknowledge(0);
                }
                let watched = (watch.handle as i32, watch.events);
                assert!(self.watches.borrow_mut().insert(watch.watch_id, watched).is_none(), "watched twice");
                acknowledge(STATUS_OK)
            }
            Request::Unwatch(unwatch) => {
                bump(&self.watch_requests);
                let known = self.watches.borrow_mut().remove(&unwatch.watch_id).is_some();
                acknowledge(u32::from(known))
            }
            Request::TimerArm(timer) => {
                bump(&self.timer_requests);
                let due = timer.due_mono_ns + if timer.relative { self.now_ns.get() } else { 0 };
                assert!(self.timers.borrow_mut().insert(timer.timer_id, due).is_none(), "armed twice");
                acknowledge(STATUS_OK)
            }
            Request::TimerCancel(timer) => {
                bump(&self.timer_requests);
                let known = self.timers.borrow_mut().remove(&timer.timer_id).is_some();
                acknowledge(u32::from(known))
            }
            Request::Poll(poll) => {
                bump(&self.polls);
                if poll.timeout_ms == 0 {
                    bump(&self.zero_polls);
                }
                let mut events = self.wait(poll.timeout_ms == TIMEOUT_FOREVER);
                if events.is_empty() && poll.timeout_ms > 0 {
                    bump(&self.empty_polls);
                }
                events.truncate(poll.max_events as usize);
                let mut bytes = vec![0; PollResponse::frame_bytes(events.len())];
                PollResponse::encode_frame(frame.rid, false, &events, &mut bytes).expect("it fits");
                bytes
            }
        }
    }

    /// Plays the script, then the clock, until there is an event; none left is a shutdown.
    fn wait(&self, forever: bool) -> Vec<Event> {
        loop {
            let events = self.events();
            if !events.is_empty() || !forever {
                return events;
            }
            let step = self.script.borrow_mut().pop_front();
            if let Some(step) = step {
                step(self);
                continue;
            }
            let Some(&due) = self.timers.borrow().values().min() else { return Vec::new() };
            self.now_ns.set(due.max(self.now_ns.get()));
        }
    }

    fn events(&self) -> Vec<Event> {
        let now_mono_ns = self.now_ns.get();
        let mut events = Vec::new();
        for (&watch_id, &(handle, wanted)) in self.watches.borrow().iter() {
            let ready = self.readiness(handle).intersection(wanted);
            if !ready.is_empty() {
                events.push(Event::Ready { watch_id, handle: handle as u32, events: ready });
            }
        }
        self.timers.borrow_mut().retain(|&timer_id, &mut due| {
            if due <= now_mono_ns {
                events.push(Event::Timer { timer_id, now_mono_ns });
            }
            due > now_mono_ns
        });
        events
    }

    fn write_frames(&self, bytes: &[u8], answer: impl Fn(&Frame<'_>) -> Vec<u8>) -> Vec<u8> {
        let mut rest = bytes;
        let mut answers = Vec::new();
        while let Some((frame, after)) = Frame::decode(rest).expect("guests write frames") {
            answers.extend(answer(&frame));
            rest = after;
        }
        assert!(rest.is_empty(), "guests write whole frames");
        answers
    }
}

fn take(queue: &mut VecDeque<u8>, buffer: &mut [u8]) -> i32 {
    let count = queue.len().min(buffer.len());
    for (place, byte) in buffer.iter_mut().zip(queue.drain(..count)) {
        *place = byte;
    }
    count as i32
}

const AGAIN: i32 = ErrorCode::Again.as_raw();

impl Backend for Host {
    fn read(&self, handle: i32, buffer: &mut [u8]) -> i32 {
        bump(&self.calls);
        match self.entries.borrow_mut().get_mut(&handle) {
            Some(Entry::Loop { answers } | Entry::Info { answers }) if answers.is_empty() => AGAIN,
            Some(Entry::Loop { answers } | Entry::Info { answers }) => take(answers, buffer),
            Some(Entry::Stream(stream)) if stream.incoming.is_empty() => {
                if stream.ended {
                    0
                } else {
                    AGAIN
                }
            }
            Some(Entry::Stream(stream)) => take(&mut stream.incoming, buffer),
            Some(Entry::Listener { records }) if records.is_empty() => AGAIN,
            Some(Entry::Listener { records }) => take(records, buffer),
            None => ErrorCode::NoSys.as_raw(),
        }
    }

    fn write(&self, handle: i32, bytes: &[u8]) -> i32 {
        bump(&self.calls);
        let is_loop = matches!(self.entries.borrow().get(&handle), Some(Entry::Loop { .. }));
        let is_info = matches!(self.entries.borrow().get(&handle), Some(Entry::Info { .. }));
        if is_loop || is_info {
            let produced = self.write_frames(bytes, |frame| {
                if is_loop {
                    return self.request(frame);
                }
                let payload = match frame.op {
                    OP_TIME_NOW => {
                        bump(&self.clock_requests);
                        let (realtime_ns, monotonic_ns) = (REALTIME_NS, self.now_ns.get());
                        TimeNow { realtime_ns, monotonic_ns }.encode().to_vec()
                    }
                    OP_RANDOM_SEED => RandomSeed([7; RandomSeed::SEED_BYTES]).encode().to_vec(),
                    op => panic!("{op} is not a question"),
                };
                let payload_len = payload.len() as u32;
                let header = Header { op: frame.op, rid: frame.rid, status: STATUS_OK, payload_len };
                [header.encode().as_slice(), &payload].concat()
            });
            if let Some(Entry::Loop { answers } | Entry::Info { answers }) =
                self.entries.borrow_mut().get_mut(&handle)
            {
                answers.extend(produced);
            }
            return bytes.len() as i32;
        }
        match self.entries.borrow_mut().get_mut(&handle) {
            Some(Entry::Stream(stream)) if stream.room == 0 => AGAIN,
            Some(Entry::Stream(stream)) => {
                let count = bytes.len().min(stream.room);
                stream.outgoing.extend(&bytes[..count]);
                stream.room -= count;
                count as i32
            }
            _ => ErrorCode::NoSys.as_raw(),
        }
    }

    fn end(&self, handle: i32) -> i32 {
        bump(&self.calls);
        self.watches.borrow_mut().retain(|_, watch| watch.0 != handle);
        let known = self.entries.borrow_mut().remove(&handle).is_some();
        if known { 0 } else { ErrorCode::Closed.as_raw() }
    }

    fn cap_open(&self, kind: &str, name: &str, parameters: &[u8]) -> i32 {
        bump(&self.calls);
        match (kind, name) {
            ("sys", "loop") => self.insert(Entry::Loop { answers: VecDeque::new() }),
            ("sys", "info") => self.insert(Entry::Info { answers: VecDeque::new() }),
            ("net", "tcp") => {
                let parameters = TcpOpen::decode(parameters).expect("well-formed parameters");
                if parameters.flags & tcp_flags::LISTEN != 0 {
                    // SAFETY: the guest passes the address of a live number.
                    unsafe { (parameters.out_port_ptr as *mut u32).write(7) };
                    self.insert(Entry::Listener { records: VecDeque::new() })
                } else {
                    self.insert(Entry::Stream(Stream::default()))
                }
            }
            _ => ErrorCode::NoEntry.as_raw(),
        }
    }
}
