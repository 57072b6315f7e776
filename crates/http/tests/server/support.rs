//! A real kernel behind a real server, on a thread of its own, and a client that writes bytes.

use mainspring_http::{
    Access, Bus, Closed, Health, Inbox, Limits, Link, Options, Peer, Server, Session, Sessions, Token,
};
use mainspring_kernel::{
    ActorRef, BootPlan, Config, ConnectionId, Durable, Effect, Kernel, Manifest, Now, Rights, Source, Turn,
};
use mainspring_message::{Draft, Envelope, Kind};
use mainspring_reactor::{Handle, Interest, Reactor};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const TOKEN: &str = "secret";
/// The one-time token, and the session that it opens.
pub(crate) const ONCE: &str = "once";
pub(crate) const SESSION: &str = "session-1";

/// One session, opened once.
#[derive(Default)]
struct OneSession {
    is_open: Cell<bool>,
}

impl Sessions for OneSession {
    fn redeem(&self, once: &str) -> Option<Session> {
        let session = Session { token: SESSION.to_owned(), expires_at: 1 };
        (once == ONCE && !self.is_open.replace(true)).then_some(session)
    }

    fn peer(&self, session: &[u8]) -> Option<Peer> {
        (session == SESSION.as_bytes()).then(|| Peer { name: "owner".to_owned(), tag: 0 })
    }
}

/// A kernel with the capability `Test`, as a bus.
pub(crate) struct TestBus {
    kernel: RefCell<Kernel>,
    inboxes: RefCell<HashMap<u64, Rc<Inbox>>>,
    next: Cell<u64>,
    /// Facts so far; each is on disk at once.
    facts: Cell<u64>,
    reactor: Handle,
}

fn manifest() -> Manifest {
    let message = |kind: &str, name: &str, data: Value| json!({ "type": "object", "properties": { "kind": { "const": kind }, "type": { "const": name }, "data": data } });
    let manifest = json!({
        "id": "Test",
        "description": "Answers as the tests want it.",
        "concurrency": 64,
        "durable_events": true,
        "inbound": { "oneOf": [
            message("command", "Test.Echo", json!(true)),
            message("query", "Test.Echo", json!(true)),
            message("command", "Test.Add", json!({
                "type": "object", "required": ["a"], "properties": { "a": { "type": "integer" } },
            })),
            message("command", "Test.Fail", json!(true)),
            message("command", "Test.Never", json!(true)),
            message("query", "Test.Silent", json!(true)),
            message("event", "Test.Happened", json!({ "type": "object" })),
        ] },
        "outbound": { "oneOf": [
            message("reply", "Test.Echo", json!(true)),
            message("reply", "Test.Add", json!({ "type": "object" })),
            message("error", "Test.Fail", json!(true)),
            message("event", "Test.Added", json!({ "type": "object" })),
        ] },
    });
    serde_json::from_value(manifest).expect("a manifest")
}

impl TestBus {
    fn new(reactor: &Handle) -> Rc<TestBus> {
        let bus = Rc::new(TestBus {
            kernel: RefCell::new(Kernel::new(Config::default(), 7)),
            inboxes: RefCell::default(),
            next: Cell::new(1),
            facts: Cell::new(0),
            reactor: reactor.clone(),
        });
        let plan = BootPlan { capabilities: vec![manifest()], adapters: vec!["http".to_owned()] };
        bus.feed(|kernel, now| {
            kernel.restore(Durable::default(), now);
            kernel.boot(plan, now);
        });
        bus
    }

    fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Now { mono_ns: self.reactor.now().as_nanos(), unix_ms: unix.as_millis() as u64 }
    }

    pub(crate) fn feed(&self, input: impl FnOnce(&mut Kernel, Now)) {
        let now = self.now();
        input(&mut self.kernel.borrow_mut(), now);
        loop {
            let mut effects = Vec::new();
            let turn = {
                let mut kernel = self.kernel.borrow_mut();
                let turn = kernel.turn(now);
                kernel.drain_effects(&mut effects);
                turn
            };
            let idle = effects.is_empty() && turn != Turn::More;
            for effect in effects {
                self.carry_out(effect, now);
            }
            if idle {
                return;
            }
        }
    }

    fn carry_out(&self, effect: Effect, now: Now) {
        let with = |call: &mut dyn FnMut(&mut Kernel)| call(&mut self.kernel.borrow_mut());
        match effect {
            Effect::Deliver { actor, message } => self.act(actor, &message, now),
            Effect::Write { connection, message } => {
                let inbox = self.inboxes.borrow().get(&connection.0).cloned();
                match inbox {
                    Some(inbox) => inbox.push(message),
                    None => with(&mut |kernel| kernel.written(connection, message.line().len() + 1, now)),
                }
            }
            Effect::PauseReading { source: Source::Connection(id) } => self.pause(id, true),
            Effect::ResumeReading { source: Source::Connection(id) } => self.pause(id, false),
            Effect::Close { connection, reason } => {
                if let Some(inbox) = self.inboxes.borrow().get(&connection.0) {
                    inbox.close(Closed(reason.to_string()));
                }
            }
            Effect::Spawn { actor } => with(&mut |kernel| kernel.actor_spawned(actor, Ok(()), now)),
            Effect::Attach { actor } => with(&mut |kernel| kernel.actor_attached(actor, Ok(()), now)),
            Effect::StartAdapter { adapter } => {
                with(&mut |kernel| kernel.adapter_started(adapter, Ok("http".to_owned()), now));
            }
            Effect::Record(records) => {
                self.facts.set(self.facts.get() + records.iter().count() as u64);
                with(&mut |kernel| kernel.flushed(self.facts.get(), now));
            }
            Effect::CollectStats { ticket } => {
                with(&mut |kernel| kernel.stats_collected(ticket, json!({}).into(), now));
            }
            _ => {}
        }
    }

    fn pause(&self, id: ConnectionId, paused: bool) {
        if let Some(inbox) = self.inboxes.borrow().get(&id.0) {
            inbox.pause(paused);
        }
    }

    /// What the capability does.
    fn act(&self, actor: ActorRef, message: &Envelope, now: Now) {
        let say = |draft: Draft| self.kernel.borrow_mut().actor_message(actor, draft, now);
        match message.type_name() {
            "Test.Echo" => say(Draft::reply(message, message.data_json())),
            "Test.Add" => {
                say(Draft::caused_by(message, Kind::Event, "Test.Added", message.data_json()));
                say(Draft::reply(message, json!({ "ok": true }).into()));
            }
            "Test.Fail" => say(Draft::error(message, 418, "I am a teapot")),
            _ => {}
        }
    }
}

impl Bus for TestBus {
    fn open(&self, peer: &Peer, inbox: &Rc<Inbox>) -> Option<Link> {
        let link = self.next.replace(self.next.get() + 1);
        self.inboxes.borrow_mut().insert(link, Rc::clone(inbox));
        self.feed(|kernel, now| {
            kernel.connection_opened(ConnectionId(link), &peer.name, now);
            kernel.connection_has(ConnectionId(link), Rights::of_operator(), now);
        });
        Some(Link(link))
    }

    fn send(&self, link: Link, line: &[u8]) {
        self.feed(|kernel, now| kernel.ingest(ConnectionId(link.0), line, now));
    }

    fn written(&self, link: Link, bytes: usize) {
        self.feed(|kernel, now| kernel.written(ConnectionId(link.0), bytes, now));
    }

    fn owes(&self, link: Link) -> bool {
        self.kernel.borrow_mut().owes(ConnectionId(link.0))
    }

    fn close(&self, link: Link) {
        self.inboxes.borrow_mut().remove(&link.0);
        self.feed(|kernel, now| kernel.connection_closed(ConnectionId(link.0), now));
    }

    fn health(&self) -> Health {
        Health { checks: vec![("boot".to_owned(), Ok(()))] }
    }

    fn unix_ms(&self) -> u64 {
        self.now().unix_ms
    }

    fn new_id(&self) -> String {
        let id = self.next.replace(self.next.get() + 1);
        format!("id-{id}")
    }
}

/// A server on a thread of its own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: mainspring_reactor::Remote,
    thread: Option<JoinHandle<()>>,
}

/// What the numbers of the kernel and of the server are when all clients have left.
pub(crate) fn start(limits: Limits) -> Running {
    start_with(limits, None)
}

pub(crate) fn start_with(limits: Limits, tls: Option<mainspring_http::tls::Tls>) -> Running {
    let (told, tell) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut reactor = Reactor::new().expect("a reactor");
        let bus = TestBus::new(&reactor);
        let access = Access::Tokens {
            tokens: vec![Token::new(Peer { name: "ann".into(), tag: 0 }, TOKEN)],
            hosts: Vec::new(),
        };
        let options = Options {
            access,
            limits,
            tls,
            version: "1.2.3".to_owned(),
            sessions: Some(Rc::new(OneSession::default())),
        };
        let server = Rc::new(Server::new(&reactor, bus.clone(), options));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("an address");
        let fd = listener.as_raw_fd();
        reactor
            .watch_raw(fd, ())
            .start_with(Interest::READ, move |(), _| {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true).expect("a socket that does not block");
                    server.welcome(OwnedFd::from(socket)).expect("a place");
                }
            })
            .expect("a watch");
        // Timeouts of the kernel: in a daemon its next deadline has a timer.
        let ticking = Rc::clone(&bus);
        reactor.every(Duration::from_millis(10), move |_| ticking.feed(|_, _| ())).expect("a timer");
        told.send((address, reactor.remote())).expect("somebody waits");
        reactor.run().expect("a run");
    });
    let (address, stop) = tell.recv().expect("a server");
    Running { address, stop, thread: Some(thread) }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("a thread").expect("the server did not panic");
        }
    }
}

/// A response as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// A client that writes what it is told.
pub(crate) struct Client<S: Read + Write> {
    pub(crate) stream: BufReader<S>,
}

pub(crate) fn connect(running: &Running) -> Client<TcpStream> {
    let stream = TcpStream::connect(running.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    Client { stream: BufReader::new(stream) }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("written");
    }

    /// Sends a request with the token.
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.write(request(method, path, headers, body).as_bytes());
        self.read_answer()
    }

    /// A request without a token, unless the headers have one.
    pub(crate) fn raw(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let (length, head) =
            (body.len(), format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}"));
        self.write(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes());
        self.read_answer()
    }

    pub(crate) fn read_head(&mut self) -> (u16, HashMap<String, String>) {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a status line");
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().expect("a status");
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("a header");
            let Some((name, value)) = line.trim_end().split_once(':') else { return (status, headers) };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    pub(crate) fn read_chunk(&mut self) -> Vec<u8> {
        let mut size = String::new();
        self.stream.read_line(&mut size).expect("a size");
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|_| panic!("{size:?}"));
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).expect("a chunk");
        chunk.truncate(size);
        chunk
    }

    pub(crate) fn read_answer(&mut self) -> Answer {
        let (status, headers) = self.read_head();
        let mut body = Vec::new();
        if headers.contains_key("transfer-encoding") {
            loop {
                let chunk = self.read_chunk();
                if chunk.is_empty() {
                    break;
                }
                body.extend(chunk);
            }
        } else {
            let length = headers.get("content-length").map_or(0, |text| text.parse().expect("a length"));
            body.resize(length, 0);
            self.stream.read_exact(&mut body).expect("a body");
        }
        Answer { status, headers, body }
    }

    /// Whether the server has closed.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A request with the token, as bytes.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
