//! What a guest may use, how it is preempted and how it is killed.

mod support;

use mainspring_host::{Exit, GuestConfig, GuestPhase, HostConfig, Limit, Limits};
use mainspring_reactor::Handle;
use mainspring_zcl::sys_loop::{TIMEOUT_FOREVER, Unwatch, Watch};
use std::time::Duration;
use support::*;

fn limited(limits: Limits) -> GuestConfig {
    let mut config = with_loopback();
    config.limits = limits;
    config
}

fn spinner() -> mainspring_host::Program {
    program(r#"(module (func (export "_start") (loop $spin (br $spin))))"#)
}

#[test]
fn p1_1_a_spinning_guest_is_preempted_and_its_neighbour_keeps_answering() {
    run(async |handle| {
        let spinning = host().spawn(&handle, &spinner(), GuestConfig::new()).unwrap();
        let neighbour = Puppet::start(&handle);
        let target = neighbour.open_loop().await;
        for id in 1..=20 {
            assert!(neighbour.watch(target, 2, WRITABLE, id).await.is_ok(), "the neighbour answers");
        }
        let stats = spinning.stats();
        assert!(stats.preemptions > 0, "{stats:?}");
        assert_eq!(spinning.exit_now(), None, "preempted, not ended");
        spinning.kill();
        assert_eq!(spinning.exit().await, Exit::Killed);
    });
}

#[test]
fn p1_2_a_preempted_guest_goes_on_where_it_was() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        // Some hundred million steps take longer than any slice.
        assert_eq!(puppet.plain(OP_SPIN_A_WHILE, [100_000_000, 0, 0, 0]).await, 0);
        assert!(puppet.guest.stats().preemptions > 0);
        assert!(puppet.guest.stats().cpu_time >= Duration::from_millis(5));
    });
}

#[test]
fn p1_3_waiting_is_not_charged_to_the_slice() {
    run(async |handle| {
        let slice = |ms| Limits { cpu_slice: Duration::from_millis(ms), ..Limits::default() };
        let puppet = Puppet::start_with(&handle, limited(slice(200)));
        let target = puppet.open_loop().await;
        let polls = puppet.guest.stats().polls;
        puppet.start_poll(target, 1, TIMEOUT_FOREVER).await;
        until(&handle, || puppet.guest.stats().polls > polls).await;
        // A neighbour keeps the clock of slices going for longer than the slice of the one that
        // waits.
        let neighbour = host().spawn(&handle, &spinner(), limited(slice(1))).unwrap();
        until(&handle, || neighbour.stats().preemptions > 210).await;
        neighbour.kill();
        puppet.guest.interrupt();
        assert_eq!(puppet.finish_poll(target).await.events, []);
        assert_eq!(puppet.guest.stats().preemptions, 0, "it waited and did not run");
    });
}

#[test]
#[cfg(feature = "wasi")]
fn p1_3_a_module_that_only_waits_by_wasi_is_never_preempted() {
    run(async |handle| {
        // Sleeps for a millisecond fifty times, and does nothing else.
        let sleeper = program(
            r#"(module
                (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1)
                (func (export "_start") (local $left i32)
                    (i32.store (i32.const 16) (i32.const 1))
                    (i64.store (i32.const 24) (i64.const 1000000))
                    (local.set $left (i32.const 50))
                    (loop $again
                        (if (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)) (then unreachable))
                        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                        (br_if $again (local.get $left)))))"#,
        );
        let spinning = host().spawn(&handle, &spinner(), GuestConfig::new()).unwrap();
        let sleeping = host().spawn(&handle, &sleeper, GuestConfig::new()).unwrap();
        assert_eq!(sleeping.exit().await, Exit::Returned(0));
        spinning.kill();
        spinning.exit().await;
        assert!(spinning.stats().preemptions > 0, "the clock of slices went on all the time");
        let stats = sleeping.stats();
        assert_eq!(stats.preemptions, 0, "it waited and did not run: {stats:?}");
    });
}

#[test]
fn p1_4_the_ticker_rests_while_no_guest_runs() {
    let mut config = HostConfig::default();
    config.guests_max = 4;
    let host = config.build().unwrap();
    run(async |handle| {
        let bytes = wat::parse_str(r#"(module (func (export "_start")))"#).unwrap();
        let guest = host.spawn(&handle, &host.compile(&bytes).unwrap(), GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(0));
        until(&handle, || host.is_ticker_parked()).await;
        // And wakes for the next one.
        let bytes = wat::parse_str(r#"(module (func (export "_start") (loop $spin (br $spin))))"#).unwrap();
        let guest = host.spawn(&handle, &host.compile(&bytes).unwrap(), GuestConfig::new()).unwrap();
        until(&handle, || guest.stats().preemptions > 2).await;
        guest.kill();
        assert_eq!(guest.exit().await, Exit::Killed);
        until(&handle, || host.is_ticker_parked()).await;
    });
}

/// A module of preview 1 with 60 MiB of memory that wants so much randomness at once, and traps if
/// that fails.
#[cfg(feature = "wasi")]
fn asking_for_randomness(bytes: u32) -> mainspring_host::Program {
    program(&format!(
        r#"(module
            (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
            (memory (export "memory") 960)
            (func (export "_start")
                (if (call $random (i32.const 1024) (i32.const {bytes})) (then unreachable))
                (if (i64.eqz (i64.load (i32.const {last}))) (then unreachable))))"#,
        last = CALL_BYTES + 1024 - 8
    ))
}

#[cfg(feature = "wasi")]
const CALL_BYTES: u32 = 56 << 20;

#[test]
#[cfg(feature = "wasi")]
fn p1_5_a_guest_that_asks_for_a_lot_of_randomness_makes_way_meanwhile() {
    run(async |handle| {
        let asking = asking_for_randomness(CALL_BYTES);
        let guest = host().spawn(&handle, &asking, GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(0));
        let preemptions = guest.stats().preemptions;
        assert!(preemptions >= 3, "{preemptions} times in one call over {CALL_BYTES} bytes");
        let beyond = asking_for_randomness(i32::MAX as u32);
        let guest = host().spawn(&handle, &beyond, GuestConfig::new()).unwrap();
        assert!(matches!(guest.exit().await, Exit::Trapped(_)), "an error, which this guest traps on");
    });
}

#[test]
#[cfg(feature = "wasi")]
fn p1_5_files_and_streams_of_preview_1_are_written_and_read_in_pieces_of_256_kib() {
    run(async |handle| {
        // Opens `big` in its only folder, writes 1 MiB, reads it back at 0, and returns how much
        // that moved, in KiB.
        let program = program(
            r#"(module
                (import "wasi_snapshot_preview1" "path_open"
                    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
                (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
                (import "wasi_snapshot_preview1" "fd_pread" (func $read (param i32 i32 i32 i64 i32) (result i32)))
                (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
                (memory (export "memory") 64)
                (data (i32.const 64) "big")
                (func (export "_start")
                    (i32.store (i32.const 8) (i32.const 65536))
                    (i32.store (i32.const 12) (i32.const 1048576))
                    (if (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 3) (i32.const 1)
                            (i64.const 66) (i64.const 66) (i32.const 0) (i32.const 16)) (then unreachable))
                    (if (call $write (i32.load (i32.const 16)) (i32.const 0) (i32.const 2) (i32.const 20))
                        (then unreachable))
                    (if (i32.ne (i32.load (i32.const 12)) (i32.const 1048576)) (then unreachable))
                    (if (call $read (i32.load (i32.const 16)) (i32.const 0) (i32.const 2) (i64.const 0) (i32.const 24))
                        (then unreachable))
                    (if (i32.ne (i32.load (i32.const 20)) (i32.const 262144)) (then unreachable))
                    ;; The same to its standard output, of all of its memory but a page.
                    (i32.store (i32.const 12) (i32.const 4128768))
                    (if (call $write (i32.const 1) (i32.const 0) (i32.const 2) (i32.const 20)) (then unreachable))
                    (if (i32.ne (i32.load (i32.const 20)) (i32.const 262144)) (then unreachable))
                    ;; Too many buffers are an error.
                    (if (i32.ne (call $write (i32.const 1) (i32.const 0) (i32.const 1025) (i32.const 20)) (i32.const 28))
                        (then unreachable))
                    (call $exit (i32.div_u (i32.load (i32.const 24)) (i32.const 1024)))))"#,
        );
        let path = std::env::temp_dir().join(format!("mainspring-pieces-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let mut config = GuestConfig::new();
        let folder = path.clone();
        config.wasi.folders.push(mainspring_host::Folder {
            path: folder,
            guest_path: "/".into(),
            writable: true,
        });
        let guest = host().spawn(&handle, &program, config).unwrap();
        let exit = guest.exit().await;
        let length = std::fs::metadata(path.join("big")).map(|file| file.len());
        std::fs::remove_dir_all(&path).unwrap();
        assert!(matches!(exit, Exit::Returned(1..=256)), "read so many KiB at once: {exit:?}");
        assert_eq!(length.unwrap(), 262_144);
    });
}

#[test]
fn p2_1_a_guest_is_killed_while_it_waits() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        assert!(puppet.arm(target, 1, Duration::from_secs(3600), Duration::ZERO).await.is_ok());
        puppet.start_poll(target, 8, TIMEOUT_FOREVER).await;
        until(&handle, || puppet.guest.stats().phase == GuestPhase::Waiting).await;
        puppet.guest.kill();
        assert_eq!(puppet.guest.exit().await, Exit::Killed);
        let stats = puppet.guest.stats();
        assert_eq!(
            (stats.phase, stats.handles, stats.watches, stats.timers, stats.buffered_bytes),
            (GuestPhase::Ended, 0, 0, 0, 0),
            "everything is freed"
        );
        let peer = mainspring_reactor::Async::new(&handle, peer).unwrap();
        let mut buffer = [0; 1];
        let closed = peer.read_with(|mut peer| std::io::Read::read(&mut peer, &mut buffer)).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "its connections are closed");
    });
}

#[test]
fn p2_2_a_guest_is_killed_while_it_runs_by_another_thread() {
    run(async |handle| {
        let guest = host().spawn(&handle, &spinner(), GuestConfig::new()).unwrap();
        let control = guest.control();
        until(&handle, || guest.stats().preemptions > 0).await;
        std::thread::spawn(move || control.kill()).join().unwrap();
        assert_eq!(guest.exit().await, Exit::Killed);
    });
}

#[test]
fn p2_3_a_guest_is_killed_before_it_ran_and_killing_the_dead_does_nothing() {
    run(async |handle| {
        let guest = host().spawn(&handle, &spinner(), GuestConfig::new()).unwrap();
        guest.kill();
        assert_eq!(guest.exit().await, Exit::Killed);
        assert_eq!(guest.stats().cpu_time, Duration::ZERO);
        guest.kill();
        assert_eq!(guest.exit().await, Exit::Killed);
        assert!(guest.control().is_ended());
    });
}

#[test]
fn p2_4_a_guest_is_killed_from_inside_one_of_its_own_calls() {
    run(async |handle| {
        // It reports, is killed while it does, and never waits again.
        let program = program(
            r#"(module
                (import "env" "zi_telemetry" (func $tell (param i64 i32 i64 i32) (result i32)))
                (memory (export "memory") 1)
                (func (export "_start")
                    (drop (call $tell (i64.const 0) (i32.const 1) (i64.const 0) (i32.const 1)))
                    (loop $spin (br $spin))))"#,
        );
        let control = std::rc::Rc::new(std::cell::OnceCell::<mainspring_host::GuestControl>::new());
        let theirs = control.clone();
        let mut config = GuestConfig::new();
        config.on_telemetry(move |_, _| theirs.get().expect("the guest runs on a later turn").kill());
        let guest = host().spawn(&handle, &program, config).unwrap();
        control.set(guest.control()).unwrap();
        assert_eq!(guest.exit().await, Exit::Killed);
    });
}

#[test]
fn p2_5_a_guest_is_killed_while_it_is_preempted_or_connects() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        assert!(puppet.open_tcp("localhost", 9, 0).await >= 3);
        puppet.order(Command { op: OP_SPIN, ..Command::default() }).await;
        until(&handle, || puppet.guest.stats().preemptions > 1).await;
        puppet.guest.kill();
        assert_eq!(puppet.guest.exit().await, Exit::Killed);
        until(&handle, || handle.task_count() == 0).await;
    });
}

#[test]
fn p2_6_a_dropped_loop_ends_its_guests() {
    let mut reactor = mainspring_reactor::Reactor::new().unwrap();
    let before = host().stats().killed;
    let handle = reactor.handle();
    let puppet = Puppet::start(&handle);
    reactor.block_on(puppet.open_loop()).unwrap();
    drop(reactor);
    assert_eq!(puppet.guest.exit_now(), Some(Exit::Killed));
    assert!(host().stats().killed > before);
}

#[test]
fn p3_1_memory_is_limited_and_refusals_are_counted() {
    run(async |handle| {
        let limits = Limits { memory_bytes: MEMORY_BYTES as usize + 3 * 65_536, ..Limits::default() };
        let puppet = Puppet::start_with(&handle, limited(limits));
        assert_eq!(puppet.guest.stats().memory_bytes, 0, "it has not run");
        assert_eq!(puppet.plain(OP_GROW, [2, 0, 0, 0]).await, 32);
        assert_eq!(puppet.plain(OP_GROW, [2, 0, 0, 0]).await, -1);
        assert_eq!(puppet.plain(OP_ALLOC, [2 * 65_536, 0, 0, 0]).await, 0);
        assert_eq!(puppet.guest.stats().refused(Limit::Memory), 2);
        assert_eq!(puppet.plain(OP_GROW, [1, 0, 0, 0]).await, 34);
        assert_eq!(puppet.guest.stats().memory_bytes, MEMORY_BYTES + 3 * 65_536);
    });
}

#[test]
fn p3_2_a_guest_that_wants_too_much_memory_from_the_start_does_not_start() {
    run(async |handle| {
        let program = program(r#"(module (memory (export "memory") 100) (func (export "_start")))"#);
        let limits = Limits { memory_bytes: 65_536, ..Limits::default() };
        let guest = host().spawn(&handle, &program, limited(limits)).unwrap();
        assert!(matches!(guest.exit().await, Exit::Trapped(_)));
        assert_eq!(guest.stats().refused(Limit::Memory), 1);
    });
}

#[test]
fn p3_3_total_cpu_time_is_limited() {
    run(async |handle| {
        let limits = Limits { cpu_total: Some(Duration::from_millis(20)), ..Limits::default() };
        let guest = host().spawn(&handle, &spinner(), limited(limits)).unwrap();
        assert_eq!(guest.exit().await, Exit::OverLimit(Limit::CpuTotal));
        assert_eq!(guest.stats().refused(Limit::CpuTotal), 1);
        assert!(guest.stats().cpu_time >= Duration::from_millis(20));
    });
}

/// The CPU time of this thread, which is the loop's.
fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

#[test]
fn p3_3_a_guest_is_not_ended_for_the_time_that_the_system_ran_something_else() {
    let limit = Duration::from_millis(100);
    let done = std::sync::atomic::AtomicBool::new(false);
    let burners = 4 * std::thread::available_parallelism().map_or(2, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..burners {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let limits = Limits { cpu_total: Some(limit), ..Limits::default() };
        let mut reactor = mainspring_reactor::Reactor::new().unwrap();
        let guest = host().spawn(&reactor, &spinner(), limited(limits)).unwrap();
        let before = thread_cpu_time();
        let exit = reactor.block_on(guest.exit()).unwrap();
        let used = thread_cpu_time() - before;
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(exit, Exit::OverLimit(Limit::CpuTotal));
        assert!(used >= limit * 9 / 10, "ended after {used:?} of CPU time");
        assert!(guest.stats().cpu_time >= limit, "{:?}", guest.stats());
    });
}

#[test]
fn p3_4_handles_are_limited() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, limited(Limits { handles: 6, ..Limits::default() }));
        let (first, _second) = (puppet.open_loop().await, puppet.open_loop().await);
        assert_eq!(puppet.open("sys", "loop", &[]).await, OOM);
        assert_eq!(puppet.open_tcp("127.0.0.1", 0, 1).await, OOM);
        assert_eq!(puppet.open_tcp("127.0.0.1", 80, 0).await, OOM);
        assert_eq!(puppet.guest.stats().refused(Limit::Handles), 3);
        assert_eq!(puppet.end(first).await, OK);
        puppet.open_loop().await;
    });
}

#[test]
fn p3_5_watches_and_timers_are_limited_over_all_loops_of_a_guest() {
    run(async |handle| {
        let limits = Limits { watches: 3, timers: 2, ..Limits::default() };
        let puppet = Puppet::start_with(&handle, limited(limits));
        let (one, other) = (puppet.open_loop().await, puppet.open_loop().await);
        assert!(puppet.watch(one, 2, WRITABLE, 1).await.is_ok());
        assert!(puppet.watch(other, 2, WRITABLE, 1).await.is_ok());
        assert_eq!(puppet.watch(other, 2, WRITABLE, 2).await.message(), "too many watches");
        let hour = Duration::from_secs(3600);
        assert!(puppet.arm(one, 1, hour, Duration::ZERO).await.is_ok());
        assert!(puppet.arm(other, 1, hour, Duration::ZERO).await.is_ok());
        assert_eq!(puppet.arm(one, 2, hour, Duration::ZERO).await.message(), "too many timers");
        let stats = puppet.guest.stats();
        assert_eq!((stats.refused(Limit::Watches), stats.refused(Limit::Timers)), (1, 1));
        assert!(puppet.unwatch(one, 1).await.is_ok());
        assert!(puppet.cancel(one, 1).await.is_ok());
        assert!(puppet.watch(other, 2, WRITABLE, 2).await.is_ok());
        assert!(puppet.arm(other, 2, hour, Duration::ZERO).await.is_ok());
    });
}

#[test]
fn p3_6_buffered_bytes_are_limited_over_all_handles_of_a_guest() {
    run(async |handle| {
        let limits = Limits { buffered_bytes: 1000, ..Limits::default() };
        let puppet = Puppet::start_with(&handle, limited(limits));
        let (one, other) = (puppet.open_loop().await, puppet.open_loop().await);
        let frame = Unwatch { watch_id: 1 }.to_frame(1);
        let mut accepted = 0;
        loop {
            match puppet.write(one, &frame).await {
                AGAIN => break,
                count => accepted += count,
            }
            assert!(accepted < 100_000);
        }
        assert!(puppet.guest.stats().buffered_bytes <= 1000);
        assert_eq!(puppet.write(other, &frame).await, OOM, "nothing to read here, so no use in coming back");
        assert!(puppet.guest.stats().refused(Limit::BufferedBytes) >= 2);
        while puppet.read(one, 4096).await.is_ok() {}
        assert_eq!(puppet.request(other, &frame).await.message(), "unknown watch_id");
    });
}

#[test]
fn p3_7_blocks_of_memory_are_limited() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, limited(Limits { allocations: 2, ..Limits::default() }));
        let first = puppet.plain(OP_ALLOC, [8, 0, 0, 0]).await;
        assert!(puppet.plain(OP_ALLOC, [8, 0, 0, 0]).await > 0);
        assert_eq!(puppet.plain(OP_ALLOC, [8, 0, 0, 0]).await, 0);
        assert_eq!(puppet.guest.stats().refused(Limit::Allocations), 1);
        assert_eq!(puppet.plain(OP_FREE, [first, 0, 0, 0]).await, OK);
        assert!(puppet.plain(OP_ALLOC, [8, 0, 0, 0]).await > 0);
    });
}

#[test]
fn p3_8_guests_are_limited_and_a_place_is_free_again_when_one_has_ended() {
    run(async |handle| {
        let mut config = HostConfig::default();
        config.guests_max = 2;
        let host = config.build().unwrap();
        let bytes = wat::parse_str(r#"(module (memory 1) (func (export "_start") (loop $spin (br $spin))))"#)
            .unwrap();
        let program = host.compile(&bytes).unwrap();
        let first = host.spawn(&handle, &program, GuestConfig::new()).unwrap();
        let second = host.spawn(&handle, &program, GuestConfig::new()).unwrap();
        let refused = host.spawn(&handle, &program, GuestConfig::new()).unwrap_err();
        assert!(refused.to_string().contains("2 guests are running"), "{refused}");
        assert_eq!((host.stats().guests, host.stats().not_admitted), (2, 1));
        first.kill();
        first.exit().await;
        let third = host.spawn(&handle, &program, GuestConfig::new()).unwrap();
        until(&handle, || third.stats().preemptions > 0).await;
        second.kill();
        third.kill();
        second.exit().await;
        third.exit().await;
        let stats = host.stats();
        assert_eq!((stats.guests, stats.started, stats.killed), (0, 3, 3));
    });
}

#[test]
fn p3_9_a_deep_recursion_is_a_trap_and_not_a_crash() {
    run(async |handle| {
        let program = program(r#"(module (func $down (export "_start") (call $down)))"#);
        let guest = host().spawn(&handle, &program, GuestConfig::new()).unwrap();
        let Exit::Trapped(report) = guest.exit().await else { panic!("it trapped") };
        assert!(report.message.contains("stack"), "{report}");
    });
}

#[test]
fn p3_10_too_many_guests_for_the_systems_mappings_is_said_in_words() {
    let Ok(allowed) = std::fs::read_to_string("/proc/sys/vm/max_map_count") else { return };
    let Ok(allowed) = allowed.trim().parse::<u64>() else { return };
    let mut config = HostConfig::default();
    let Ok(guests_max) = u32::try_from(allowed / 5 + 1) else { return };
    config.guests_max = guests_max;
    let refused = config.build().unwrap_err().to_string();
    assert!(refused.contains("vm.max_map_count"), "{refused}");
}

#[test]
fn p4_1_numbers_tell_a_busy_guest_from_a_waiting_one() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let before = puppet.guest.stats();
        for _ in 0..10 {
            puppet.poll(target, 1, 0).await;
        }
        assert!(puppet.watch(target, 2, WRITABLE, 1).await.is_ok());
        puppet.poll(target, 1, TIMEOUT_FOREVER).await;
        let after = puppet.guest.stats();
        assert_eq!(after.zero_timeout_polls - before.zero_timeout_polls, 10);
        assert_eq!(after.empty_polls - before.empty_polls, 10);
        assert!(after.polls - before.polls >= 11);
        assert!(after.events > before.events && after.wakeups > before.wakeups);
        assert!(after.cpu_time > before.cpu_time);
    });
}

#[test]
fn p3_11_guests_together_hold_no_more_descriptors_than_there_are_for_them() {
    run(async |handle| {
        let mut config = HostConfig::default();
        (config.guests_max, config.descriptors_max) = (4, 2);
        let host = config.build().unwrap();
        let program = puppet_of(&host);
        let (first, second) = (
            Puppet::start_on(&host, &program, &handle, with_loopback()),
            Puppet::start_on(&host, &program, &handle, with_loopback()),
        );
        let (listener, port) = first.listen().await;
        let connection = first.open_tcp("127.0.0.1", port, 0).await;
        assert!(connection >= 0);
        assert_eq!(host.stats().descriptors, 2);
        assert_eq!(second.open_tcp("127.0.0.1", port, 0).await, OOM);
        assert_eq!(second.guest.stats().refused(Limit::Handles), 1);
        assert!(second.open_loop().await >= 0, "what holds no descriptor is not meant");
        assert_eq!(first.end(connection).await, OK);
        let again = second.open_tcp("127.0.0.1", port, 0).await;
        assert!(again >= 0);
        assert_eq!(first.read(listener, 32).await, Err(OOM), "nor is a connection accepted beyond that");
        second.guest.kill();
        second.guest.exit().await;
        assert_eq!(host.stats().descriptors, 1, "and none is left over");
    });
}

/// How long it takes to end so many watches, each of one of the handles.
async fn time_to_end_watches(handle: &Handle, handles: &[i64], puppet: &Puppet, count: u64) -> Duration {
    let target = puppet.open_loop().await;
    let frames = |frame: &dyn Fn(u64) -> Vec<u8>| (1..=count).flat_map(frame).collect::<Vec<u8>>();
    let watch = |id: u64| {
        let handle = handles[id as usize % handles.len()] as u32;
        Watch { handle, events: READABLE, watch_id: id }.to_frame(1).to_vec()
    };
    write_all(puppet, target, &frames(&watch)).await;
    assert!(puppet.guest.stats().watches > count);
    let unwatch = frames(&|id| Unwatch { watch_id: id }.to_frame(1).to_vec());
    let before = puppet.guest.stats().cpu_time;
    write_all(puppet, target, &unwatch).await;
    handle.sleep(Duration::from_millis(1)).await.unwrap();
    let time = puppet.guest.stats().cpu_time - before;
    assert!(puppet.guest.stats().watches < count);
    puppet.end(target).await;
    time
}

/// Writes more requests than there is room for answers.
async fn write_all(puppet: &Puppet, target: i64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let piece = &bytes[..bytes.len().min(60_000)];
        let taken = puppet.write(target, piece).await;
        assert!(taken > 0, "{taken}");
        while puppet.read(target, 65_536).await.is_ok() {}
        bytes = &bytes[taken as usize..];
    }
}

#[test]
fn p1_6_thousands_of_watches_of_one_handle_end_as_fast_as_those_of_many() {
    run(async |handle| {
        let mut config = with_loopback();
        config.limits.watches = 40_000;
        let puppet = Puppet::start_with(&handle, config);
        let mut listeners = Vec::new();
        for _ in 0..64 {
            listeners.push(puppet.listen().await.0);
        }
        // Enough of them that a scan for each would be the most of it.
        let (mut one, mut many) = (Duration::MAX, Duration::MAX);
        for _ in 0..3 {
            one = one.min(time_to_end_watches(&handle, &listeners[..1], &puppet, 30_000).await);
            many = many.min(time_to_end_watches(&handle, &listeners, &puppet, 30_000).await);
        }
        assert!(one < many * 3, "{one:?} for one handle, {many:?} for 64");
    });
}
