//! Guests that import WASI: plain programs, programs that use both, components.
#![cfg(feature = "wasi")]

mod guest_modules;

use guest_modules::{Stage, configuration, module};
use mainspring_host::{Exit, Folder};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;

/// A folder of its own for one test, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("mainspring-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn folder(&self, writable: bool) -> Folder {
        Folder { path: self.0.clone(), guest_path: "/data".into(), writable }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_plain_program_greets_by_its_environment() {
    let Some(module) = module("wasi-hello") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("hello", &module, &[], |config| {
        config.environment.push(("NAME".into(), "reader".into()));
    });
    let expected = (Exit::Returned(0), "hello reader, 2\n".into(), "to standard error\n".into());
    assert_eq!(stage.run(player.finish()), expected);
}

#[test]
fn a_plain_program_reads_lines_as_they_come() {
    let Some(module) = module("wasi-hello") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("hello", &module, &["lines"], |_| {});
    stage.run(async {
        let stdin = player.stdin.as_ref().unwrap();
        assert!(stdin.write_all(b"one\n").await);
        assert_eq!(player.line().await, "ONE");
        assert!(stdin.write_all(b"two\n").await);
        assert_eq!(player.line().await, "TWO");
        assert_eq!(player.finish().await.0, Exit::Returned(0));
    });
}

#[test]
fn a_program_that_writes_more_than_its_reader_takes_waits_for_it() {
    let Some(module) = module("wasi-hello") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("hello", &module, &["lines"], |_| {});
    stage.run(async {
        let line = [b"x".repeat(1000), b"\n".to_vec()].concat();
        let (stdin, stdout) = (player.stdin.take().unwrap(), &player.stdout);
        let handle = player.handle.clone();
        let writing = handle.spawn(async move {
            for _ in 0..500 {
                assert!(stdin.write_all(&line).await);
            }
        });
        let text = stdout.read_to_end().await;
        assert_eq!(text.len(), 500 * 1001);
        assert!(text.iter().all(|byte| [b'X', b'\n'].contains(byte)));
        writing.unwrap().await.unwrap();
        assert_eq!(player.guest.exit().await, Exit::Returned(0));
    });
}

#[test]
fn a_sleeping_program_is_not_early_and_its_neighbour_goes_on() {
    let (Some(hello), Some(lines)) = (module("wasi-hello"), module("lines")) else { return };
    let mut stage = Stage::new();
    let mut sleeping = stage.start("hello", &hello, &["sleep", "50"], |_| {});
    let answering = stage.start("lines", &lines, &[], |_| {});
    stage.run(async {
        assert!(answering.stdin.as_ref().unwrap().write_all(b"awake\n").await);
        assert_eq!(answering.line().await, "AWAKE");
        assert_eq!(sleeping.finish().await.1, "slept\n");
    });
}

#[test]
fn a_waiting_program_costs_no_cpu() {
    let Some(module) = module("wasi-hello") else { return };
    let mut stage = Stage::new();
    let player = stage.start("hello", &module, &["lines"], |_| {});
    stage.run(async {
        let stdin = player.stdin.as_ref().unwrap();
        assert!(stdin.write_all(b"one\n").await);
        assert_eq!(player.line().await, "ONE");
        let before = player.guest.stats().cpu_time;
        player.handle.sleep(std::time::Duration::from_millis(100)).await.unwrap();
        assert_eq!(player.guest.stats().cpu_time, before, "it was resumed while it waited");
        player.guest.kill();
        assert_eq!(player.guest.exit().await, Exit::Killed);
    });
}

#[test]
fn files_are_reached_in_folders_that_were_opened_and_nowhere_else() {
    let Some(module) = module("wasi-hello") else { return };
    let mut stage = Stage::new();
    let scratch = Scratch::new("folders");
    std::fs::write(scratch.0.join("from"), "content").unwrap();
    let mut copy = |to: &str, writable: bool| {
        let folder = scratch.folder(writable);
        let mut player = stage
            .start("hello", &module, &["copy", "/data/from", to], |config| config.wasi.folders.push(folder));
        stage.run(player.finish()).0
    };
    assert_eq!(copy("/data/to", true), Exit::Returned(0));
    assert_eq!(std::fs::read_to_string(scratch.0.join("to")).unwrap(), "content");
    assert_eq!(copy("/data/../escaped", true), Exit::Returned(1));
    assert_eq!(copy("/data/refused", false), Exit::Returned(1));
    assert!(!scratch.0.join("refused").exists());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let Some(module) = module("wasi-hello") else { return };
    let stage = Stage::new();
    let program = stage.host.compile(&module).unwrap();
    let (config, _ends) = configuration("hello", &[], |config| {
        let path = PathBuf::from("/nonexistent/folder");
        config.wasi.folders.push(Folder { path, guest_path: "/data".into(), writable: false });
    });
    let error = stage.host.spawn(&stage.reactor, &program, config).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/folder"), "{error}");
    assert_eq!(stage.host.stats().guests, 0);
}

#[test]
fn the_exit_code_of_a_plain_program_is_its_own() {
    let Some(module) = module("wasi-hello") else { return };
    let mut stage = Stage::new();
    let mut player = stage.start("hello", &module, &["exit", "42"], |_| {});
    assert_eq!(stage.run(player.finish()).0, Exit::Returned(42));
    let mut player = stage.start("hello", &module, &["panic"], |_| {});
    let (exit, _, stderr) = stage.run(player.finish());
    assert!(matches!(exit, Exit::Trapped(_)) && stderr.contains("asked to panic"), "{exit:?} {stderr}");
}

#[test]
fn one_guest_may_read_files_by_wasi_and_wait_for_sockets_by_sys_loop() {
    let Some(module) = module("wasi-both") else { return };
    let mut stage = Stage::new();
    let scratch = Scratch::new("both");
    std::fs::write(scratch.0.join("lines"), "zero\none\ntwo\n").unwrap();
    let folder = scratch.folder(false);
    let player = stage.start("both", &module, &["/data/lines"], |config| {
        config.wasi.folders.push(folder);
        config.network.allow_listen("127.0.0.1:*").unwrap();
    });
    stage.run(async {
        let port = player.port().await;
        let answers = player.elsewhere(move || {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            ["2", "0", "9"].map(|number| {
                writeln!(&stream, "{number}").unwrap();
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                line
            })
        });
        assert_eq!(answers.await, ["two\n", "zero\n", "no such line\n"]);
    });
    let stats = player.guest.stats();
    assert_eq!((stats.zero_timeout_polls, stats.empty_polls), (0, 0), "{stats:?}");
}

#[test]
fn a_component_runs_like_a_module() {
    let Some(component) = module("wasi-hello.component") else { return };
    let mut stage = Stage::new();
    let component = stage.host.compile_component(&component).unwrap();
    let mut run = |arguments: &[&str]| {
        let (config, ends) = configuration("hello", arguments, |config| {
            config.environment.push(("NAME".into(), "component".into()));
        });
        let guest = stage.host.spawn_component(&stage.reactor, &component, config).unwrap();
        let mut player = ends.player(guest, stage.reactor.handle());
        stage.run(player.finish())
    };
    let greeting = (Exit::Returned(0), "hello component, 2\n".into(), "to standard error\n".into());
    assert_eq!(run(&[]), greeting);
    assert_eq!(run(&["exit", "3"]).0, Exit::Returned(1), "preview 1's codes become success or failure");
    assert_eq!(run(&["sleep", "20"]).1, "slept\n");
    assert_eq!(stage.host.stats().guests, 0);
}

#[test]
fn a_component_waits_for_its_input_without_cpu_and_can_be_killed() {
    let Some(component) = module("wasi-hello.component") else { return };
    let mut stage = Stage::new();
    let component = stage.host.compile_component(&component).unwrap();
    let (config, ends) = configuration("hello", &["lines"], |_| {});
    let guest = stage.host.spawn_component(&stage.reactor, &component, config).unwrap();
    let player = ends.player(guest, stage.reactor.handle());
    stage.run(async {
        assert!(player.stdin.as_ref().unwrap().write_all(b"one\n").await);
        assert_eq!(player.line().await, "ONE");
        let before = player.guest.stats().cpu_time;
        player.handle.sleep(std::time::Duration::from_millis(50)).await.unwrap();
        assert_eq!(player.guest.stats().cpu_time, before, "it was resumed while it waited");
        player.guest.kill();
        assert_eq!(player.guest.exit().await, Exit::Killed);
    });
}
