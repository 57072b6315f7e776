//! The guests, in text form.

use mainspring_zcl::cap::CapOpen;
use mainspring_zcl::sys_loop::{Poll, TIMEOUT_FOREVER};
use std::fmt::Write as _;
use std::path::PathBuf;

/// What the parked guest touches of its memory beside the page of its data: the heap of a guest
/// that is more than a toy.
pub(crate) const TOUCHED_BYTES: u64 = 16 * 1024;

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "\\{byte:02x}");
        text
    })
}

fn open_loop() -> [u8; CapOpen::BYTES] {
    CapOpen { kind_ptr: 0, kind_len: 3, name_ptr: 8, name_len: 4, mode: 0, params_ptr: 0, params_len: 0 }
        .encode()
}

/// Returns at once.
pub(crate) fn returns() -> String {
    r#"(module (memory (export "memory") 1) (func (export "main") (param i32 i32) (result i32) i32.const 0))"#
        .into()
}

/// Touches some memory, then waits for ever in POLL.
pub(crate) fn parks() -> String {
    let poll = Poll { max_events: 1, timeout_ms: TIMEOUT_FOREVER }.to_frame(1);
    format!(
        r#"(module
  (import "env" "zi_cap_open" (func $open (param i64) (result i32)))
  (import "env" "zi_write" (func $write (param i32 i64 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "sys") (data (i32.const 8) "loop")
  (data (i32.const 64) "{open}") (data (i32.const 128) "{poll}")
  (func (export "main") (param i32 i32) (result i32) (local $at i32)
    (local.set $at (i32.const 65536))
    (loop $touch
      (i32.store8 (local.get $at) (i32.const 1))
      (local.set $at (i32.add (local.get $at) (i32.const 4096)))
      (br_if $touch (i32.lt_u (local.get $at) (i32.const {end}))))
    (drop (call $write (call $open (i64.const 64)) (i64.const 128) (i32.const {length})))
    i32.const 0))"#,
        open = escaped(&open_loop()),
        poll = escaped(&poll),
        end = 65536 + TOUCHED_BYTES,
        length = poll.len(),
    )
}

/// The echo server in Rust that `cargo xtask guests` built.
pub(crate) fn echo() -> Vec<u8> {
    let folder = std::env::var_os("MAINSPRING_GUESTS").map(PathBuf::from).unwrap_or_else(beside_this_program);
    let path = folder.join("echo.wasm");
    std::fs::read(&path).unwrap_or_else(|error| {
        eprintln!("cannot read {}: {error}; run `cargo xtask guests` first", path.display());
        std::process::exit(1);
    })
}

/// `target/guests`, seen from `target/bench/release/guests-bench`.
fn beside_this_program() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.ancestors().nth(3).map(|target| target.join("guests")).unwrap_or_default()
}
