//! Bytes of an HTTP client: whatever they are, what reaches the bus is a message, and what comes
//! back is HTTP.

use mainspring_http::{Access, Bus, Health, Inbox, Limits, Link, Options, Peer, Server};
use mainspring_message::{Draft, Envelope, Kind};
use mainspring_reactor::{Builder, Reactor, VirtualClock};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// Turns of the loop for one input.
const TURNS_MAX: usize = 60;

pub(crate) fn run(bytes: &[u8]) {
    let mut reactor = Builder::new().virtual_clock(&VirtualClock::new()).build().expect("a reactor");
    let options = Options {
        access: Access::Everybody(Peer { name: "user:1000".into(), tag: 0 }),
        limits: Limits::default(),
        tls: None,
        version: "0.1.0".to_owned(),
        sessions: None,
    };
    let server = Server::new(&reactor, Rc::new(EchoBus::default()), options);
    let (mut client, socket) = UnixStream::pair().expect("a pair of sockets");
    socket.set_nonblocking(true).expect("a socket that does not block");
    client.set_nonblocking(true).expect("a socket that does not block");
    server.welcome(socket.into()).expect("a guest");
    // More than the sockets hold is not of interest.
    let _ = client.write(bytes);
    turn(&mut reactor, TURNS_MAX / 2);
    let _ = client.shutdown(Shutdown::Write);
    turn(&mut reactor, TURNS_MAX / 2);
    let mut answer = vec![0; 64 << 10];
    let count = client.read(&mut answer).unwrap_or(0);
    assert!(count == 0 || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer[..count]));
}

fn turn(reactor: &mut Reactor, turns: usize) {
    for _ in 0..turns {
        reactor.poll(Some(Duration::ZERO)).expect("a turn");
    }
}

/// A bus that answers every request with its own data.
#[derive(Default)]
struct EchoBus {
    inboxes: RefCell<HashMap<u64, Rc<Inbox>>>,
    next: Cell<u64>,
}

impl Bus for EchoBus {
    fn open(&self, _peer: &Peer, inbox: &Rc<Inbox>) -> Option<Link> {
        let link = self.next.replace(self.next.get() + 1);
        self.inboxes.borrow_mut().insert(link, Rc::clone(inbox));
        Some(Link(link))
    }

    fn send(&self, link: Link, line: &[u8]) {
        // Lines that a client wrote itself (`/v1/messages`) may be anything; the kernel refuses
        // them.
        let Ok(message) = Envelope::parse(line) else { return };
        assert!(!line.contains(&b'\n'), "a message is a line");
        if matches!(message.kind(), Kind::Command | Kind::Query) {
            let answer = Draft::reply(&message, message.data_json()).compose("r", 1, &mut String::new());
            let inbox = self.inboxes.borrow().get(&link.0).cloned();
            inbox.into_iter().for_each(|inbox| inbox.push(answer.clone()));
        }
    }

    fn written(&self, _link: Link, _bytes: usize) {}

    fn owes(&self, _link: Link) -> bool {
        false
    }

    fn close(&self, link: Link) {
        self.inboxes.borrow_mut().remove(&link.0);
    }

    fn health(&self) -> Health {
        Health { checks: vec![("boot".to_owned(), Ok(()))] }
    }

    fn unix_ms(&self) -> u64 {
        1_767_910_000_000
    }

    fn new_id(&self) -> String {
        format!("id-{}", self.next.replace(self.next.get() + 1))
    }
}
