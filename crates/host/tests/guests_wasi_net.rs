//! WASI's sockets, used by a component through Rust's standard library, behind the same allow-list
//! as `net/tcp@v1`.
#![cfg(feature = "wasi")]

mod guest_modules;

use guest_modules::{Player, Stage, configuration, module, optional_module};
use mainspring_host::{Component, Denial, Error, Exit, GuestConfig, GuestPhase, Limit};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::rc::Rc;

/// The component, compiled; `None` where the toolchain cannot build it.
struct Net {
    stage: Stage,
    component: Component,
}

impl Net {
    fn new() -> Option<Net> {
        let bytes = optional_module("wasip2-net.component")?;
        let stage = Stage::new();
        let component = stage.host.compile_component(&bytes).unwrap();
        Some(Net { stage, component })
    }

    fn start(&self, arguments: &[&str], adjust: impl FnOnce(&mut GuestConfig)) -> Player {
        let (config, ends) = configuration("net", arguments, adjust);
        let guest = self.stage.host.spawn_component(&self.stage.reactor, &self.component, config).unwrap();
        ends.player(guest, self.stage.reactor.handle())
    }

    /// Runs the guest to its end: what it printed, and how often the network's rules refused it.
    fn run(&mut self, arguments: &[&str], adjust: impl FnOnce(&mut GuestConfig)) -> (String, u64) {
        let mut player = self.start(arguments, adjust);
        let (exit, stdout, stderr) = self.stage.run(player.finish());
        assert_eq!(exit, Exit::Returned(0), "{stderr}");
        (stdout, player.guest.stats().refused(Limit::Network))
    }
}

/// Answers one line of each connection, in capitals, for as long as the test runs.
fn answering_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let _ = stream.get_mut().write_all(line.to_uppercase().as_bytes());
        }
    });
    port
}

/// Accepts nothing; connections wait in its queue.
fn silent_server() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn allow_sockets(config: &mut GuestConfig, rules: &[String]) {
    config.wasi.sockets = true;
    for rule in rules {
        config.network.allow_connect(rule).unwrap();
    }
}

#[test]
fn w1_1_a_module_has_no_wasi_sockets_whatever_is_allowed() {
    let Some(module) = module("wasi-hello") else { return };
    let mut stage = Stage::new();
    let place = format!("127.0.0.1:{}", answering_server());
    let mut player =
        stage.start("hello", &module, &["connect", &place], |config| allow_sockets(config, &["any".into()]));
    let (exit, stdout, _) = stage.run(player.finish());
    assert_eq!((exit, stdout.as_str()), (Exit::Returned(0), "Unsupported\n"));
}

#[test]
fn w1_1_the_socket_calls_of_preview_1_are_errors_and_not_traps() {
    let mut stage = Stage::new();
    // Each call on each of the first four descriptors; any that succeeds makes the guest return 1.
    let calls = (0..4)
        .map(|fd| {
            format!(
                "(if (i32.eqz (call $accept (i32.const {fd}) (i32.const 0) (i32.const 0))) (then (return (i32.const 1))))
                 (if (i32.eqz (call $recv (i32.const {fd}) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 8))) (then (return (i32.const 1))))
                 (if (i32.eqz (call $send (i32.const {fd}) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))) (then (return (i32.const 1))))
                 (if (i32.eqz (call $shutdown (i32.const {fd}) (i32.const 3))) (then (return (i32.const 1))))"
            )
        })
        .collect::<String>();
    let text = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "sock_accept" (func $accept (param i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "sock_recv" (func $recv (param i32 i32 i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "sock_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "sock_shutdown" (func $shutdown (param i32 i32) (result i32)))
            (memory (export "memory") 1)
            (func (export "main") (param i32 i32) (result i32) {calls} (i32.const 0)))"#
    );
    let mut player = stage.start("sockets", &wat::parse_str(text).unwrap(), &[], |config| {
        allow_sockets(config, &["any".into()]);
    });
    assert_eq!(stage.run(player.finish()).0, Exit::Returned(0));
}

#[test]
fn w1_2_sockets_are_off_by_default_even_where_a_rule_would_admit_them() {
    let Some(mut net) = Net::new() else { return };
    let place = format!("127.0.0.1:{}", answering_server());
    let told: Rc<RefCell<Vec<Denial>>> = Rc::default();
    let tell = |config: &mut GuestConfig| {
        config.network.allow_connect("any").unwrap();
        let told = Rc::clone(&told);
        config.on_denial(move |denial| told.borrow_mut().push(denial.clone()));
    };
    let (text, _) = net.run(&["connect", &place], tell);
    assert!(text.starts_with("PermissionDenied"), "{text}");
    assert_eq!(told.take(), [Denial::WasiSockets]);
    let (text, _) = net.run(&["connect", "localhost:9"], tell);
    assert_eq!(told.take(), [Denial::WasiSockets]);
    assert!(!text.starts_with("ConnectionRefused"), "the name was looked up: {text}");
}

#[test]
fn w1_3_an_allowed_address_and_an_allowed_name_are_connected_to() {
    let Some(mut net) = Net::new() else { return };
    let port = answering_server();
    for host in ["127.0.0.1", "localhost"] {
        let place = format!("{host}:{port}");
        let outcome =
            net.run(&["connect", &place], |config| allow_sockets(config, std::slice::from_ref(&place)));
        assert_eq!(outcome.0, "HELLO\n", "{place}");
    }
}

#[test]
fn w1_4_a_name_without_a_rule_is_refused_before_it_is_looked_up() {
    let Some(mut net) = Net::new() else { return };
    let port = answering_server();
    // The address is allowed and the name stands for it; but nobody allowed the name.
    let place = format!("localhost:{port}");
    let (text, refused) =
        net.run(&["connect", &place], |config| allow_sockets(config, &[format!("127.0.0.1:{port}")]));
    assert!(!text.contains("HELLO"), "{text}");
    assert_eq!(refused, 1);
    assert_eq!(net.stage.host.stats().refused, 1);
}

#[test]
fn w1_5_a_name_that_points_somewhere_private_is_refused_after_the_lookup() {
    let Some(mut net) = Net::new() else { return };
    // As a name of this machine does, on most machines.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let port = answering_server();
    let place = format!("{name}:{port}");
    let private = place.to_socket_addrs().is_ok_and(|mut found| found.all(|it| it.ip().is_loopback()));
    if name.is_empty() || name == "localhost" || !private {
        return eprintln!("skipped: the name of this machine does not stand for a loopback address");
    }
    let (text, refused) =
        net.run(&["connect", &place], |config| allow_sockets(config, std::slice::from_ref(&place)));
    assert!(text.starts_with("PermissionDenied"), "{text}");
    assert!(refused >= 1);
}

#[test]
fn w1_6_an_address_without_a_rule_and_the_wrong_port_are_refused_and_counted() {
    let Some(mut net) = Net::new() else { return };
    let (allowed, other) = (answering_server(), answering_server());
    for place in [format!("127.0.0.2:{allowed}"), format!("127.0.0.1:{other}")] {
        let (text, refused) =
            net.run(&["connect", &place], |config| allow_sockets(config, &[format!("127.0.0.1:{allowed}")]));
        assert!(text.starts_with("PermissionDenied"), "{place}: {text}");
        assert_eq!(refused, 1, "{place}");
    }
}

#[test]
fn w1_7_listening_needs_a_rule_of_its_own() {
    let Some(mut net) = Net::new() else { return };
    let (text, _) = net.run(&["listen", "127.0.0.1:0"], |config| allow_sockets(config, &["any".into()]));
    assert!(text.starts_with("PermissionDenied"), "{text}");
    let mut player = net.start(&["listen", "127.0.0.1:0"], |config| {
        config.wasi.sockets = true;
        config.network.allow_listen("127.0.0.1:*").unwrap();
    });
    net.stage.run(async {
        let port = player.port().await;
        let answer = player.elsewhere(move || {
            let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
            stream.get_mut().write_all(b"to a guest\n").unwrap();
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            line
        });
        assert_eq!(answer.await, "TO A GUEST\n");
        assert!(player.guest.stats().wakeups > 0, "waiting in WASI's calls is counted as well");
        assert_eq!(player.finish().await.0, Exit::Returned(0));
    });
}

#[test]
fn w1_8_there_are_no_datagrams() {
    let Some(mut net) = Net::new() else { return };
    let (text, _) = net.run(&["udp", "127.0.0.1:9"], |config| {
        allow_sockets(config, &["any".into()]);
        config.network.allow_listen("any").unwrap();
    });
    assert!(text.starts_with("PermissionDenied"), "{text}");
}

#[test]
fn w1_9_a_component_that_waits_for_a_socket_costs_no_cpu_and_can_be_killed() {
    let Some(mut net) = Net::new() else { return };
    let (listener, port) = silent_server();
    let place = format!("127.0.0.1:{port}");
    let player =
        net.start(&["connect", &place], |config| allow_sockets(config, std::slice::from_ref(&place)));
    net.stage.run(async {
        // Its line has arrived, so all that is left to it is to wait.
        let accepted = player.elsewhere(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            stream.read_line(&mut String::new()).unwrap();
            stream
        });
        let _peer = accepted.await;
        while player.guest.stats().phase != GuestPhase::Waiting {
            player.handle.sleep(std::time::Duration::from_millis(1)).await.unwrap();
        }
        let before = player.guest.stats();
        player.handle.sleep(std::time::Duration::from_millis(50)).await.unwrap();
        assert_eq!(player.guest.stats(), before, "it was resumed while it waited");
        player.guest.kill();
        assert_eq!(player.guest.exit().await, Exit::Killed);
    });
}

#[test]
fn w1_10_the_resources_of_a_guest_are_bounded_by_its_limit_on_handles() {
    let Some(mut net) = Net::new() else { return };
    let (_listener, port) = silent_server();
    let place = format!("127.0.0.1:{port}");
    let mut player = net.start(&["many", &place], |config| {
        allow_sockets(config, std::slice::from_ref(&place));
        config.limits.handles = 16;
    });
    let (exit, _, _) = net.stage.run(player.finish());
    assert!(matches!(exit, Exit::Trapped(_)), "{exit:?}");
    assert_eq!(net.stage.host.stats().guests, 0);
}

#[test]
fn w1_11_a_limit_on_bandwidth_and_wasi_sockets_exclude_each_other() {
    let Some(net) = Net::new() else { return };
    let (config, _ends) = configuration("net", &[], |config| {
        allow_sockets(config, &["any".into()]);
        config.limits.bandwidth_bytes_per_s = Some(1000);
    });
    let error = net.stage.host.spawn_component(&net.stage.reactor, &net.component, config).unwrap_err();
    assert!(matches!(error, Error::BandwidthOfWasiSockets), "{error}");
    assert_eq!(net.stage.host.stats().guests, 0);
}

#[test]
fn w1_12_lookups_at_once_are_limited() {
    let Some(mut net) = Net::new() else { return };
    let place = format!("localhost:{}", answering_server());
    let mut player = net.start(&["connect", &place], |config| {
        allow_sockets(config, std::slice::from_ref(&place));
        config.limits.lookups = 0;
    });
    let (exit, text, _) = net.stage.run(player.finish());
    assert_eq!(exit, Exit::Returned(0));
    assert!(!text.contains("HELLO"), "{text}");
    assert_eq!(player.guest.stats().refused(Limit::Lookups), 1);
}
