//! Standard streams: pipes, descriptors, files, and nothing.

mod support;

use mainspring_host::{Exit, GuestConfig, Stdin, Stdout, pipe};
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use support::*;

/// A guest that copies its input to its output, waiting in POLL whenever it has to, and returns how
/// many polls that took.
fn cat() -> mainspring_host::Program {
    use mainspring_zcl::sys_loop::{Poll, TIMEOUT_FOREVER, Watch};
    let watch_in = Watch { handle: 0, events: READABLE, watch_id: 1 }.to_frame(1);
    let watch_out = Watch { handle: 1, events: WRITABLE, watch_id: 2 }.to_frame(1);
    let unwatch_out = mainspring_zcl::sys_loop::Unwatch { watch_id: 2 }.to_frame(1);
    let poll = Poll { max_events: 2, timeout_ms: TIMEOUT_FOREVER }.to_frame(1);
    let open = mainspring_zcl::cap::CapOpen {
        kind_ptr: 0x80,
        kind_len: 3,
        name_ptr: 0x83,
        name_len: 4,
        mode: 0,
        params_ptr: 0,
        params_len: 0,
    };
    program(&format!(
        r#"(module
            (import "env" "zi_read" (func $read (param i32 i64 i32) (result i32)))
            (import "env" "zi_write" (func $write (param i32 i64 i32) (result i32)))
            (import "env" "zi_cap_open" (func $open (param i64) (result i32)))
            (memory (export "memory") 2)
            (data (i32.const 0) "{open}") (data (i32.const 0x80) "sysloop")
            (data (i32.const 0x100) "{watch_in}") (data (i32.const 0x200) "{watch_out}")
            (data (i32.const 0x300) "{unwatch_out}") (data (i32.const 0x400) "{poll}")
            (global $loop (mut i32) (i32.const 0))
            (global $polls (mut i32) (i32.const 0))
            (func $ask (param $at i64) (param $length i32)
                (drop (call $write (global.get $loop) (local.get $at) (local.get $length)))
                (drop (call $read (global.get $loop) (i64.const 0x1000) (i32.const 1024))))
            (func $wait (global.set $polls (i32.add (global.get $polls) (i32.const 1)))
                (call $ask (i64.const 0x400) (i32.const 32)))
            (func $put (param $at i32) (param $left i32)
                (local $count i32)
                (loop $again
                    (if (i32.eqz (local.get $left)) (then (return)))
                    (local.set $count
                        (call $write (i32.const 1) (i64.extend_i32_u (local.get $at)) (local.get $left)))
                    (if (i32.eq (local.get $count) (i32.const -6))
                        (then
                            (call $ask (i64.const 0x200) (i32.const 44))
                            (call $wait)
                            (call $ask (i64.const 0x300) (i32.const 32))
                            (br $again)))
                    (if (i32.le_s (local.get $count) (i32.const 0)) (then unreachable))
                    (local.set $at (i32.add (local.get $at) (local.get $count)))
                    (local.set $left (i32.sub (local.get $left) (local.get $count)))
                    (br $again)))
            (func (export "main") (param i32 i32) (result i32)
                (local $count i32)
                (global.set $loop (call $open (i64.const 0)))
                (call $ask (i64.const 0x100) (i32.const 44))
                (loop $again
                    (local.set $count (call $read (i32.const 0) (i64.const 0x10000) (i32.const 65536)))
                    (if (i32.eq (local.get $count) (i32.const -6)) (then (call $wait) (br $again)))
                    (if (i32.lt_s (local.get $count) (i32.const 0)) (then unreachable))
                    (if (i32.gt_s (local.get $count) (i32.const 0))
                        (then (call $put (i32.const 0x10000) (local.get $count)) (br $again))))
                (global.get $polls)))"#,
        open = escaped(&open.encode()),
        watch_in = escaped(&watch_in),
        watch_out = escaped(&watch_out),
        unwatch_out = escaped(&unwatch_out),
        poll = escaped(&poll),
    ))
}

fn returned(exit: &Exit) -> i32 {
    match exit {
        Exit::Returned(polls) => *polls,
        other => panic!("{other:?}"),
    }
}

#[test]
fn s1_1_without_streams_input_is_at_its_end_and_output_goes_nowhere() {
    run(async |handle| {
        let guest = host().spawn(&handle, &cat(), GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(0));
    });
}

#[test]
fn s1_2_a_guest_copies_more_than_its_pipes_hold_in_either_direction() {
    run(async |handle| {
        let (input, stdin) = pipe(1000);
        let (stdout, output) = pipe(700);
        let mut config = GuestConfig::new();
        (config.stdin, config.stdout) = (Stdin::Pipe(stdin), Stdout::Pipe(stdout));
        let guest = host().spawn(&handle, &cat(), config).unwrap();
        let content: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        let theirs = content.clone();
        let writing = handle.spawn(async move { input.write_all(&theirs).await }).unwrap();
        assert_eq!(output.read_to_end().await, content);
        assert_eq!(writing.await, Ok(true));
        let polls = returned(&guest.exit().await);
        assert!((100..2000).contains(&polls), "{polls} polls");
    });
}

#[test]
fn s1_3_descriptors_serve_as_streams_and_are_watched() {
    run(async |handle| {
        let (mut input, stdin) = UnixStream::pair().unwrap();
        let (stdout, mut output) = UnixStream::pair().unwrap();
        let mut config = GuestConfig::new();
        config.stdin = Stdin::Fd(OwnedFd::from(stdin));
        config.stdout = Stdout::Fd(OwnedFd::from(stdout));
        let guest = host().spawn(&handle, &cat(), config).unwrap();
        let content: Vec<u8> = (0..1_000_000u32).map(|number| (number * 7) as u8).collect();
        let theirs = content.clone();
        let writing = std::thread::spawn(move || input.write_all(&theirs).unwrap());
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            output.read_to_end(&mut all).unwrap();
            all
        });
        returned(&guest.exit().await);
        writing.join().unwrap();
        assert_eq!(reading.join().unwrap(), content);
    });
}

#[test]
fn s1_4_files_serve_as_streams() {
    run(async |handle| {
        let folder = std::env::temp_dir().join(format!("mainspring-stdio-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let content: Vec<u8> = (0..300_000u32).map(|number| (number * 3) as u8).collect();
        std::fs::write(folder.join("in"), &content).unwrap();
        let mut result = std::fs::File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(folder.join("out"))
            .unwrap();
        let mut config = GuestConfig::new();
        config.stdin = Stdin::Fd(std::fs::File::open(folder.join("in")).unwrap().into());
        config.stdout = Stdout::Fd(result.try_clone().unwrap().into());
        let guest = host().spawn(&handle, &cat(), config).unwrap();
        returned(&guest.exit().await);
        let mut copied = Vec::new();
        result.rewind().unwrap();
        result.read_to_end(&mut copied).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(copied, content);
    });
}

#[test]
fn s1_4_a_device_without_end_is_read_in_pieces_of_64_kib() {
    run(async |handle| {
        let program = program(
            r#"(module
                (import "env" "zi_read" (func $read (param i32 i64 i32) (result i32)))
                (memory (export "memory") 512)
                (func (export "main") (param i32 i32) (result i32)
                    (call $read (local.get 0) (i64.const 0) (i32.const 0x2000000))))"#,
        );
        let mut config = GuestConfig::new();
        config.stdin = Stdin::Fd(std::fs::File::open("/dev/zero").unwrap().into());
        let guest = host().spawn(&handle, &program, config).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(65_536));
    });
}

#[test]
fn s1_5_a_reader_that_goes_away_is_an_error_to_the_guest_and_not_a_signal_to_the_host() {
    run(async |handle| {
        let (stdout, output) = UnixStream::pair().unwrap();
        drop(output);
        let (input, stdin) = pipe(100);
        assert!(input.write_all(b"for nobody").await);
        let mut config = GuestConfig::new();
        (config.stdin, config.stdout) = (Stdin::Pipe(stdin), Stdout::Fd(stdout.into()));
        let guest = host().spawn(&handle, &cat(), config).unwrap();
        assert!(matches!(guest.exit().await, Exit::Trapped(_)), "the test's guest gives up");
    });
}

#[test]
fn s1_6_a_stream_that_the_guest_closed_is_at_its_end_for_the_host() {
    run(async |handle| {
        let program = program(
            r#"(module
                (import "env" "zi_end" (func $end (param i32) (result i32)))
                (func (export "_start") (drop (call $end (i32.const 1))) (loop $spin (br $spin))))"#,
        );
        let (stdout, output) = pipe(100);
        let mut config = GuestConfig::new();
        config.stdout = Stdout::Pipe(stdout);
        let guest = host().spawn(&handle, &program, config).unwrap();
        assert_eq!(output.read_to_end().await, b"");
        guest.kill();
        guest.exit().await;
    });
}
