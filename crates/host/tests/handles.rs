//! Handles, capabilities and the other `zi_*` calls, and what they say to hostile arguments.

mod support;

use mainspring_host::{Exit, GuestConfig, Limits};
use mainspring_zcl::cap::CapOpen;
use mainspring_zcl::ctl::{HandleOp, OP_CAPS_LIST};
use mainspring_zcl::info::RandomSeed;
use mainspring_zcl::{Header, Reader};
use std::cell::RefCell;
use std::rc::Rc;
use support::*;

#[test]
fn h1_1_closed_numbers_are_used_again_the_oldest_first() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let mut opened = Vec::new();
        for _ in 0..4 {
            opened.push(puppet.open_loop().await);
        }
        assert_eq!(opened, [4, 5, 6, 7], "3 is the guest's own loop");
        for number in [6, 4, 5] {
            assert_eq!(puppet.end(number).await, OK);
        }
        let mut again = Vec::new();
        for _ in 0..4 {
            again.push(puppet.open_loop().await);
        }
        assert_eq!(again, [6, 4, 5, 8]);
    });
}

#[test]
fn h1_2_ending_twice_is_closed_and_never_opened_is_nosys() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        assert_eq!(puppet.end(target).await, OK);
        assert_eq!(puppet.end(target).await, CLOSED);
        assert_eq!(puppet.read(target, 8).await, Err(NOSYS));
        assert_eq!(puppet.write(target, b"x").await, NOSYS);
        for number in [99, -1, i64::from(i32::MIN), i64::from(i32::MAX)] {
            assert_eq!(puppet.end(number).await, NOSYS);
            assert_eq!(puppet.read(number, 8).await, Err(NOSYS));
            assert_eq!(puppet.write(number, b"x").await, NOSYS);
            assert_eq!(puppet.plain(OP_HFLAGS, [number, 0, 0, 0]).await, 0);
        }
    });
}

#[test]
fn h1_3_a_hundred_thousand_opens_and_closes_use_the_same_few_numbers() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let opening = Puppet::opening("sys", "loop", &[]);
        let data = Command { op: OP_ABI_VERSION, data: &opening, data_at: AT, ..Command::default() };
        puppet.call(data).await;
        let worked = puppet.plain(OP_OPEN_AND_CLOSE, [i64::from(AT), 100_000, 5, 0]).await;
        assert_eq!(worked, 100_000);
        assert_eq!(puppet.guest.stats().handles, 4);
    });
}

#[test]
fn h1_4_handle_flags_tell_what_a_handle_can_do() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let arguments = puppet.open("proc", "argv", &[]).await;
        let target = puppet.open_loop().await;
        let (listener, _) = puppet.listen().await;
        for (number, flags) in [(0, 5), (1, 6), (2, 6), (arguments, 5), (target, 7), (listener, 5)] {
            assert_eq!(puppet.plain(OP_HFLAGS, [number, 0, 0, 0]).await, flags, "handle {number}");
        }
    });
}

#[test]
fn h1_5_reading_what_can_only_be_written_is_nosys_and_the_other_way_round() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let arguments = puppet.open("proc", "argv", &[]).await;
        assert_eq!(puppet.read(1, 8).await, Err(NOSYS));
        assert_eq!(puppet.write(0, b"x").await, NOSYS);
        assert_eq!(puppet.read(2, 8).await, Err(NOSYS));
        assert_eq!(puppet.write(arguments, b"x").await, NOSYS);
    });
}

#[test]
fn h1_6_a_transfer_of_nothing_is_nothing_and_needs_a_handle() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        assert_eq!(puppet.read(0, 0).await.unwrap(), b"");
        assert_eq!(puppet.write(1, b"").await, 0);
        assert_eq!(puppet.write(99, b"").await, NOSYS);
    });
}

#[test]
fn h2_1_the_abi_version_is_2_5() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        assert_eq!(puppet.plain(OP_ABI_VERSION, [0; 4]).await, 0x0002_0005);
    });
}

async fn capability(puppet: &Puppet, index: i64) -> (String, String, u32) {
    let size = puppet.plain(OP_CAP_GET_SIZE, [index, 0, 0, 0]).await;
    let get = Command {
        op: OP_CAP_GET,
        arguments: [index, i64::from(OUT), size, 0],
        out: Output::Returned(OUT),
        ..Command::default()
    };
    let (written, record) = puppet.call(get).await;
    assert_eq!(written, size);
    let mut reader = Reader::new(&record);
    let mut text = || String::from_utf8(reader.string().unwrap().to_vec()).unwrap();
    let (kind, name) = (text(), text());
    let flags = reader.u32().unwrap();
    assert!(reader.rest().is_empty());
    (kind, name, flags)
}

#[test]
fn h2_2_capabilities_are_listed_in_order_one_by_one_and_by_ctl() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let count = puppet.plain(OP_CAP_COUNT, [0; 4]).await;
        let mut found = Vec::new();
        for index in 0..count {
            found.push(capability(&puppet, index).await);
        }
        let names: Vec<String> = found.iter().map(|(kind, name, _)| format!("{kind}/{name}")).collect();
        assert_eq!(names, ["net/tcp", "proc/argv", "proc/env", "sys/info", "sys/loop"]);
        assert_eq!(found[4].2, 1 | 4, "the loop may block");
        let (length, answer) = ctl(&puppet, &Header::request(OP_CAPS_LIST, 3, 0).encode(), 4096).await;
        assert_eq!(length as usize, answer.len());
        let Answer::Ok { op: 1, rid: 3, payload } = Answer::decode(&answer) else { panic!("not ok") };
        let mut reader = Reader::new(&payload);
        assert_eq!((reader.u32().unwrap(), reader.u32().unwrap()), (1, 5));
        for (kind, name, flags) in &found {
            assert_eq!(reader.string().unwrap(), kind.as_bytes());
            assert_eq!(reader.string().unwrap(), name.as_bytes());
            assert_eq!(reader.u32().unwrap(), *flags);
            assert_eq!(reader.string().unwrap(), b"", "no metadata");
        }
        assert!(reader.rest().is_empty());
        assert_eq!(puppet.plain(OP_CAP_GET_SIZE, [count, 0, 0, 0]).await, NOENT);
        assert_eq!(puppet.plain(OP_CAP_GET_SIZE, [-1, 0, 0, 0]).await, NOENT);
        assert_eq!(puppet.plain(OP_CAP_GET, [0, i64::from(OUT), 3, 0]).await, BOUNDS);
    });
}

async fn ctl(puppet: &Puppet, request: &[u8], capacity: i64) -> (i64, Vec<u8>) {
    let arguments = [i64::from(AT), request.len() as i64, i64::from(OUT), capacity];
    let out = Output::Returned(OUT);
    puppet.call(Command { op: OP_CTL, arguments, data: request, data_at: AT, out }).await
}

#[test]
fn h2_3_ctl_refuses_what_it_does_not_know_with_a_trace() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let trace_of = |answer: Answer| match answer {
            Answer::Error { trace, .. } => trace,
            Answer::Ok { .. } => panic!("{answer:?}"),
        };
        let too_long = [&Header::request(1, 1, 0).encode()[..], b"x"].concat();
        let mut bad_handle_op = HandleOp { handle: 1, op: 1 }.to_frame(1);
        bad_handle_op[24] = 2;
        let target = puppet.open_loop().await as u32;
        for (request, capacity, trace) in [
            (b"nonsense".to_vec(), 4096, "t_ctl_bad_frame"),
            (vec![], 4096, "t_ctl_bad_frame"),
            (too_long, 4096, "t_ctl_bad_frame"),
            (vec![0; 10_000], 4096, "t_ctl_bad_frame"),
            (Header::request(1, 1, 0).encode().to_vec(), 80, "t_ctl_overflow"),
            (Header::request(2, 1, 0).encode().to_vec(), 4096, "t_ctl_unknown_op"),
            (Header::request(3, 1, 0).encode().to_vec(), 4096, "t_ctl_unknown_op"),
            (Header::request(4, 1, 0).encode().to_vec(), 4096, "t_ctl_bad_handle_op"),
            (bad_handle_op.to_vec(), 4096, "t_ctl_bad_handle_op"),
            (HandleOp { handle: 1, op: 9 }.to_frame(1).to_vec(), 4096, "t_ctl_bad_handle_op"),
            (HandleOp { handle: 999, op: 1 }.to_frame(1).to_vec(), 4096, "t_ctl_bad_handle"),
            (HandleOp { handle: u32::MAX, op: 1 }.to_frame(1).to_vec(), 4096, "t_ctl_bad_handle"),
            (HandleOp { handle: target, op: 1 }.to_frame(1).to_vec(), 4096, "t_ctl_nosys"),
        ] {
            let (length, answer) = ctl(&puppet, &request, capacity).await;
            assert!(length > 0, "{trace}: {length}");
            assert_eq!(trace_of(Answer::decode(&answer)), trace);
        }
        assert_eq!(ctl(&puppet, b"nonsense", 10).await.0, BOUNDS, "not even the error fits");
    });
}

#[test]
fn h2_4_opening_refuses_unknown_names_bad_modes_and_empty_names() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        assert_eq!(puppet.open("sys", "nothing", &[]).await, NOENT);
        assert_eq!(puppet.open("", "loop", &[]).await, INVALID);
        assert_eq!(puppet.open("sys", "", &[]).await, INVALID);
        assert_eq!(puppet.open(&"k".repeat(300), "loop", &[]).await, INVALID);
        let mut data = Puppet::opening("sys", "loop", &[]);
        data[24] = 1;
        let arguments = [i64::from(AT), 0, 0, 0];
        let open = Command { op: OP_CAP_OPEN, arguments, data: &data, data_at: AT, out: Output::None };
        assert_eq!(puppet.call(open).await.0, INVALID);
    });
}

#[test]
fn h2_5_arguments_and_environment_are_read_as_lists() {
    run(async |handle| {
        let mut config = GuestConfig::new();
        config.arguments = vec!["one".into(), String::new(), "drei".into()];
        config.environment = vec![("HOME".into(), "/nowhere".into()), ("EMPTY".into(), String::new())];
        let puppet = Puppet::start_with(&handle, config);
        for (name, expected) in [("argv", vec!["one", "", "drei"]), ("env", vec!["HOME=/nowhere", "EMPTY="])]
        {
            let stream = puppet.open("proc", name, &[]).await;
            let mut bytes = Vec::new();
            loop {
                match puppet.read(stream, 5).await.unwrap() {
                    piece if piece.is_empty() => break,
                    piece => bytes.extend(piece),
                }
            }
            let mut reader = Reader::new(&bytes);
            assert_eq!((reader.u32().unwrap(), reader.u32().unwrap() as usize), (1, expected.len()));
            for item in expected {
                assert_eq!(reader.string().unwrap(), item.as_bytes());
            }
            assert!(reader.rest().is_empty());
        }
    });
}

#[test]
fn h2_6_info_answers_its_four_questions_and_refuses_others() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let info = puppet.open("sys", "info", &[]).await;
        let ask = async |op| puppet.request(info, &Header::request(op, 1, 0).encode()).await;
        let Answer::Ok { payload, .. } = ask(1).await else { panic!("no info") };
        let mut reader = Reader::new(&payload);
        let numbers: Vec<u32> = (0..4).map(|_| reader.u32().unwrap()).collect();
        assert_eq!((numbers[0], numbers[1]), (1, 3));
        assert!(numbers[2] >= 1 && numbers[3] >= 4096);
        assert_eq!(reader.string().unwrap(), std::env::consts::OS.as_bytes());
        assert_eq!(reader.string().unwrap(), std::env::consts::ARCH.as_bytes());
        assert_eq!((reader.string().unwrap(), reader.string().unwrap()), (&b""[..], &b""[..]));
        let Answer::Ok { payload, .. } = ask(2).await else { panic!("no stats") };
        assert_eq!(payload.len(), 4 + 4 + 8 + 12 + 20);
        let seed = async || match ask(4).await {
            Answer::Ok { payload, .. } => RandomSeed::decode(&payload).unwrap(),
            error => panic!("{error:?}"),
        };
        assert_ne!(seed().await, seed().await);
        assert_eq!(ask(5).await.message(), "unknown op");
        let with_payload = [&Header::request(3, 1, 1).encode()[..], b"x"].concat();
        assert_eq!(puppet.request(info, &with_payload).await.message(), "payload must be empty");
        assert_eq!(puppet.request(info, b"nonsense").await.message(), "bad magic");
    });
}

#[test]
fn h2_7_memory_that_is_handed_out_is_the_guests_own_aligned_and_reusable() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let allocate = async |size| puppet.plain(OP_ALLOC, [size, 0, 0, 0]).await;
        let free = async |pointer| puppet.plain(OP_FREE, [pointer, 0, 0, 0]).await;
        assert_eq!(allocate(0).await, 0);
        let (first, second) = (allocate(100).await, allocate(100_000).await);
        assert!(first >= MEMORY_BYTES as i64 && second >= MEMORY_BYTES as i64, "not in the guest's own heap");
        assert!(first % 16 == 0 && second % 16 == 0 && first != second);
        let content = vec![0x5A; 100_000];
        let check = Command {
            op: OP_ABI_VERSION,
            data: &content,
            data_at: second as u32,
            out: Output::Fixed(second as u32, 100_000),
            ..Command::default()
        };
        assert_eq!(puppet.call(check).await.1, content);
        assert_eq!(free(first).await, OK);
        assert_eq!(free(first).await, INVALID);
        assert_eq!(free(0).await, INVALID);
        assert_eq!(free(second + 16).await, INVALID);
        assert_eq!(allocate(90).await, first, "used again");
        assert_eq!(allocate(-1).await, 0, "four gigabytes are too much");
        assert!(puppet.guest.stats().refused(mainspring_host::Limit::Memory) > 0);
    });
}

#[test]
fn h2_8_telemetry_reaches_whoever_asked_for_it_and_is_bounded() {
    run(async |handle| {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let theirs = seen.clone();
        let mut config = GuestConfig::new();
        config
            .on_telemetry(move |topic, message| theirs.borrow_mut().push((topic.to_vec(), message.to_vec())));
        let puppet = Puppet::start_with(&handle, config);
        let at = i64::from(AT);
        let tell = async |topic: i64, message: i64| {
            let arguments = [at, topic, at + topic, message];
            let data = b"topicmessage";
            puppet.call(Command { op: OP_TELEMETRY, arguments, data, data_at: AT, out: Output::None }).await.0
        };
        assert_eq!(tell(5, 7).await, OK);
        assert_eq!(*seen.borrow(), [(b"topic".to_vec(), b"message".to_vec())]);
        assert_eq!(tell(257, 1).await, INVALID);
        assert_eq!(tell(1, 65_537).await, INVALID);
    });
}

#[test]
fn h3_1_hostile_pointers_and_lengths_get_bounds_from_every_call() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let end = MEMORY_BYTES as i64;
        let outside = [end, end + 1, 1 << 31, 1 << 32, (1 << 32) + 100, 1 << 40, i64::MAX, -1, i64::MIN];
        for pointer in outside {
            for length in [1, 8, 65_536, -1, i64::from(i32::MIN), i64::from(i32::MAX)] {
                let at = i64::from(AT);
                for (name, op, arguments) in [
                    ("read", OP_READ, [0, pointer, length, 0]),
                    ("read a loop", OP_READ, [target, pointer, length, 0]),
                    ("write", OP_WRITE, [2, pointer, length, 0]),
                    ("write a loop", OP_WRITE, [target, pointer, length, 0]),
                    ("ctl request", OP_CTL, [pointer, length, at, 4096]),
                    ("ctl response", OP_CTL, [at, 24, pointer, length]),
                    ("telemetry topic", OP_TELEMETRY, [pointer, length, at, 1]),
                    ("telemetry message", OP_TELEMETRY, [at, 1, pointer, length]),
                    ("cap_get", OP_CAP_GET, [0, pointer, length, 0]),
                    ("cap_open", OP_CAP_OPEN, [pointer, 0, 0, 0]),
                ] {
                    let result = puppet.plain(op, arguments).await;
                    assert_eq!(result, BOUNDS, "{name} at {pointer:#x} for {length}");
                }
            }
        }
        // Straddling the end is as bad as being beyond it.
        assert_eq!(puppet.plain(OP_READ, [0, end - 7, 8, 0]).await, BOUNDS);
        assert_eq!(puppet.plain(OP_WRITE, [2, end - 7, 8, 0]).await, BOUNDS);
        assert_eq!(puppet.plain(OP_CAP_OPEN, [end - 39, 0, 0, 0]).await, BOUNDS);
        // A length that reaches around to valid addresses is not valid.
        assert_eq!(puppet.plain(OP_WRITE, [2, 8, -1, 0]).await, BOUNDS);
        assert_eq!(puppet.plain(OP_WRITE, [2, end - 8, 8, 0]).await, 8, "right up to the end is fine");
        assert_eq!(puppet.finish().await, Exit::Returned(0));
    });
}

#[test]
fn h3_2_hostile_pointers_inside_structures_get_bounds() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let good = CapOpen::decode(Puppet::opening("sys", "loop", &[]).first_chunk().unwrap());
        for bad in [MEMORY_BYTES, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            for open in [
                CapOpen { kind_ptr: bad, ..good },
                CapOpen { name_ptr: bad, ..good },
                CapOpen { params_ptr: bad, params_len: 20, ..good },
                CapOpen { kind_len: u32::MAX, ..good },
                CapOpen { name_len: u32::MAX, ..good },
                CapOpen { params_len: u32::MAX, ..good },
            ] {
                let mut data = Puppet::opening("sys", "loop", &[]);
                data[..40].copy_from_slice(&open.encode());
                let arguments = [i64::from(AT), 0, 0, 0];
                let command =
                    Command { op: OP_CAP_OPEN, arguments, data: &data, data_at: AT, out: Output::None };
                assert_eq!(puppet.call(command).await.0, BOUNDS, "{open:?}");
            }
        }
        let tcp = mainspring_zcl::cap::TcpOpen {
            host_ptr: MEMORY_BYTES,
            host_len: 9,
            port: 80,
            flags: 0,
            backlog: 0,
            out_port_ptr: 0,
        };
        assert_eq!(puppet.open("net", "tcp", &tcp.encode()).await, BOUNDS);
        let out = mainspring_zcl::cap::TcpOpen {
            host_ptr: u64::from(AT) + 46,
            host_len: 9,
            port: 0,
            flags: 1,
            backlog: 0,
            out_port_ptr: MEMORY_BYTES - 3,
        };
        let params = [&out.encode()[..], b"127.0.0.1"].concat();
        assert_eq!(puppet.open("net", "tcp", &params).await, INVALID, "41 bytes of parameters");
        let host_at = AT + 0x1000;
        let name = Command { op: OP_ABI_VERSION, data: b"127.0.0.1", data_at: host_at, ..Command::default() };
        puppet.call(name).await;
        let out = mainspring_zcl::cap::TcpOpen { host_ptr: u64::from(host_at), ..out };
        assert_eq!(puppet.open("net", "tcp", &out.encode()).await, BOUNDS);
        assert_eq!(puppet.guest.stats().handles, 4, "nothing was left open");
    });
}

#[test]
fn h3_3_a_guest_without_memory_gets_bounds() {
    run(async |handle| {
        let program = program(
            r#"(module
                (import "env" "zi_write" (func $write (param i32 i64 i32) (result i32)))
                (func (export "main") (param i32 i32) (result i32)
                    (call $write (i32.const 1) (i64.const 0) (i32.const 1))))"#,
        );
        let guest = host().spawn(&handle, &program, GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(BOUNDS as i32));
    });
}

#[test]
fn h4_1_start_functions_start_and_main_all_run_and_imports_work_in_each() {
    run(async |handle| {
        let program = program(
            r#"(module
                (import "env" "zi_alloc" (func $alloc (param i32) (result i64)))
                (import "env" "zi_write" (func $write (param i32 i64 i32) (result i32)))
                (memory (export "memory") 1)
                (global $seen (mut i32) (i32.const 0))
                (func $first
                    (if (i64.eqz (call $alloc (i32.const 8))) (then unreachable))
                    (global.set $seen (call $write (i32.const 1) (i64.const 0) (i32.const 3))))
                (start $first)
                (func (export "_initialize") (global.set $seen (i32.add (global.get $seen) (i32.const 10))))
                (func (export "main") (param i32 i32) (result i32)
                    (i32.add (global.get $seen)
                        (i32.add (i32.mul (local.get 0) (i32.const 1000)) (i32.mul (local.get 1) (i32.const 100))))))"#,
        );
        let guest = host().spawn(&handle, &program, GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(113), "start, _initialize, then main(0, 1)");
        let start = support::program(r#"(module (func (export "_start")))"#);
        let guest = host().spawn(&handle, &start, GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(0));
    });
}

#[test]
fn h4_2_what_cannot_be_run_is_refused_with_a_reason() {
    let refused = |text: &str| host().compile(&wat::parse_str(text).unwrap()).unwrap_err().to_string();
    assert!(refused("(module)").contains("neither `_start` nor `main`"));
    assert!(refused(r#"(module (func (export "main") (param i64)))"#).contains("unexpected type"));
    assert!(
        refused(r#"(module (func (export "_start") (result i32) (i32.const 0)))"#)
            .contains("unexpected type")
    );
    let unknown = r#"(module (import "env" "zi_nothing" (func)) (func (export "_start")))"#;
    assert!(refused(unknown).contains("zi_nothing"), "{}", refused(unknown));
    assert!(host().compile(b"not wasm").is_err());
}

#[test]
fn h4_3_a_trap_is_reported_with_the_guests_call_stack() {
    run(async |handle| {
        let program = program(
            r#"(module
                (func $the_culprit (unreachable))
                (func $its_caller (call $the_culprit))
                (func (export "_start") (call $its_caller)))"#,
        );
        let guest = host().spawn(&handle, &program, GuestConfig::new()).unwrap();
        let Exit::Trapped(report) = guest.exit().await else { panic!("it trapped") };
        assert!(report.message.contains("unreachable"), "{report}");
        let (culprit, caller) = (report.backtrace.find("the_culprit"), report.backtrace.find("its_caller"));
        assert!(culprit.is_some() && culprit < caller, "{report}");
    });
}

#[test]
fn h4_4_the_handle_limit_leaves_room_for_the_standard_streams() {
    run(async |handle| {
        let mut config = GuestConfig::new();
        config.limits = Limits { handles: 0, ..Limits::default() };
        let program = program(
            r#"(module (import "env" "zi_handle_hflags" (func $flags (param i32) (result i32)))
                (func (export "main") (param i32 i32) (result i32) (call $flags (i32.const 1))))"#,
        );
        let guest = host().spawn(&handle, &program, config).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(6));
    });
}
