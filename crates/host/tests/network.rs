//! `net/tcp@v1`: connections, listeners, and where they may go.

mod support;

use mainspring_host::{GuestConfig, HostConfig, Limit, Limits};
use mainspring_reactor::{Async, Handle};
use mainspring_zcl::cap::{AcceptRecord, tcp_flags};
use mainspring_zcl::ctl::HandleOp;
use mainspring_zcl::sys_loop::{Readiness, TIMEOUT_FOREVER};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::*;

/// Waits until the guest hears about a handle.
async fn wait_for(puppet: &Puppet, target: i64, handle: i64, events: Readiness) -> Readiness {
    assert!(puppet.watch(target, handle, events, 900).await.is_ok());
    let ready = puppet.poll(target, 64, TIMEOUT_FOREVER).await.ready(900);
    assert!(puppet.unwatch(target, 900).await.is_ok());
    ready
}

async fn accept(puppet: &Puppet, target: i64, listener: i64) -> AcceptRecord {
    loop {
        match puppet.read(listener, 32).await {
            Ok(record) => return AcceptRecord::decode(record.first_chunk().unwrap()).unwrap(),
            Err(code) => assert_eq!(code, AGAIN),
        }
        wait_for(puppet, target, listener, READABLE | HANGUP | ERROR).await;
    }
}

#[test]
fn n1_1_bytes_go_both_ways_over_a_connection() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        assert!(wait_for(&puppet, target, connection, WRITABLE | HANGUP | ERROR).await == WRITABLE);
        assert_eq!(puppet.write(connection, b"ping").await, 4);
        let peer_side = Async::new(&handle, peer.try_clone().unwrap()).unwrap();
        let mut buffer = [0; 8];
        let count = peer_side.read_with(|mut peer| peer.read(&mut buffer)).await.unwrap();
        assert_eq!(&buffer[..count], b"ping");
        peer.write_all(b"pong").unwrap();
        assert_eq!(wait_for(&puppet, target, connection, READABLE).await, READABLE);
        assert_eq!(puppet.read(connection, 100).await.unwrap(), b"pong");
        assert_eq!(puppet.read(connection, 100).await, Err(AGAIN));
        let stats = puppet.guest.stats();
        assert!(stats.agains >= 1 && stats.bytes_read >= 4 && stats.bytes_written >= 4);
    });
}

#[test]
fn n1_2_a_connection_says_again_until_it_is_made() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        // Looking a name up takes another thread and so at least a turn.
        let connection = puppet.open_tcp("localhost", port, tcp_flags::NODELAY | tcp_flags::KEEPALIVE).await;
        let early = puppet.write(connection, b"hello").await;
        assert!(early == AGAIN || early == 5, "{early}");
        wait_for(&puppet, target, connection, WRITABLE | ERROR).await;
        if early == AGAIN {
            assert_eq!(puppet.write(connection, b"hello").await, 5);
        }
        let (mut peer, _) = listener.accept().unwrap();
        let mut buffer = [0; 5];
        peer.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"hello");
    });
}

#[test]
fn n1_3_a_refused_connection_shows_as_error_readiness_and_io() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        // Bound and not listening: nobody else can get the port, and connecting to it is refused.
        let port = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            listener.local_addr().unwrap().port()
        };
        let connection = puppet.open_tcp("127.0.0.1", port, 0).await;
        assert!(connection >= 3);
        assert_eq!(
            wait_for(&puppet, target, connection, WRITABLE).await,
            WRITABLE,
            "even writers alone hear of it"
        );
        assert_eq!(wait_for(&puppet, target, connection, Readiness::ALL).await, Readiness::ALL);
        for _ in 0..3 {
            assert_eq!(puppet.read(connection, 8).await, Err(IO));
            assert_eq!(puppet.write(connection, b"x").await, IO);
        }
        assert_eq!(puppet.end(connection).await, OK);
    });
}

#[test]
fn n1_4_a_name_that_does_not_exist_shows_as_error_readiness_and_noent() {
    run(async |handle| {
        let mut config = GuestConfig::new();
        config.network.allow_connect("*.invalid:*").unwrap();
        let puppet = Puppet::start_with(&handle, config);
        let target = puppet.open_loop().await;
        let connection = puppet.open_tcp("nobody.invalid", 80, 0).await;
        assert!(connection >= 3, "the handle is there before the name is looked up");
        assert!(wait_for(&puppet, target, connection, Readiness::ALL).await.contains(ERROR));
        assert_eq!(puppet.read(connection, 8).await, Err(NOENT));
    });
}

#[test]
fn n1_5_the_end_of_the_peers_stream_is_zero_bytes() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        peer.write_all(b"last words").unwrap();
        drop(peer);
        // Data and end arrive together: reading the data must not lose the end.
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        let mut received = Vec::new();
        loop {
            assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ready(1), READABLE);
            match puppet.read(connection, 100).await.unwrap() {
                bytes if bytes.is_empty() => break,
                bytes => received.extend(bytes),
            }
        }
        assert_eq!(received, b"last words");
    });
}

#[test]
fn n1_6_shutting_the_write_side_down_ends_the_stream_for_the_peer_and_not_for_the_guest() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        wait_for(&puppet, target, connection, WRITABLE).await;
        let request = HandleOp { handle: connection as u32, op: 1 }.to_frame(6);
        let command = Command {
            op: OP_CTL,
            arguments: [i64::from(AT), request.len() as i64, i64::from(OUT), 4096],
            data: &request,
            data_at: AT,
            out: Output::Returned(OUT),
        };
        let (_, answer) = puppet.call(command).await;
        assert_eq!(Answer::decode(&answer), Answer::Ok { op: 4, rid: 6, payload: vec![] });
        let peer_side = Async::new(&handle, peer.try_clone().unwrap()).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(peer_side.read_with(|mut peer| peer.read(&mut buffer)).await.unwrap(), 0);
        peer.write_all(b"still here").unwrap();
        wait_for(&puppet, target, connection, READABLE).await;
        assert_eq!(puppet.read(connection, 100).await.unwrap(), b"still here");
        assert_eq!(puppet.write(connection, b"x").await, IO);
    });
}

#[test]
fn n1_7_a_full_send_buffer_says_again_and_writable_comes_back_when_the_peer_reads() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        wait_for(&puppet, target, connection, WRITABLE).await;
        assert!(puppet.watch(target, connection, WRITABLE, 1).await.is_ok());
        let block = vec![7; 256 * 1024];
        let (mut sent, mut received) = (0, 0);
        while received < 8 << 20 {
            match puppet.write(connection, &block).await {
                AGAIN => {
                    received += drain(&mut peer);
                    assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ready(1), WRITABLE);
                }
                count => sent += usize::try_from(count).expect("no other error"),
            }
        }
        assert!(received <= sent);
    });
}

#[test]
fn n1_8_an_ipv6_address_may_stand_in_brackets() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
        let port = listener.local_addr().unwrap().port();
        for host in ["[::1]", "::1", "[0:0:0:0:0:0:0:1]"] {
            let connection = puppet.open_tcp(host, port, 0).await;
            assert!(connection >= 3, "connecting to {host}: {connection}");
            listener.accept().unwrap();
            let listening = puppet.open_tcp(host, 0, tcp_flags::LISTEN).await;
            assert!(listening >= 3, "listening at {host}: {listening}");
        }
        for nonsense in ["[127.0.0.1]", "[::1", "::1]", "[[::1]]", "[]"] {
            assert_eq!(
                puppet.open_tcp(nonsense, port, 0).await,
                DENIED,
                "{nonsense} is a name without a rule"
            );
            assert_eq!(puppet.open_tcp(nonsense, 0, tcp_flags::LISTEN).await, INVALID, "{nonsense}");
        }
    });
}

#[test]
fn n2_1_a_listener_reports_its_port_and_accepts_in_records() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (listener, port) = puppet.listen().await;
        assert_eq!(puppet.read(listener, 31).await, Err(BOUNDS), "a record does not fit");
        assert_eq!(puppet.read(listener, 32).await, Err(AGAIN));
        let mut peer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let record = accept(&puppet, target, listener).await;
        let local = peer.local_addr().unwrap();
        assert_eq!(record.peer_port, u32::from(local.port()));
        assert_eq!(record.peer_address, Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        assert_eq!(record.local_port, u32::from(port));
        assert_eq!(puppet.write(record.handle.into(), b"welcome").await, 7);
        let mut buffer = [0; 7];
        peer.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"welcome");
        // Several at once, as many as fit.
        let _peers: Vec<_> =
            (0..3).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        wait_for(&puppet, target, listener, READABLE).await;
        let records = puppet.read(listener, 79).await.unwrap();
        assert_eq!(records.len(), 64);
        assert_eq!(puppet.read(listener, 1000).await.unwrap().len(), 32);
        assert_eq!(puppet.read(listener, 1000).await, Err(AGAIN));
    });
}

#[test]
fn n2_2_a_guest_may_talk_to_itself() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (listener, port) = puppet.listen().await;
        let connection = puppet.open_tcp("localhost", port, 0).await;
        let record = accept(&puppet, target, listener).await;
        wait_for(&puppet, target, connection, WRITABLE).await;
        assert_eq!(puppet.write(connection, b"echo").await, 4);
        wait_for(&puppet, target, record.handle.into(), READABLE).await;
        assert_eq!(puppet.read(record.handle.into(), 8).await.unwrap(), b"echo");
    });
}

#[test]
fn n2_3_an_address_in_use_is_io_and_a_foreign_one_is_invalid() {
    run(async |handle| {
        let mut config = with_loopback();
        config.network.allow_listen("any").unwrap();
        let puppet = Puppet::start_with(&handle, config);
        let (_listener, port) = puppet.listen().await;
        assert_eq!(puppet.open_tcp("127.0.0.1", port, 1).await, IO);
        assert_eq!(puppet.open_tcp("198.51.100.1", 0, 1).await, INVALID);
        assert_eq!(puppet.open_tcp("example.com", 0, 1).await, INVALID, "a listener needs an address");
    });
}

#[test]
fn n2_4_a_full_handle_table_leaves_connections_waiting() {
    run(async |handle| {
        let mut config = with_loopback();
        config.limits.handles = 7;
        let puppet = Puppet::start_with(&handle, config);
        let target = puppet.open_loop().await;
        let (listener, port) = puppet.listen().await;
        let _peers: Vec<_> =
            (0..2).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        let first = accept(&puppet, target, listener).await;
        assert_eq!(puppet.read(listener, 32).await, Err(OOM));
        assert_eq!(puppet.guest.stats().refused(Limit::Handles), 1);
        assert_eq!(puppet.end(first.handle.into()).await, OK);
        accept(&puppet, target, listener).await;
    });
}

#[test]
fn n3_1_without_rules_everything_is_denied_at_once_and_counted() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        for (name, port, flags) in [
            ("127.0.0.1", 80, 0),
            ("localhost", 80, 0),
            ("example.com", 80, 0),
            ("::1", 80, 0),
            ("127.0.0.1", 0, 1),
        ] {
            assert_eq!(puppet.open_tcp(name, port, flags).await, DENIED, "{name}");
        }
        assert_eq!(puppet.guest.stats().refused(Limit::Network), 5);
        assert_eq!(puppet.guest.stats().handles, 4);
    });
}

#[test]
fn n3_5_whoever_started_a_guest_is_told_once_of_each_thing_that_it_was_denied_with_the_rule() {
    run(async |handle| {
        let mut config = GuestConfig::new();
        let (send, told) = channel();
        config.on_denial(move |denial| {
            send.send((denial.to_string(), denial.rule().map(str::to_owned))).unwrap();
        });
        let puppet = Puppet::start_with(&handle, config);
        for (name, port, flags) in [("db.example.com", 5432, 0), ("::1", 80, 0), ("127.0.0.1", 7000, 1)] {
            for _ in 0..3 {
                assert_eq!(puppet.open_tcp(name, port, flags).await, DENIED, "{name}");
            }
        }
        let expected = [
            ("it may not connect to db.example.com:5432", "db.example.com:5432"),
            ("it may not connect to [::1]:80", "[::1]:80"),
            ("it may not listen at 127.0.0.1:7000", "127.0.0.1:7000"),
        ];
        let told: Vec<(String, Option<String>)> = told.try_iter().collect();
        let expected: Vec<_> =
            expected.iter().map(|(text, rule)| ((*text).to_owned(), Some((*rule).to_owned()))).collect();
        assert_eq!(told, expected);
        assert_eq!(puppet.guest.stats().refused(Limit::Network), 9, "all are counted");
    });
}

#[test]
fn n3_2_a_name_that_points_somewhere_private_is_denied_after_the_lookup() {
    run(async |handle| {
        // The rule admits the name; the address that it stands for, on this very machine, it does
        // not admit.
        let mut config = GuestConfig::new();
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        let resolves = !name.is_empty()
            && std::net::ToSocketAddrs::to_socket_addrs(&(name, 80))
                .is_ok_and(|mut found| found.next().is_some());
        if !resolves || config.network.allow_connect(&format!("{name}:80")).is_err() {
            return;
        }
        let puppet = Puppet::start_with(&handle, config);
        let target = puppet.open_loop().await;
        let connection = puppet.open_tcp(name, 80, 0).await;
        assert!(wait_for(&puppet, target, connection, Readiness::ALL).await.contains(ERROR));
        assert_eq!(puppet.read(connection, 8).await, Err(DENIED));
        assert_eq!(puppet.guest.stats().refused(Limit::Network), 1);
    });
}

#[test]
fn n3_3_senseless_parameters_are_invalid() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        assert_eq!(puppet.open("net", "tcp", &[]).await, INVALID);
        assert_eq!(puppet.open("net", "tcp", &[0; 21]).await, INVALID);
        assert_eq!(puppet.open_tcp("", 80, 0).await, INVALID);
        assert_eq!(puppet.open_tcp(&"x".repeat(256), 80, 0).await, INVALID);
        assert_eq!(puppet.open_tcp("127.0.0.1", 80, 64).await, INVALID);
        assert_eq!(puppet.open_tcp("127.0.0.1", 0, 0).await, INVALID);
    });
}

#[test]
fn n3_4_closing_a_connection_that_is_being_made_gives_it_up() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        for _ in 0..50 {
            let connection = puppet.open_tcp("localhost", 9, 0).await;
            if connection == OOM {
                // As many lookups as allowed are on their way; they end by themselves.
                handle.sleep(Duration::from_millis(1)).await.unwrap();
                continue;
            }
            assert_eq!(puppet.end(connection).await, OK);
        }
        idle_tasks(&handle, 1).await;
    });
}

/// Waits until no more than so many tasks are left.
async fn idle_tasks(handle: &Handle, most: usize) {
    let handle_again = handle.clone();
    until(handle, move || handle_again.task_count() <= most).await;
}

#[test]
fn n4_1_a_bandwidth_limit_holds_a_handle_back_until_its_refill() {
    run_virtually(async |handle, clock| {
        let mut config = with_loopback();
        config.limits.bandwidth_bytes_per_s = Some(1_000_000);
        let puppet = Puppet::start_with(&handle, config);
        let target = puppet.open_loop().await;
        let (listener, port) = puppet.listen().await;
        let connection = puppet.open_tcp("127.0.0.1", port, 0).await;
        let other = i64::from(accept(&puppet, target, listener).await.handle);
        wait_for(&puppet, target, connection, WRITABLE).await;
        let start = clock.elapsed();
        assert!(puppet.watch(target, connection, WRITABLE, 1).await.is_ok());
        assert!(puppet.watch(target, other, READABLE, 2).await.is_ok());
        let block = vec![7; 64 * 1024];
        let mut moved = 0;
        while moved < 2_000_000 {
            match puppet.write(connection, &block).await {
                AGAIN => {}
                count => moved += usize::try_from(count).expect("no other error"),
            }
            match puppet.read(other, 65_536).await {
                Err(code) => assert_eq!(code, AGAIN),
                Ok(bytes) => moved += bytes.len(),
            }
            puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        }
        let took = clock.elapsed() - start;
        assert!(
            took >= Duration::from_millis(1800),
            "2 MB at 1 MB/s, less what the bucket held, took {took:?}"
        );
        assert!(took <= Duration::from_millis(2500), "and not much longer: {took:?}");
        let stats = puppet.guest.stats();
        assert!(stats.refused(Limit::Bandwidth) > 0);
        assert!(stats.polls < 2000, "the guest was not woken in vain: {} polls", stats.polls);
    });
}

#[test]
fn n4_2_lookups_at_once_are_limited() {
    run(async |handle| {
        let mut config = with_loopback();
        config.limits.lookups = 0;
        let puppet = Puppet::start_with(&handle, config);
        assert_eq!(puppet.open_tcp("localhost", 80, 0).await, OOM);
        assert_eq!(puppet.guest.stats().refused(Limit::Lookups), 1);
    });
}

#[test]
fn n4_3_names_that_nobody_answers_for_hold_up_no_other_guest() {
    run(async |handle| {
        // A name server that never answers, until the test is over.
        let (over, never) = channel::<()>();
        let never = Arc::new(Mutex::new(never));
        let mut config = HostConfig::new();
        config.guests_max = 16;
        config.resolver(move |name, _| {
            if name.starts_with("stuck") {
                let _ = never.lock().unwrap().recv();
            }
            Err(std::io::ErrorKind::NotFound.into())
        });
        let host = config.build().unwrap();
        let program = puppet_of(&host);
        let start = || {
            let mut config = GuestConfig::new();
            config.network.allow_connect("*.example.com:80").unwrap();
            Puppet::start_on(&host, &program, &handle, config)
        };
        let mut stuck = Vec::new();
        for _ in 0..3 {
            let puppet = start();
            for number in 0..Limits::default().lookups {
                assert!(puppet.open_tcp(&format!("stuck{number}.example.com"), 80, 0).await >= 0);
            }
            stuck.push(puppet);
        }
        let other = start();
        let target = other.open_loop().await;
        let connection = other.open_tcp("other.example.com", 80, 0).await;
        wait_for(&other, target, connection, READABLE).await;
        assert_eq!(other.read(connection, 1).await, Err(NOENT));
        assert_eq!(handle.blocking(|| 1).unwrap().await, 1, "nor anything else that blocks");
        drop(over);
    });
}
