//! What the tests share: a host, and a guest that does what it is told.
#![allow(dead_code, unreachable_pub)]

use mainspring_host::{
    Exit, GuestConfig, GuestHandle, Host, HostConfig, PipeReader, PipeWriter, Program, Stdin, Stdout, pipe,
};
use mainspring_reactor::{Async, Backend, Builder, Handle, VirtualClock};
use mainspring_zcl::cap::{CapOpen, TcpOpen};
use mainspring_zcl::sys_loop::{
    Event, Poll, PollResponse, Readiness, TIMEOUT_FOREVER, TimerArm, TimerCancel, Unwatch, Watch,
};
use mainspring_zcl::{ErrorPayload, Frame, STATUS_OK};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

/// Long enough for anything but a hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where commands put what the guest passes to calls.
pub const AT: u32 = 0x2_0000;
/// Where calls put what the guest gets.
pub const OUT: u32 = 0x10_0000;
/// Bytes of the guest's memory at the start.
pub const MEMORY_BYTES: u64 = 32 * 65_536;

pub const OK: i64 = 0;
pub const INVALID: i64 = -1;
pub const BOUNDS: i64 = -2;
pub const NOENT: i64 = -3;
pub const DENIED: i64 = -4;
pub const CLOSED: i64 = -5;
pub const AGAIN: i64 = -6;
pub const NOSYS: i64 = -7;
pub const OOM: i64 = -8;
pub const IO: i64 = -9;

pub const READABLE: Readiness = Readiness::READABLE;
pub const WRITABLE: Readiness = Readiness::WRITABLE;
pub const HANGUP: Readiness = Readiness::HANGUP;
pub const ERROR: Readiness = Readiness::ERROR;

/// One host for all tests of a file: guests of different tests live on different loops.
pub fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let mut config = HostConfig::default();
        config.guests_max = 256;
        config.build().expect("a host")
    })
}

/// Compiles a guest from text.
pub fn program(text: &str) -> Program {
    host().compile(&wat::parse_str(text).expect("valid text")).expect("a valid guest")
}

fn puppet() -> &'static Program {
    static PUPPET: OnceLock<Program> = OnceLock::new();
    PUPPET.get_or_init(|| puppet_of(host()))
}

/// The guest that does what it is told, compiled by a host.
pub fn puppet_of(host: &Host) -> Program {
    let open = CapOpen {
        kind_ptr: 0x180,
        kind_len: 3,
        name_ptr: 0x183,
        name_len: 4,
        mode: 0,
        params_ptr: 0,
        params_len: 0,
    };
    let watch = Watch { handle: 0, events: READABLE, watch_id: 1 };
    let poll = Poll { max_events: 1, timeout_ms: TIMEOUT_FOREVER };
    let text = include_str!("puppet.wat")
        .replace("{OPEN}", &escaped(&open.encode()))
        .replace("{WATCH}", &escaped(&watch.to_frame(1)))
        .replace("{POLL}", &escaped(&poll.to_frame(2)));
    host.compile(&wat::parse_str(text).expect("valid text")).expect("a valid guest")
}

/// Bytes as a string of the text format.
pub fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}

/// Runs a test on a loop of its own, in real time: once on each backend.
pub fn run(test: impl AsyncFn(Handle)) {
    for backend in [Backend::Epoll, Backend::Poll] {
        let mut reactor = Builder::new().backend(backend).build().expect("a reactor");
        let handle = reactor.handle();
        let outcome =
            reactor.block_on(handle.clone().timeout(PATIENCE, test(handle))).expect("the loop works");
        outcome.unwrap_or_else(|_| panic!("the test ends in time on {backend}"));
    }
}

/// Runs a test on a loop whose time is virtual: it jumps to the next deadline whenever nothing else
/// is to be done.
pub fn run_virtually(test: impl AsyncFnOnce(Handle, VirtualClock)) {
    let clock = VirtualClock::new();
    let mut reactor = Builder::new().virtual_clock(&clock).build().expect("a reactor");
    let handle = reactor.handle();
    reactor.block_on(test(handle, clock)).expect("the loop works");
}

/// A policy that lets guests talk to this machine.
pub fn with_loopback() -> GuestConfig {
    let mut config = GuestConfig::new();
    config.network.allow_connect("loopback").unwrap();
    config.network.allow_listen("loopback").unwrap();
    config
}

/// What the guest is asked to call.
#[derive(Clone, Copy, Default)]
pub struct Command<'a> {
    pub op: u32,
    pub arguments: [i64; 4],
    /// Put into the guest's memory first.
    pub data: &'a [u8],
    pub data_at: u32,
    /// Taken out of the guest's memory afterwards.
    pub out: Output,
}

#[derive(Clone, Copy, Default)]
pub enum Output {
    #[default]
    None,
    /// As many bytes as the call returned.
    Returned(u32),
    /// So many bytes.
    Fixed(u32, u32),
}

pub const OP_ABI_VERSION: u32 = 0;
pub const OP_CTL: u32 = 1;
pub const OP_READ: u32 = 2;
pub const OP_WRITE: u32 = 3;
pub const OP_END: u32 = 4;
pub const OP_ALLOC: u32 = 5;
pub const OP_FREE: u32 = 6;
pub const OP_TELEMETRY: u32 = 7;
pub const OP_CAP_COUNT: u32 = 8;
pub const OP_CAP_GET_SIZE: u32 = 9;
pub const OP_CAP_GET: u32 = 10;
pub const OP_CAP_OPEN: u32 = 11;
pub const OP_HFLAGS: u32 = 12;
pub const OP_SPIN: u32 = 13;
pub const OP_GROW: u32 = 14;
pub const OP_TRAP: u32 = 15;
pub const OP_SPIN_A_WHILE: u32 = 16;
pub const OP_OPEN_AND_CLOSE: u32 = 17;

/// A guest that does what it is told.
pub struct Puppet {
    pub guest: GuestHandle,
    input: PipeWriter,
    output: PipeReader,
}

/// The answer to a request on a loop handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok { op: u16, rid: u32, payload: Vec<u8> },
    Error { op: u16, rid: u32, trace: String, message: String },
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        matches!(self, Answer::Ok { .. })
    }

    /// What an error says.
    #[track_caller]
    pub fn message(&self) -> &str {
        match self {
            Answer::Error { message, .. } => message,
            Answer::Ok { .. } => panic!("not an error: {self:?}"),
        }
    }

    pub fn decode(bytes: &[u8]) -> Answer {
        let (frame, rest) = Frame::decode(bytes).expect("a valid frame").expect("a whole frame");
        assert!(rest.is_empty(), "one answer to one request");
        if frame.status == STATUS_OK {
            return Answer::Ok { op: frame.op, rid: frame.rid, payload: frame.payload.to_vec() };
        }
        let error = ErrorPayload::decode(frame.payload).expect("a valid error payload");
        assert_eq!(error.len(), frame.payload.len(), "error payloads are exact");
        Answer::Error {
            op: frame.op,
            rid: frame.rid,
            trace: error.trace.into(),
            message: error.message.into(),
        }
    }
}

/// The answer to a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    pub more: bool,
    pub events: Vec<Event>,
}

impl Polled {
    /// The ids of the events, in order.
    pub fn ids(&self) -> Vec<u64> {
        let id = |event: &Event| match *event {
            Event::Ready { watch_id, .. } => watch_id,
            Event::Timer { timer_id, .. } => timer_id,
        };
        self.events.iter().map(id).collect()
    }

    /// What is ready about a watch.
    #[track_caller]
    pub fn ready(&self, wanted: u64) -> Readiness {
        let found = self.events.iter().find_map(|event| match *event {
            Event::Ready { watch_id, events, .. } if watch_id == wanted => Some(events),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("nothing about watch {wanted} in {self:?}"))
    }
}

impl Puppet {
    pub fn start(handle: &Handle) -> Puppet {
        Puppet::start_with(handle, GuestConfig::new())
    }

    pub fn start_with(handle: &Handle, config: GuestConfig) -> Puppet {
        Puppet::start_on(host(), puppet(), handle, config)
    }

    /// Starts it on another host than that of all tests.
    pub fn start_on(host: &Host, program: &Program, handle: &Handle, mut config: GuestConfig) -> Puppet {
        let (input, stdin) = pipe(1 << 20);
        let (stdout, output) = pipe(4 << 20);
        config.stdin = Stdin::Pipe(stdin);
        config.stdout = Stdout::Pipe(stdout);
        let guest = host.spawn(handle, program, config).expect("a guest");
        Puppet { guest, input, output }
    }

    /// Tells the guest what to do, without waiting for it.
    pub async fn order(&self, command: Command<'_>) {
        let (mode, out_at, out_length) = match command.out {
            Output::None => (0u32, 0, 0),
            Output::Returned(at) => (1, at, 0),
            Output::Fixed(at, length) => (2, at, length),
        };
        let mut bytes = Vec::new();
        let length = command.data.len() as u32;
        for number in [command.op, command.data_at, length, out_at, out_length, mode] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for argument in command.arguments {
            bytes.extend_from_slice(&argument.to_le_bytes());
        }
        bytes.extend_from_slice(command.data);
        assert!(self.input.write_all(&bytes).await, "the guest is alive");
    }

    /// Waits for what the guest was last told to do.
    pub async fn outcome(&self) -> (i64, Vec<u8>) {
        let header = self.read_exact(12).await;
        let result = i64::from_le_bytes(header[..8].try_into().unwrap());
        let length = u32::from_le_bytes(header[8..].try_into().unwrap());
        (result, self.read_exact(length as usize).await)
    }

    async fn read_exact(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut have = 0;
        while have < length {
            let count = self.output.read(&mut bytes[have..]).await;
            assert!(count > 0, "the guest ended: {:?}", self.guest.exit_now());
            have += count;
        }
        bytes
    }

    pub async fn call(&self, command: Command<'_>) -> (i64, Vec<u8>) {
        self.order(command).await;
        self.outcome().await
    }

    /// Makes a call that takes numbers only.
    pub async fn plain(&self, op: u32, arguments: [i64; 4]) -> i64 {
        self.call(Command { op, arguments, ..Command::default() }).await.0
    }

    pub async fn end(&self, handle: i64) -> i64 {
        self.plain(OP_END, [handle, 0, 0, 0]).await
    }

    /// The structure that opening takes, with everything it points to, for `AT`.
    pub fn opening(kind: &str, name: &str, params: &[u8]) -> Vec<u8> {
        let strings = u64::from(AT) + CapOpen::BYTES as u64;
        let open = CapOpen {
            kind_ptr: strings,
            kind_len: kind.len() as u32,
            name_ptr: strings + kind.len() as u64,
            name_len: name.len() as u32,
            mode: 0,
            params_ptr: strings + (kind.len() + name.len()) as u64,
            params_len: params.len() as u32,
        };
        [&open.encode()[..], kind.as_bytes(), name.as_bytes(), params].concat()
    }

    pub async fn open(&self, kind: &str, name: &str, params: &[u8]) -> i64 {
        let data = Puppet::opening(kind, name, params);
        let arguments = [i64::from(AT), 0, 0, 0];
        self.call(Command { op: OP_CAP_OPEN, arguments, data: &data, data_at: AT, out: Output::None }).await.0
    }

    pub async fn open_loop(&self) -> i64 {
        let handle = self.open("sys", "loop", &[]).await;
        assert!(handle >= 3, "opened: {handle}");
        handle
    }

    /// Opens a connection or a listener.
    pub async fn open_tcp(&self, host: &str, port: u16, flags: u32) -> i64 {
        // The name goes behind everything else.
        let host_at = AT + 0x1000;
        let name =
            Command { op: OP_ABI_VERSION, data: host.as_bytes(), data_at: host_at, ..Command::default() };
        self.call(name).await;
        let params = TcpOpen {
            host_ptr: u64::from(host_at),
            host_len: host.len() as u32,
            port: u32::from(port),
            flags,
            backlog: 0,
            out_port_ptr: if flags & 1 != 0 { u64::from(OUT) } else { 0 },
        };
        self.open("net", "tcp", &params.encode()).await
    }

    /// Opens a listener and says where it listens.
    pub async fn listen(&self) -> (i64, u16) {
        let handle = self.open_tcp("127.0.0.1", 0, 1).await;
        assert!(handle >= 3, "listening: {handle}");
        let look = Command { op: OP_ABI_VERSION, out: Output::Fixed(OUT, 4), ..Command::default() };
        let (_, port) = self.call(look).await;
        (handle, u32::from_le_bytes(port.try_into().unwrap()) as u16)
    }

    /// Connects the guest to the test: the guest's handle, and the other end.
    pub async fn connect(&self, handle: &Handle) -> (i64, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connection = self.open_tcp("127.0.0.1", port, 0).await;
        assert!(connection >= 3, "connecting: {connection}");
        listener.set_nonblocking(true).unwrap();
        let listener = Async::new(handle, listener).unwrap();
        let (stream, _) = listener.read_with(TcpListener::accept).await.unwrap();
        stream.set_nonblocking(true).unwrap();
        (connection, stream)
    }

    pub async fn write(&self, handle: i64, bytes: &[u8]) -> i64 {
        let arguments = [handle, i64::from(AT), bytes.len() as i64, 0];
        self.call(Command { op: OP_WRITE, arguments, data: bytes, data_at: AT, out: Output::None }).await.0
    }

    pub async fn read(&self, handle: i64, capacity: u32) -> Result<Vec<u8>, i64> {
        let arguments = [handle, i64::from(OUT), i64::from(capacity), 0];
        let command = Command { op: OP_READ, arguments, out: Output::Returned(OUT), ..Command::default() };
        let (result, bytes) = self.call(command).await;
        if result < 0 { Err(result) } else { Ok(bytes) }
    }

    /// Writes a request to a loop and reads the answer.
    pub async fn request(&self, target: i64, frame: &[u8]) -> Answer {
        assert_eq!(self.write(target, frame).await, frame.len() as i64, "the loop takes the whole request");
        Answer::decode(&self.read(target, 65_536).await.expect("there is an answer"))
    }

    pub async fn watch(&self, target: i64, handle: i64, events: Readiness, watch_id: u64) -> Answer {
        let watch = Watch { handle: handle as u32, events, watch_id };
        self.request(target, &watch.to_frame(11)).await
    }

    pub async fn unwatch(&self, target: i64, watch_id: u64) -> Answer {
        self.request(target, &Unwatch { watch_id }.to_frame(12)).await
    }

    /// Arms a timer that counts from now.
    pub async fn arm(&self, target: i64, timer_id: u64, delay: Duration, interval: Duration) -> Answer {
        let arm = TimerArm {
            timer_id,
            due_mono_ns: delay.as_nanos() as u64,
            interval_ns: interval.as_nanos() as u64,
            relative: true,
        };
        self.request(target, &arm.to_frame(13)).await
    }

    pub async fn cancel(&self, target: i64, timer_id: u64) -> Answer {
        self.request(target, &TimerCancel { timer_id }.to_frame(14)).await
    }

    pub async fn poll(&self, target: i64, max_events: u32, timeout_ms: u32) -> Polled {
        let answer = self.request(target, &Poll { max_events, timeout_ms }.to_frame(15)).await;
        let Answer::Ok { op: 5, rid: 15, payload } = answer else { panic!("polled: {answer:?}") };
        let response = PollResponse::decode(&payload).expect("a valid response");
        let events = response.events().collect::<Result<_, _>>().expect("valid events");
        Polled { more: response.more, events }
    }

    /// Starts a poll and does not wait for it.
    pub async fn start_poll(&self, target: i64, max_events: u32, timeout_ms: u32) {
        let frame = Poll { max_events, timeout_ms }.to_frame(15);
        let arguments = [target, i64::from(AT), frame.len() as i64, 0];
        self.order(Command { op: OP_WRITE, arguments, data: &frame, data_at: AT, out: Output::None }).await;
    }

    /// Ends a poll that was started.
    pub async fn finish_poll(&self, target: i64) -> Polled {
        assert_eq!(self.outcome().await.0, Poll::FRAME_BYTES as i64);
        let answer = Answer::decode(&self.read(target, 65_536).await.expect("there is an answer"));
        let Answer::Ok { payload, .. } = answer else { panic!("polled: {answer:?}") };
        let response = PollResponse::decode(&payload).expect("a valid response");
        let events = response.events().collect::<Result<_, _>>().expect("valid events");
        Polled { more: response.more, events }
    }

    /// Lets the guest end.
    pub async fn finish(self) -> Exit {
        let Puppet { guest, input, output } = self;
        drop(input);
        let exit = guest.exit().await;
        drop(output);
        exit
    }
}

/// Waits until a condition holds, a turn of the loop at a time.
pub async fn until(handle: &Handle, mut condition: impl FnMut() -> bool) {
    while !condition() {
        handle.sleep(Duration::from_micros(200)).await.unwrap();
    }
}

/// Reads whatever has arrived at the test's end of a connection.
pub fn drain(stream: &mut TcpStream) -> usize {
    let (mut total, mut buffer) = (0, vec![0; 65_536]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return total,
            Ok(count) => total += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return total,
            Err(error) => panic!("{error}"),
        }
    }
}
