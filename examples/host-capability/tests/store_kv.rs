//! Guests that use the store: a capability of another crate is configured, limited, framed and
//! watched like the host's own.

use host_capability::wire::{self, OP_CHANGED};
use host_capability::{KeyValue, KeyValueConfig, Store, StoreLimits};
use mainspring_host::{
    ErrorCode, Exit, GuestConfig, GuestHandle, GuestPhase, Host, HostConfig, Limit, PipeReader, PipeWriter,
    Program, Stdin, Stdout, pipe,
};
use mainspring_reactor::Reactor;
use mainspring_zcl::cap::CapOpen;
use mainspring_zcl::sys_loop::{Poll, Readiness, TIMEOUT_FOREVER, Watch};
use mainspring_zcl::{ErrorPayload, Frame, STATUS_OK};
use std::rc::Rc;

/// More than any test has its guest say before it reads.
const PIPE_BYTES: usize = 4 << 20;

/// Where the guest's text has its strings, and how long they are.
const STORE: (u64, u32) = (128, 5);
const KV: (u64, u32) = (133, 2);
const SYS: (u64, u32) = (135, 3);
const LOOP: (u64, u32) = (138, 4);

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}

fn open_request(kind: (u64, u32), name: (u64, u32)) -> String {
    let open = CapOpen {
        kind_ptr: kind.0,
        kind_len: kind.1,
        name_ptr: name.0,
        name_len: name.1,
        mode: 0,
        params_ptr: 0,
        params_len: 0,
    };
    escaped(&open.encode())
}

/// The guest that relays between its standard streams and the store.
fn relay(host: &Host) -> Program {
    let watch = |handle, watch_id| Watch { handle, events: Readiness::READABLE, watch_id };
    let watches = [watch(0, 1).to_frame(1), watch(3, 2).to_frame(2)].concat();
    let poll = Poll { timeout_ms: TIMEOUT_FOREVER, max_events: 8 }.to_frame(3);
    let text = include_str!("relay.wat")
        .replace("$store_open$", &open_request(STORE, KV))
        .replace("$loop_open$", &open_request(SYS, LOOP))
        .replace("$watches$", &escaped(&watches))
        .replace("$watches_length$", &watches.len().to_string())
        .replace("$poll$", &escaped(&poll))
        .replace("$poll_length$", &poll.len().to_string());
    host.compile(&wat::parse_str(text).unwrap()).unwrap()
}

fn host() -> Host {
    let mut config = HostConfig::new();
    config.guests_max = 4;
    config.capability(KeyValue);
    config.build().unwrap()
}

/// A guest, and the other ends of its standard streams.
struct Client {
    guest: GuestHandle,
    stdin: PipeWriter,
    stdout: PipeReader,
    unread: Vec<u8>,
}

/// A whole frame, as a test looks at it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    op: u16,
    rid: u32,
    outcome: Result<Vec<u8>, String>,
}

impl Client {
    fn start(reactor: &Reactor, host: &Host, config: KeyValueConfig) -> Client {
        let (stdin, theirs) = pipe(PIPE_BYTES);
        let (ours, stdout) = pipe(PIPE_BYTES);
        let mut guest = GuestConfig::new();
        guest.stdin = Stdin::Pipe(theirs);
        guest.stdout = Stdout::Pipe(ours);
        guest.configure::<KeyValue>(config);
        let guest = host.spawn(reactor, &relay(host), guest).unwrap();
        Client { guest, stdin, stdout, unread: Vec::new() }
    }

    /// Lets the guest run until it waits, and takes what it said.
    fn answers(&mut self, reactor: &mut Reactor) -> Vec<Answer> {
        settle(reactor);
        let mut buffer = vec![0; PIPE_BYTES];
        while let Some(count @ 1..) = self.stdout.try_read(&mut buffer) {
            self.unread.extend_from_slice(&buffer[..count]);
        }
        let (mut answers, mut rest) = (Vec::new(), &self.unread[..]);
        while let Some((frame, after)) = Frame::decode(rest).unwrap() {
            let outcome = if frame.status == STATUS_OK {
                Ok(frame.payload.to_vec())
            } else {
                Err(ErrorPayload::decode(frame.payload).unwrap().message.to_owned())
            };
            answers.push(Answer { op: frame.op, rid: frame.rid, outcome });
            rest = after;
        }
        self.unread = rest.to_vec();
        answers
    }

    fn ask(&mut self, reactor: &mut Reactor, request: &[u8]) -> Vec<Answer> {
        assert_eq!(self.stdin.try_write(request), Some(request.len()));
        self.answers(reactor)
    }
}

/// Runs the reactor until nothing is to be done.
fn settle(reactor: &mut Reactor) {
    for _ in 0..64 {
        reactor.poll(Some(std::time::Duration::ZERO)).unwrap();
    }
}

fn changed(rid: u32, revision: u64, key: &str) -> Answer {
    Answer { op: OP_CHANGED, rid, outcome: Ok(wire::encode_revised(revision, key.as_bytes())) }
}

#[test]
fn a_guest_reads_what_the_host_wrote_and_the_host_reads_what_the_guest_wrote() {
    let (mut reactor, host, store) = (Reactor::new().unwrap(), host(), Store::new(StoreLimits::default()));
    let mut client = Client::start(&reactor, &host, KeyValueConfig::read_write(&store));
    store.put("a", b"one").unwrap();
    let answers = client.ask(&mut reactor, &wire::get(7, "a"));
    assert_eq!(answers, [Answer { op: wire::OP_GET, rid: 7, outcome: Ok(wire::encode_revised(1, b"one")) }]);
    let answers = client.ask(&mut reactor, &wire::put(8, "b", b"two"));
    assert_eq!(answers[0].outcome, Ok(2u64.to_le_bytes().to_vec()));
    assert_eq!(store.get("b").as_deref(), Some(&b"two"[..]));
    client.ask(&mut reactor, &wire::delete(9, "a"));
    assert_eq!(store.get("a"), None);
    assert_eq!(client.ask(&mut reactor, &wire::get(10, "a"))[0].outcome, Ok(Vec::new()));
}

#[test]
fn a_guest_that_watches_waits_without_running_and_is_woken_by_a_change() {
    let (mut reactor, host, store) = (Reactor::new().unwrap(), host(), Store::new(StoreLimits::default()));
    let mut client = Client::start(&reactor, &host, KeyValueConfig::read_only(&store));
    assert_eq!(client.ask(&mut reactor, &wire::watch(5, "color/"))[0].outcome, Ok(Vec::new()));
    let waiting = client.guest.stats();
    assert_eq!(waiting.phase, GuestPhase::Waiting);
    settle(&mut reactor);
    store.put("shape/sun", b"round").unwrap();
    settle(&mut reactor);
    assert_eq!(client.guest.stats().wakeups, waiting.wakeups, "nothing that it watches has changed");
    store.put("color/sky", b"blue").unwrap();
    assert_eq!(client.answers(&mut reactor), [changed(5, 2, "color/sky")]);
    assert_eq!(client.guest.stats().wakeups, waiting.wakeups + 1);
    assert_eq!(client.guest.stats().phase, GuestPhase::Waiting);
}

#[test]
fn what_one_guest_writes_wakes_another() {
    let (mut reactor, host, store) = (Reactor::new().unwrap(), host(), Store::new(StoreLimits::default()));
    let mut watcher = Client::start(&reactor, &host, KeyValueConfig::read_only(&store));
    let mut writer = Client::start(&reactor, &host, KeyValueConfig::read_write(&store));
    watcher.ask(&mut reactor, &wire::watch(1, ""));
    writer.ask(&mut reactor, &wire::put(1, "k", b"v"));
    assert_eq!(watcher.answers(&mut reactor), [changed(1, 1, "k")]);
    drop(writer.stdin);
    assert_eq!(reactor.block_on(writer.guest.exit()).unwrap(), Exit::Returned(0));
    store.put("k", b"w").unwrap();
    assert_eq!(watcher.answers(&mut reactor), [changed(1, 2, "k")]);
}

#[test]
fn a_request_in_pieces_is_put_together_and_held_within_the_guests_limit() {
    let (mut reactor, host, store) = (Reactor::new().unwrap(), host(), Store::new(StoreLimits::default()));
    let mut client = Client::start(&reactor, &host, KeyValueConfig::read_write(&store));
    let request = wire::put(1, "k", &[7; 10_000]);
    for (number, piece) in request.chunks(999).enumerate() {
        let answers = client.ask(&mut reactor, piece);
        let is_last = (number + 1) * 999 >= request.len();
        assert_eq!(answers.len(), usize::from(is_last));
        let held = if is_last { 0 } else { (number as u64 + 1) * 999 };
        // What is complete is held until the next request.
        assert!(client.guest.stats().buffered_bytes >= held);
    }
    assert_eq!(store.get("k").unwrap().len(), 10_000);
}

#[test]
fn a_guest_that_does_not_read_holds_a_bounded_amount_and_is_told_to_read_all_again() {
    let (mut reactor, host) = (Reactor::new().unwrap(), host());
    let store = Store::new(StoreLimits { keys: 100_000, bytes: 64 << 20 });
    let mut client = Client::start(&reactor, &host, KeyValueConfig::read_only(&store));
    client.ask(&mut reactor, &wire::watch(1, ""));
    // The guest does not run meanwhile.
    for number in 0..50_000 {
        store.put(&format!("key/{number:05}"), b"").unwrap();
    }
    let buffered = client.guest.stats().buffered_bytes;
    assert!(buffered <= 64 << 10, "{buffered}");
    let answers = client.answers(&mut reactor);
    assert_eq!(answers.last(), Some(&changed(1, 50_000, "")));
    assert!(answers.len() < 3000, "{}", answers.len());
    store.put("key/1", b"more").unwrap();
    assert_eq!(client.answers(&mut reactor), [changed(1, 50_001, "key/1")]);
}

#[test]
fn a_key_that_changes_often_is_told_once_to_a_guest_that_does_not_read() {
    let (mut reactor, host) = (Reactor::new().unwrap(), host());
    let store = Store::new(StoreLimits::default());
    let mut client = Client::start(&reactor, &host, KeyValueConfig::read_only(&store));
    client.ask(&mut reactor, &wire::watch(1, ""));
    for _ in 0..10_000 {
        store.put("k", b"").unwrap();
    }
    let answers = client.answers(&mut reactor);
    assert_eq!(answers.last(), Some(&changed(1, 10_000, "k")));
    assert!(answers.len() < 3000, "{}", answers.len());
}

#[test]
fn the_limits_of_the_capability_refuse_and_are_counted() {
    let (mut reactor, host) = (Reactor::new().unwrap(), host());
    let store = Store::new(StoreLimits { keys: 1, bytes: 100 });
    let config = KeyValueConfig { watches_max: 1, ..KeyValueConfig::read_write(&store) };
    let mut client = Client::start(&reactor, &host, config);
    assert!(client.ask(&mut reactor, &wire::put(1, "a", b"1"))[0].outcome.is_ok());
    let refused = client.ask(&mut reactor, &wire::put(2, "b", b"2"));
    assert_eq!(refused[0].outcome, Err("the store is full".into()));
    assert!(client.ask(&mut reactor, &wire::watch(3, ""))[0].outcome.is_ok());
    let refused = client.ask(&mut reactor, &wire::watch(4, ""));
    assert_eq!(refused[0].outcome, Err("too many watches".into()));
    assert_eq!(client.guest.stats().refused(Limit::Capability), 2);
}

#[test]
fn requests_that_make_no_sense_are_refused_in_words_and_the_next_is_answered() {
    let (mut reactor, host, store) = (Reactor::new().unwrap(), host(), Store::new(StoreLimits::default()));
    let mut client = Client::start(&reactor, &host, KeyValueConfig::read_only(&store));
    let refusals = [
        (wire::put(1, "a", b"1"), "the store is read-only"),
        (wire::delete(1, "a"), "the store is read-only"),
        (
            [&wire::get(1, "a")[..20], &40u32.to_le_bytes(), &[0; 40]].concat(),
            "longer than what it announces",
        ),
        (mainspring_zcl::Header::request(99, 1, 0).encode().to_vec(), "unknown op"),
        (mainspring_zcl::Header::request(1, 1, 0).encode().to_vec(), "begins with no string"),
    ];
    for (request, words) in refusals {
        let answers = client.ask(&mut reactor, &request);
        let told = answers[0].outcome.clone().unwrap_err();
        assert!(told.contains(words), "{told:?}");
    }
    assert!(client.ask(&mut reactor, &wire::get(2, "a"))[0].outcome.is_ok());
}

#[test]
fn a_guest_without_a_store_is_denied_and_a_configuration_without_sense_starts_no_guest() {
    let (mut reactor, host) = (Reactor::new().unwrap(), host());
    let guest = host.spawn(&reactor, &relay(&host), GuestConfig::new()).unwrap();
    let denied = Exit::Returned(ErrorCode::Denied.as_raw());
    assert_eq!(reactor.block_on(guest.exit()).unwrap(), denied);

    let mut config = GuestConfig::new();
    config.configure::<KeyValue>(KeyValueConfig { changes_max: 0, ..KeyValueConfig::default() });
    let refused = host.spawn(&reactor, &relay(&host), config).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the guest's configuration of store/kv@v1 is refused: changes_max must be at least 1"
    );
    let mut config = GuestConfig::new();
    config.configure::<KeyValue>(KeyValueConfig { watches_max: 1_000_000, ..KeyValueConfig::default() });
    let refused = host.spawn(&reactor, &relay(&host), config).unwrap_err().to_string();
    assert!(refused.contains("1000000 watches of 1024 changes may hold"), "{refused}");
    assert_eq!(host.stats().guests, 0, "a guest that was refused takes no place");
}

#[test]
fn a_guest_configured_for_a_capability_that_the_host_lacks_is_not_started() {
    let (reactor, store) = (Reactor::new().unwrap(), Store::new(StoreLimits::default()));
    let host = Host::new().unwrap();
    let mut config = GuestConfig::new();
    config.configure::<KeyValue>(KeyValueConfig::read_only(&store));
    let refused = host.spawn(&reactor, &relay(&host), config).unwrap_err().to_string();
    assert!(refused.contains("store/kv@v1, which this host does not have"), "{refused}");
}

#[test]
fn what_was_kept_for_a_guest_is_given_back_when_it_ends() {
    let (mut reactor, host, store) = (Reactor::new().unwrap(), host(), Store::new(StoreLimits::default()));
    let mut client = Client::start(&reactor, &host, KeyValueConfig::read_only(&store));
    client.ask(&mut reactor, &wire::watch(1, ""));
    assert!(Rc::strong_count(&store) > 1);
    client.guest.kill();
    assert_eq!(reactor.block_on(client.guest.exit()).unwrap(), Exit::Killed);
    assert_eq!(client.guest.stats().buffered_bytes, 0);
    drop(client);
    settle(&mut reactor);
    assert_eq!(Rc::strong_count(&store), 1);
}
