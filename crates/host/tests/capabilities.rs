//! Capabilities of other crates: the four moments, framed handles, and being watched.

mod support;

use mainspring_host::wasmtime::{self, Linker};
use mainspring_host::{
    Capability, CapabilityId, ErrorCode, Exit, Framed, GuestConfig, GuestContext, GuestState, Host,
    HostConfig, Limits, Opened, Opening, Reply, Responses, Service,
};
use mainspring_zcl::{Frame, Header};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::*;

/// Answers with what it is sent and what the guest's configuration adds.
#[derive(Clone, Default)]
struct Echo {
    prepared: Arc<AtomicU32>,
}

#[derive(Default)]
struct EchoConfig {
    suffix: String,
    /// Where the test finds what it can speak to the guest with.
    responses: Rc<RefCell<Option<Rc<Responses>>>>,
}

#[derive(Default)]
struct EchoState {
    opened: Cell<u32>,
}

impl Capability for Echo {
    const ID: CapabilityId = CapabilityId::new("test", "echo", 3);
    type Config = EchoConfig;
    type State = EchoState;

    fn link(&self, linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
        let echo = self.clone();
        let opened = move |caller: wasmtime::Caller<'_, GuestState>| {
            caller.data().context().own(&echo).state.opened.get()
        };
        linker.func_wrap("test", "opened", opened).map(drop)
    }

    fn configure(&self, config: &EchoConfig, limits: &Limits) -> Result<(), String> {
        if config.suffix.len() > limits.buffered_bytes {
            return Err("the suffix is longer than what may be held".into());
        }
        Ok(())
    }

    fn prepare(&self, guest: &GuestContext, config: &EchoConfig) -> EchoState {
        assert!(guest.limits().handles > 0 && config.suffix.len() < 100);
        self.prepared.fetch_add(1, Ordering::Relaxed);
        EchoState::default()
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        if opening.params()? == b"no" {
            return Err(ErrorCode::Denied);
        }
        let own = opening.guest.own(self);
        own.state.opened.set(own.state.opened.get() + 1);
        Ok(Framed::open(opening.guest, |responses| {
            *own.config.responses.borrow_mut() = Some(responses.clone());
            EchoService { suffix: own.config.suffix.clone() }
        }))
    }
}

struct EchoService {
    suffix: String,
}

impl Service for EchoService {
    const TRACE: &'static str = "test.echo";
    const REQUEST_BYTES_MAX: usize = 1000;
    const REPLY_BYTES_MAX: usize = 1100;

    fn check(header: &Header) -> Result<(), &'static str> {
        if header.op == 1 { Ok(()) } else { Err("unknown op") }
    }

    fn call(&self, _guest: &GuestContext, request: &Frame<'_>) -> Reply {
        match request.payload {
            b"fail" => Err("x".repeat(1000).into()),
            payload => Ok([payload, self.suffix.as_bytes()].concat()),
        }
    }
}

fn request(payload: &[u8]) -> Vec<u8> {
    [&Header::request(1, 7, payload.len() as u32).encode()[..], payload].concat()
}

fn ok(payload: &[u8]) -> Answer {
    Answer::Ok { op: 1, rid: 7, payload: payload.to_vec() }
}

fn host_with(echo: &Echo) -> Host {
    let mut config = HostConfig::new();
    config.guests_max = 16;
    config.capability(echo.clone());
    config.build().unwrap()
}

fn configured(suffix: &str) -> GuestConfig {
    let mut config = GuestConfig::new();
    config.configure::<Echo>(EchoConfig { suffix: suffix.into(), ..EchoConfig::default() });
    config
}

#[test]
fn h5_1_a_capability_is_prepared_once_for_each_guest_that_uses_it_and_has_its_own_configuration() {
    let echo = Echo::default();
    let host = host_with(&echo);
    let program = puppet_of(&host);
    run(async |handle| {
        let one = Puppet::start_on(&host, &program, &handle, configured("!"));
        let other = Puppet::start_on(&host, &program, &handle, configured("?"));
        let idle = Puppet::start_on(&host, &program, &handle, configured("."));
        for (puppet, expected) in [(&one, &b"a!"[..]), (&other, b"a?")] {
            for _ in 0..3 {
                let target = puppet.open("test", "echo", &[]).await;
                assert_eq!(puppet.request(target, &request(b"a")).await, ok(expected));
            }
            assert_eq!(puppet.open("test", "echo", b"no").await, DENIED);
        }
        assert_eq!(echo.prepared.swap(0, Ordering::Relaxed), 2, "the third has not used it");
        drop(idle);
    });
}

#[test]
fn h5_2_imports_of_a_capability_are_linked_and_reach_what_it_keeps_for_the_guest() {
    let echo = Echo::default();
    let host = host_with(&echo);
    let text = r#"(module
        (import "test" "opened" (func $opened (result i32)))
        (func (export "main") (param i32 i32) (result i32) (call $opened)))"#;
    let program = host.compile(&wat::parse_str(text).unwrap()).unwrap();
    run(async |handle| {
        let guest = host.spawn(&handle, &program, GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(0));
        assert_eq!(echo.prepared.swap(0, Ordering::Relaxed), 1);
    });
}

#[test]
fn h5_3_a_configuration_that_nobody_accepts_starts_no_guest() {
    let host = host_with(&Echo::default());
    let program = puppet_of(&host);
    run(async |handle| {
        let mut config = configured("long");
        config.limits.buffered_bytes = 3;
        let refused = host.spawn(&handle, &program, config).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the guest's configuration of test/echo@v3 is refused: the suffix is longer than what may be held"
        );
        let plain = Host::new().unwrap();
        let refused = plain.spawn(&handle, &puppet_of(&plain), configured("!")).unwrap_err().to_string();
        assert!(refused.contains("test/echo@v3, which this host does not have"), "{refused}");
        assert_eq!((host.stats().guests, plain.stats().guests), (0, 0));
    });
}

#[test]
fn h5_4_a_framed_handle_takes_requests_in_pieces_and_holds_them_within_the_guests_limit() {
    let host = host_with(&Echo::default());
    let program = puppet_of(&host);
    run(async |handle| {
        let mut config = configured("!");
        config.limits.buffered_bytes = 4000;
        let puppet = Puppet::start_on(&host, &program, &handle, config);
        let target = puppet.open("test", "echo", &[]).await;
        let whole = request(&[b'y'; 1000]);
        for piece in whole.chunks(100) {
            assert_eq!(puppet.write(target, piece).await, piece.len() as i64);
        }
        let answer = Answer::decode(&puppet.read(target, 65_536).await.unwrap());
        assert_eq!(answer, ok(&[&[b'y'; 1000][..], b"!"].concat()));
        // Several handles each with the beginning of a request: there is no room for all of them.
        let mut handles = Vec::new();
        let refused = loop {
            let target = puppet.open("test", "echo", &[]).await;
            handles.push(target);
            match puppet.write(target, &whole[..900]).await {
                900 => {}
                code => break code,
            }
        };
        assert!(refused == OOM || (0..900).contains(&refused), "{refused}");
        assert!(handles.len() <= 5, "{} pieces of 900 bytes are held", handles.len());
        assert!(puppet.guest.stats().buffered_bytes <= 4000);
        for handle in handles {
            puppet.end(handle).await;
        }
        assert_eq!(puppet.request(target, &request(b"a")).await, ok(b"a!"));
    });
}

#[test]
fn h5_5_a_framed_handle_refuses_in_words_and_cuts_what_is_too_long() {
    let host = host_with(&Echo::default());
    let program = puppet_of(&host);
    run(async |handle| {
        let puppet = Puppet::start_on(&host, &program, &handle, configured(&"z".repeat(99)));
        let target = puppet.open("test", "echo", &[]).await;
        assert_eq!(puppet.request(target, &request(b"fail")).await.message(), "x".repeat(128));
        assert_eq!(puppet.request(target, &request(&[0; 1001])).await.message(), "payload too long");
        let unknown = Header::request(2, 7, 0).encode();
        assert_eq!(puppet.request(target, &unknown).await.message(), "unknown op");
        let answer = puppet.request(target, &request(&[b'a'; 1000])).await;
        assert_eq!(answer, ok(&[&[b'a'; 1000][..], &[b'z'; 99]].concat()));
    });
}

#[test]
fn h5_6_a_framed_handle_is_watched_for_what_it_says_unasked_and_for_room() {
    let host = host_with(&Echo::default());
    let program = puppet_of(&host);
    run(async |handle| {
        let responses = Rc::default();
        let mut config = GuestConfig::new();
        let given = EchoConfig { suffix: String::new(), responses: Rc::clone(&responses) };
        config.configure::<Echo>(given);
        let puppet = Puppet::start_on(&host, &program, &handle, config);
        let (target, echo) = (puppet.open_loop().await, puppet.open("test", "echo", &[]).await);
        let responses = responses.borrow().clone().unwrap();
        assert!(puppet.watch(target, echo, READABLE | WRITABLE, 1).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 0).await.ready(1), WRITABLE, "there is nothing to read");
        assert!(puppet.unwatch(target, 1).await.is_ok());
        assert!(puppet.watch(target, echo, READABLE, 2).await.is_ok());
        puppet.start_poll(target, 8, u32::MAX).await;
        until(&handle, || puppet.guest.stats().phase == mainspring_host::GuestPhase::Waiting).await;
        assert!(responses.send(9, 0, b"news"));
        assert_eq!(puppet.finish_poll(target).await.ready(2), READABLE);
        // A guest that does not read is bounded: the host is told, and the handle is not writable.
        while responses.send(9, 0, &[0; 1000]) {}
        assert!(puppet.guest.stats().buffered_bytes <= 64 << 10);
        assert_eq!(puppet.write(echo, &request(b"a")).await, AGAIN);
        assert!(puppet.watch(target, echo, WRITABLE, 3).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 0).await.ids(), [2]);
        while puppet.read(echo, 65_536).await.is_ok() {}
        assert_eq!(puppet.poll(target, 8, 0).await.ready(3), WRITABLE);
        assert_eq!(puppet.request(echo, &request(b"a")).await, ok(b"a"));
        puppet.end(echo).await;
        assert!(!responses.send(9, 0, b"nobody"), "the handle is closed");
        assert_eq!(puppet.guest.stats().buffered_bytes, 0);
    });
}
