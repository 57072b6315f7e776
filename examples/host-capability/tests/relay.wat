;; A guest that relays: what it reads from standard input goes to a handle of store/kv, what that
;; handle has to say goes to standard output. It waits for both in one POLL of sys/loop. It ends with
;; its input, or with the code that opening the store returned. `$...$` is filled in by the test.
(module
  (import "env" "zi_cap_open" (func $open (param i64) (result i32)))
  (import "env" "zi_read" (func $read (param i32 i64 i32) (result i32)))
  (import "env" "zi_write" (func $write (param i32 i64 i32) (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 0) "$store_open$")
  (data (i32.const 64) "$loop_open$")
  (data (i32.const 128) "storekvsysloop")
  (data (i32.const 256) "$watches$")
  (data (i32.const 512) "$poll$")

  ;; Writes all of the bytes at 65536; traps if they are not taken at once.
  (func $write_all (param $to i32) (param $count i32)
    (if (i32.ne (call $write (local.get $to) (i64.const 65536) (local.get $count)) (local.get $count))
      (then (unreachable))))

  ;; Moves what there is. Returns 0 at the end of the stream.
  (func $move (param $from i32) (param $to i32) (result i32)
    (local $count i32)
    (loop $more
      (local.set $count (call $read (local.get $from) (i64.const 65536) (i32.const 65536)))
      (if (i32.eq (local.get $count) (i32.const -6)) (then (return (i32.const 1))))
      (if (i32.lt_s (local.get $count) (i32.const 0)) (then (unreachable)))
      (if (i32.eqz (local.get $count)) (then (return (i32.const 0))))
      (call $write_all (local.get $to) (local.get $count))
      (br $more))
    (unreachable))

  (func (export "main") (param i32 i32) (result i32)
    (local $store i32)
    (local.set $store (call $open (i64.const 0)))
    (if (i32.lt_s (local.get $store) (i32.const 0)) (then (return (local.get $store))))
    ;; The store is handle 3, the loop handle 4, as the frames say.
    (if (i32.ne (call $open (i64.const 64)) (i32.const 4)) (then (unreachable)))
    (drop (call $write (i32.const 4) (i64.const 256) (i32.const $watches_length$)))
    (drop (call $read (i32.const 4) (i64.const 1024) (i32.const 4096)))
    (loop $forever
      (drop (call $write (i32.const 4) (i64.const 512) (i32.const $poll_length$)))
      (drop (call $read (i32.const 4) (i64.const 1024) (i32.const 4096)))
      (if (i32.eqz (call $move (i32.const 0) (i32.const 3))) (then (return (i32.const 0))))
      (drop (call $move (i32.const 3) (i32.const 1)))
      (br $forever))
    (unreachable)))
