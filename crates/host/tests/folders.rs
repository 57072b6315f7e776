//! Folders that a guest may write to: how much it may add to them, and what it costs others.
#![cfg(feature = "wasi")]

mod guest_modules;
mod support;

use guest_modules::{Stage, configuration, module};
use mainspring_host::{Exit, Folder, GuestConfig, GuestHandle, Limit, Program};
use mainspring_reactor::Handle;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{host, program, run};

/// What the guests below may add.
const FOLDER_BYTES: u64 = 64 << 10;

/// A folder that is gone with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mainspring-folders-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn config(&self) -> GuestConfig {
        let mut config = GuestConfig::new();
        config.limits.folder_bytes = Some(FOLDER_BYTES);
        config.wasi.folders.push(self.folder("/"));
        config
    }

    fn folder(&self, guest_path: &str) -> Folder {
        Folder { path: self.0.clone(), guest_path: guest_path.into(), writable: true }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes of all files in a folder.
fn content(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap())
        .filter(|file| file.is_file())
        .map(|file| file.len())
        .sum()
}

/// A guest of preview 1 whose one folder is 3. It ends with the number of the first step that did
/// not return what it should have.
fn steps(body: &str) -> Program {
    program(&format!(
        r#"(module
            (import "wasi_snapshot_preview1" "path_open"
                (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_pwrite" (func $fd_pwrite (param i32 i32 i32 i64 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_seek" (func $fd_seek (param i32 i64 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_readdir"
                (func $fd_readdir (param i32 i32 i32 i64 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_filestat_set_size" (func $set_size (param i32 i64) (result i32)))
            (import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink (param i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "path_create_directory" (func $path_mkdir (param i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "path_remove_directory" (func $path_rmdir (param i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "path_rename"
                (func $path_rename (param i32 i32 i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 4)
            ;; A buffer of 16 KiB at 1024.
            (data (i32.const 0) "\00\04\00\00\00\40\00\00")
            ;; Names are one letter: their address is 256 + the letter.
            (data (i32.const 353) "abcdefghijklmnopqrstuvwxyz")
            (func $open (param $name i32) (param $oflags i32) (param $flags i32) (result i32)
                (call $path_open (i32.const 3) (i32.const 0) (i32.add (i32.const 256) (local.get $name)) (i32.const 1)
                    (local.get $oflags) (i64.const 66) (i64.const 66) (local.get $flags) (i32.const 16)))
            (func $opened (result i32) (i32.load (i32.const 16)))
            (func $write (param $fd i32) (result i32)
                (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 20)))
            (func $pwrite (param $fd i32) (param $offset i64) (result i32)
                (call $fd_pwrite (local.get $fd) (i32.const 0) (i32.const 1) (local.get $offset) (i32.const 20)))
            (func $rewind (param $fd i32) (result i32)
                (call $fd_seek (local.get $fd) (i64.const 0) (i32.const 0) (i32.const 24)))
            (func $unlink (param $name i32) (result i32)
                (call $path_unlink (i32.const 3) (i32.add (i32.const 256) (local.get $name)) (i32.const 1)))
            (func $mkdir (param $name i32) (result i32)
                (call $path_mkdir (i32.const 3) (i32.add (i32.const 256) (local.get $name)) (i32.const 1)))
            (func $rmdir (param $name i32) (result i32)
                (call $path_rmdir (i32.const 3) (i32.add (i32.const 256) (local.get $name)) (i32.const 1)))
            (func $rename (param $from i32) (param $to i32) (result i32)
                (call $path_rename (i32.const 3) (i32.add (i32.const 256) (local.get $from)) (i32.const 1)
                    (i32.const 3) (i32.add (i32.const 256) (local.get $to)) (i32.const 1)))
            (func $check (param $step i32) (param $want i32) (param $got i32)
                (if (i32.ne (local.get $got) (local.get $want))
                    (then (call $exit (local.get $step)))))
            (func (export "_start") (local $a i32) (local $b i32) (local $i i32)
                {body}))"#
    ))
}

/// `(i32.const 97)` and so on, which the guest's text calls by the letter.
fn named(text: &str) -> String {
    let mut text = text.to_owned();
    for letter in 'a'..='z' {
        text = text.replace(&format!("'{letter}'"), &format!("(i32.const {})", letter as u32));
    }
    text.replace("OK", "(i32.const 0)").replace("NOSPC", "(i32.const 51)")
}

async fn ends(handle: &Handle, text: &str, scratch: &Scratch) -> GuestHandle {
    let guest = host().spawn(handle, &steps(&named(text)), scratch.config()).unwrap();
    let exit = guest.exit().await;
    assert_eq!(exit, Exit::Returned(0), "the step that did not return what it should have");
    guest
}

#[test]
fn w3_1_a_guest_adds_to_its_folders_up_to_its_limit_and_is_told_nospc_beyond() {
    run(async |handle| {
        let scratch = Scratch::new();
        // An entry counts for 4 KiB, so three times 16 KiB fit into 64.
        let text = "
            (call $check (i32.const 1) OK (call $open 'a' (i32.const 1) (i32.const 0)))
            (local.set $a (call $opened))
            (call $check (i32.const 2) OK (call $write (local.get $a)))
            (call $check (i32.const 3) OK (call $write (local.get $a)))
            (call $check (i32.const 4) OK (call $write (local.get $a)))
            (call $check (i32.const 5) NOSPC (call $write (local.get $a)))
            ;; What is there may be changed, and nothing added elsewhere.
            (call $check (i32.const 6) OK (call $rewind (local.get $a)))
            (call $check (i32.const 7) OK (call $write (local.get $a)))
            (call $check (i32.const 8) OK (call $pwrite (local.get $a) (i64.const 20000)))
            (call $check (i32.const 9) NOSPC (call $pwrite (local.get $a) (i64.const 48000)))
            (call $check (i32.const 10) NOSPC (call $set_size (local.get $a) (i64.const 1000000000)))
            (call $check (i32.const 11) OK (call $open 'b' (i32.const 1) (i32.const 1)))
            (call $check (i32.const 12) NOSPC (call $write (call $opened)))
            ;; Entries are bounded too: two more, and that is all.
            (call $check (i32.const 13) OK (call $mkdir 'c'))
            (call $check (i32.const 14) OK (call $mkdir 'd'))
            (call $check (i32.const 15) NOSPC (call $mkdir 'e'))
            (call $check (i32.const 16) NOSPC (call $open 'f' (i32.const 1) (i32.const 0)))
            (call $check (i32.const 17) OK (call $open 'a' (i32.const 1) (i32.const 0)))
            (call $check (i32.const 18) OK (call $rmdir 'c'))
            (call $check (i32.const 19) OK (call $mkdir 'e'))";
        let guest = ends(&handle, text, &scratch).await;
        assert_eq!(guest.stats().refused(Limit::FolderBytes), 6);
        assert_eq!(content(&scratch.0), 3 * 16_384);
    });
}

#[test]
fn w3_2_what_a_guest_removes_or_shortens_is_given_back_but_not_before_the_space_is_free() {
    run(async |handle| {
        let scratch = Scratch::new();
        let text = "
            (call $check (i32.const 1) OK (call $open 'a' (i32.const 1) (i32.const 0)))
            (local.set $a (call $opened))
            (loop $fill
                (call $check (i32.const 2) OK (call $write (local.get $a)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $fill (i32.lt_u (local.get $i) (i32.const 3))))
            ;; Removed while it is open, it takes its place.
            (call $check (i32.const 3) OK (call $unlink 'a'))
            (call $check (i32.const 4) OK (call $open 'b' (i32.const 1) (i32.const 0)))
            (local.set $b (call $opened))
            (call $check (i32.const 5) NOSPC (call $write (local.get $b)))
            (call $check (i32.const 6) OK (call $close (local.get $a)))
            (call $check (i32.const 7) OK (call $write (local.get $b)))
            (call $check (i32.const 8) OK (call $write (local.get $b)))
            (call $check (i32.const 9) OK (call $write (local.get $b)))
            (call $check (i32.const 10) NOSPC (call $write (local.get $b)))
            ;; A file that is renamed to its own name frees nothing.
            (call $check (i32.const 11) OK (call $rename 'b' 'b'))
            (call $check (i32.const 12) NOSPC (call $write (local.get $b)))
            ;; A hole counts like what would fill it.
            (call $check (i32.const 13) OK (call $set_size (local.get $b) (i64.const 0)))
            (call $check (i32.const 14) NOSPC (call $pwrite (local.get $b) (i64.const 60000)))
            (call $check (i32.const 15) OK (call $rewind (local.get $b)))
            (call $check (i32.const 16) OK (call $write (local.get $b)))";
        ends(&handle, text, &scratch).await;
        assert_eq!(content(&scratch.0), 16_384);
    });
}

#[test]
fn w3_3_a_guest_that_replaces_its_file_again_and_again_never_runs_out_of_room() {
    run(async |handle| {
        let scratch = Scratch::new();
        let text = "
            (loop $again
                ;; A new file that is put in the place of the old one.
                (call $check (i32.const 1) OK (call $open 't' (i32.const 1) (i32.const 0)))
                (call $check (i32.const 2) OK (call $write (call $opened)))
                (call $check (i32.const 3) OK (call $close (call $opened)))
                (call $check (i32.const 4) OK (call $rename 't' 's'))
                ;; The old one, from the start.
                (call $check (i32.const 5) OK (call $open 's' (i32.const 9) (i32.const 0)))
                (call $check (i32.const 6) OK (call $write (call $opened)))
                (call $check (i32.const 7) OK (call $close (call $opened)))
                ;; The old one, changed in place.
                (call $check (i32.const 8) OK (call $open 's' (i32.const 0) (i32.const 0)))
                (call $check (i32.const 9) OK (call $pwrite (call $opened) (i64.const 0)))
                (call $check (i32.const 10) OK (call $write (call $opened)))
                (call $check (i32.const 11) OK (call $close (call $opened)))
                ;; A folder that comes and goes.
                (call $check (i32.const 12) OK (call $mkdir 'd'))
                (call $check (i32.const 13) OK (call $rmdir 'd'))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $again (i32.lt_u (local.get $i) (i32.const 30))))";
        let guest = ends(&handle, text, &scratch).await;
        assert_eq!(guest.stats().refused(Limit::FolderBytes), 0);
        assert_eq!(content(&scratch.0), 16_384);
    });
}

#[test]
fn w3_1_a_component_adds_to_its_folders_up_to_its_limit() {
    let Some(component) = module("wasi-hello.component") else { return };
    let mut stage = Stage::new();
    let component = stage.host.compile_component(&component).unwrap();
    let scratch = Scratch::new();
    let mut copy = |length: usize, to: &str| {
        std::fs::write(scratch.0.join("from"), vec![1; length]).unwrap();
        let (config, ends) = configuration("hello", &["copy", "/data/from", to], |config| {
            config.wasi.folders.push(scratch.folder("/data"));
            config.limits.folder_bytes = Some(FOLDER_BYTES);
        });
        let guest = stage.host.spawn_component(&stage.reactor, &component, config).unwrap();
        let mut player = ends.player(guest, stage.reactor.handle());
        let exit = stage.run(player.finish()).0;
        let written = std::fs::metadata(scratch.0.join("to")).map_or(0, |file| file.len());
        (exit, written, player.guest.stats().refused(Limit::FolderBytes))
    };
    assert_eq!(copy(50_000, "/data/to"), (Exit::Returned(0), 50_000, 0));
    // It shortens the file first, so there is room for as much again.
    assert_eq!(copy(60_000, "/data/to"), (Exit::Returned(0), 60_000, 0));
    std::fs::remove_file(scratch.0.join("to")).unwrap();
    let (exit, written, refused) = copy(200_000, "/data/to");
    assert_eq!(exit, Exit::Returned(1));
    assert!(written <= FOLDER_BYTES && refused > 0, "{written} bytes, {refused} refusals");
}

/// How late a neighbour is that wants to run each millisecond: the median, and nine of ten.
async fn lateness(handle: &Handle, times: usize) -> (Duration, Duration) {
    let mut late = Vec::new();
    for _ in 0..times {
        let due = Instant::now() + Duration::from_millis(1);
        handle.sleep(Duration::from_millis(1)).await.unwrap();
        late.push(due.elapsed());
    }
    late.sort();
    (late[times / 2], late[times * 9 / 10])
}

#[test]
fn p1_6_a_guest_that_lists_a_huge_folder_does_not_hold_up_its_neighbours() {
    let scratch = Scratch::new();
    for number in 0..20_000 {
        std::fs::write(scratch.0.join(format!("entry-{number}")), "").unwrap();
    }
    run(async |handle| {
        let text = "(loop $again
            (drop (call $fd_readdir (i32.const 3) (i32.const 20480) (i32.const 65536) (i64.const 10000) (i32.const 24)))
            (br $again))";
        let guest = host().spawn(&handle, &steps(text), scratch.config()).unwrap();
        let (median, most) = lateness(&handle, 300).await;
        assert!(
            median < Duration::from_millis(5) && most < Duration::from_millis(20),
            "{median:?}, {most:?}"
        );
        assert!(guest.exit_now().is_none());
        guest.kill();
        guest.exit().await;
    });
}

#[test]
fn p1_6_a_guest_that_fills_all_of_its_memory_at_once_holds_up_its_neighbours_by_its_memory_limit() {
    run(async |handle| {
        // One instruction cannot be interrupted: what bounds it is the memory that there is.
        let filling = program(
            r#"(module (memory (export "memory") 1000)
                (func (export "_start") (loop $again
                    (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536000))
                    (memory.copy (i32.const 0) (i32.const 32768000) (i32.const 32768000))
                    (br $again))))"#,
        );
        let guest = host().spawn(&handle, &filling, GuestConfig::new()).unwrap();
        let (median, most) = lateness(&handle, 30).await;
        assert!(most < Duration::from_millis(250), "{median:?}, {most:?}");
        assert!(guest.stats().preemptions > 0);
        guest.kill();
        guest.exit().await;
    });
}
