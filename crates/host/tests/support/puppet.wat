;; A guest that does what it is told: it reads commands from standard input, makes the zi_* call that each asks for, and
;; writes what came of it to standard output. While there is no command it waits in a POLL of its own.
;;
;; A command is 56 bytes and then data: op, data address, data length, output address, output length, output mode (all
;; u32), four arguments (i64). A reply is the result (i64), a length (u32) and as many bytes from the output address.
(module
  (import "env" "zi_abi_version" (func $abi_version (result i32)))
  (import "env" "zi_ctl" (func $ctl (param i64 i32 i64 i32) (result i32)))
  (import "env" "zi_read" (func $read (param i32 i64 i32) (result i32)))
  (import "env" "zi_write" (func $write (param i32 i64 i32) (result i32)))
  (import "env" "zi_end" (func $end (param i32) (result i32)))
  (import "env" "zi_alloc" (func $alloc (param i32) (result i64)))
  (import "env" "zi_free" (func $free (param i64) (result i32)))
  (import "env" "zi_telemetry" (func $telemetry (param i64 i32 i64 i32) (result i32)))
  (import "env" "zi_cap_count" (func $cap_count (result i32)))
  (import "env" "zi_cap_get_size" (func $cap_get_size (param i32) (result i32)))
  (import "env" "zi_cap_get" (func $cap_get (param i32 i64 i32) (result i32)))
  (import "env" "zi_cap_open" (func $cap_open (param i64) (result i32)))
  (import "env" "zi_handle_hflags" (func $hflags (param i32) (result i32)))
  (memory (export "memory") 32)
  ;; 0x100 the opening of its own loop, 0x200 a WATCH of standard input, 0x300 a POLL for ever.
  (data (i32.const 0x100) "{OPEN}")
  (data (i32.const 0x180) "sysloop")
  (data (i32.const 0x200) "{WATCH}")
  (data (i32.const 0x300) "{POLL}")
  (global $loop (mut i32) (i32.const 0))
  (global $ended (mut i32) (i32.const 0))

  ;; Reads exactly so many bytes from standard input, waiting for them; or notes that there are no more.
  (func $read_exact (param $at i32) (param $left i32)
    (local $count i32)
    (block $done
      (loop $again
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $count
          (call $read (i32.const 0) (i64.extend_i32_u (local.get $at)) (local.get $left)))
        (if (i32.gt_s (local.get $count) (i32.const 0))
          (then
            (local.set $at (i32.add (local.get $at) (local.get $count)))
            (local.set $left (i32.sub (local.get $left) (local.get $count)))
            (br $again)))
        (if (i32.eq (local.get $count) (i32.const -6))
          (then
            (drop (call $write (global.get $loop) (i64.const 0x300) (i32.const 32)))
            (drop (call $read (global.get $loop) (i64.const 0x400) (i32.const 1024)))
            (br $again)))
        (global.set $ended (i32.const 1)))))

  (func $write_all (param $at i32) (param $left i32)
    (local $count i32)
    (block $done
      (loop $again
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $count
          (call $write (i32.const 1) (i64.extend_i32_u (local.get $at)) (local.get $left)))
        (if (i32.lt_s (local.get $count) (i32.const 1)) (then unreachable))
        (local.set $at (i32.add (local.get $at) (local.get $count)))
        (local.set $left (i32.sub (local.get $left) (local.get $count)))
        (br $again))))

  (func $obey (param $op i32) (param $a i64) (param $b i64) (param $c i64) (param $d i64) (result i64)
    (block $op17 (block $op16 (block $op15 (block $op14 (block $op13 (block $op12 (block $op11 (block $op10
    (block $op9 (block $op8 (block $op7 (block $op6 (block $op5 (block $op4 (block $op3 (block $op2 (block $op1
    (block $op0
      (br_table $op0 $op1 $op2 $op3 $op4 $op5 $op6 $op7 $op8 $op9 $op10 $op11 $op12 $op13 $op14 $op15 $op16 $op17
        (local.get $op)))
      (return (i64.extend_i32_s (call $abi_version))))
      (return (i64.extend_i32_s
        (call $ctl (local.get $a) (i32.wrap_i64 (local.get $b)) (local.get $c) (i32.wrap_i64 (local.get $d))))))
      (return (i64.extend_i32_s
        (call $read (i32.wrap_i64 (local.get $a)) (local.get $b) (i32.wrap_i64 (local.get $c))))))
      (return (i64.extend_i32_s
        (call $write (i32.wrap_i64 (local.get $a)) (local.get $b) (i32.wrap_i64 (local.get $c))))))
      (return (i64.extend_i32_s (call $end (i32.wrap_i64 (local.get $a))))))
      (return (call $alloc (i32.wrap_i64 (local.get $a)))))
      (return (i64.extend_i32_s (call $free (local.get $a)))))
      (return (i64.extend_i32_s
        (call $telemetry (local.get $a) (i32.wrap_i64 (local.get $b)) (local.get $c) (i32.wrap_i64 (local.get $d))))))
      (return (i64.extend_i32_s (call $cap_count))))
      (return (i64.extend_i32_s (call $cap_get_size (i32.wrap_i64 (local.get $a))))))
      (return (i64.extend_i32_s
        (call $cap_get (i32.wrap_i64 (local.get $a)) (local.get $b) (i32.wrap_i64 (local.get $c))))))
      (return (i64.extend_i32_s (call $cap_open (local.get $a)))))
      (return (i64.extend_i32_u (call $hflags (i32.wrap_i64 (local.get $a))))))
      ;; 13: spin for ever
      (loop $spin (br $spin))
      unreachable)
      ;; 14: grow the memory
      (return (i64.extend_i32_s (memory.grow (i32.wrap_i64 (local.get $a))))))
      ;; 15: trap
      unreachable)
      ;; 16: spin a while
      (loop $spin
        (local.set $a (i64.sub (local.get $a) (i64.const 1)))
        (br_if $spin (i64.gt_s (local.get $a) (i64.const 0))))
      (return (i64.const 0)))
    ;; 17: open and close $b times what $a opens; says how often both worked and the number stayed below $c
    (local.set $d (i64.const 0))
    (loop $again
      (if (i64.gt_s (local.get $b) (i64.const 0))
        (then
          (local.set $op (call $cap_open (local.get $a)))
          (if (i32.and
                (i32.ge_s (local.get $op) (i32.const 3))
                (i32.lt_s (local.get $op) (i32.wrap_i64 (local.get $c))))
            (then
              (if (i32.eqz (call $end (local.get $op)))
                (then (local.set $d (i64.add (local.get $d) (i64.const 1)))))))
          (local.set $b (i64.sub (local.get $b) (i64.const 1)))
          (br $again))))
    (local.get $d))

  (func (export "main") (param i32 i32) (result i32)
    (local $length i32)
    (local $result i64)
    (global.set $loop (call $cap_open (i64.const 0x100)))
    (if (i32.lt_s (global.get $loop) (i32.const 3)) (then unreachable))
    (drop (call $write (global.get $loop) (i64.const 0x200) (i32.const 44)))
    (drop (call $read (global.get $loop) (i64.const 0x400) (i32.const 1024)))
    (loop $next
      (call $read_exact (i32.const 0x1000) (i32.const 56))
      (if (global.get $ended) (then (return (i32.const 0))))
      (call $read_exact (i32.load (i32.const 0x1004)) (i32.load (i32.const 0x1008)))
      (if (global.get $ended) (then (return (i32.const 0))))
      (local.set $result
        (call $obey
          (i32.load (i32.const 0x1000))
          (i64.load (i32.const 0x1018)) (i64.load (i32.const 0x1020))
          (i64.load (i32.const 0x1028)) (i64.load (i32.const 0x1030))))
      (local.set $length (i32.const 0))
      (if (i32.eq (i32.load (i32.const 0x1014)) (i32.const 2))
        (then (local.set $length (i32.load (i32.const 0x1010)))))
      (if (i32.eq (i32.load (i32.const 0x1014)) (i32.const 1))
        (then
          (if (i64.gt_s (local.get $result) (i64.const 0))
            (then (local.set $length (i32.wrap_i64 (local.get $result)))))))
      (i64.store (i32.const 0x2000) (local.get $result))
      (i32.store (i32.const 0x2008) (local.get $length))
      (call $write_all (i32.const 0x2000) (i32.const 12))
      (call $write_all (i32.load (i32.const 0x100c)) (local.get $length))
      (br $next))
    (i32.const 0)))
