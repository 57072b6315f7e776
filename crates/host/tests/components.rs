//! Components that use async features of the component model, and those that do not.
#![cfg(feature = "wasi")]

mod support;

use mainspring_host::wasmtime::Engine;
use mainspring_host::{CompileLimits, Exit, GuestConfig, Limit};
use mainspring_reactor::Reactor;
use std::time::Duration;
use support::host;

/// A component whose `run` is `body`, and which imports something of the async features if it is
/// to.
fn component(asynchronous: bool, body: &str) -> Vec<u8> {
    let (cancel, import, with) = match asynchronous {
        true => (
            "(core func $cancel (canon task.cancel))",
            r#"(import "" "cancel" (func))"#,
            r#"(with "" (instance (export "cancel" (func $cancel))))"#,
        ),
        false => ("", "", ""),
    };
    wat::parse_str(format!(
        r#"(component
            {cancel}
            (core module $m {import} (func (export "run") (result i32) {body}))
            (core instance $i (instantiate $m {with}))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $cli (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $cli)))"#
    ))
    .unwrap()
}

fn exit_of(bytes: &[u8], config: GuestConfig) -> Exit {
    let component = host().compile_component(bytes).unwrap();
    let mut reactor = Reactor::new().unwrap();
    let guest = host().spawn_component(&reactor, &component, config).unwrap();
    reactor.block_on(guest.exit()).unwrap()
}

#[test]
fn w2_1_a_component_with_async_builtins_runs() {
    assert_eq!(exit_of(&component(true, "(i32.const 0)"), GuestConfig::new()), Exit::Returned(0));
    assert_eq!(exit_of(&component(true, "(i32.const 1)"), GuestConfig::new()), Exit::Returned(1));
}

#[test]
fn w2_2_a_component_with_async_builtins_is_preempted_and_limited() {
    let mut config = GuestConfig::new();
    config.limits.cpu_total = Some(Duration::from_millis(20));
    let exit = exit_of(&component(true, "(loop (br 0)) (unreachable)"), config);
    assert_eq!(exit, Exit::OverLimit(Limit::CpuTotal));
}

#[test]
fn w2_3_the_code_of_a_component_with_async_builtins_can_be_kept() {
    let bytes = component(true, "(i32.const 0)");
    let code = host().precompile(&bytes, &CompileLimits::default()).unwrap();
    // SAFETY: the code was compiled just now, by this host.
    let loaded = unsafe { host().load_component(&code) }.unwrap();
    let mut reactor = Reactor::new().unwrap();
    let guest = host().spawn_component(&reactor, &loaded, GuestConfig::new()).unwrap();
    assert_eq!(reactor.block_on(guest.exit()).unwrap(), Exit::Returned(0));
}

#[test]
fn w2_4_other_components_have_nothing_to_do_with_that_engine() {
    let (plain, other) = (component(false, "(i32.const 0)"), component(true, "(i32.const 0)"));
    assert!(Engine::same(host().engine_for(&plain).unwrap(), host().engine()));
    assert!(!Engine::same(host().engine_for(&other).unwrap(), host().engine()));
    let hash = |bytes| {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        host().engine_for(bytes).unwrap().precompile_compatibility_hash().hash(&mut hasher);
        hasher.finish()
    };
    assert_ne!(hash(&plain), hash(&other), "compiled code is kept apart");
    assert_eq!(exit_of(&plain, GuestConfig::new()), Exit::Returned(0));
}

/// A component in which one part hands a string to another that has a memory of its own, of so many
/// pages.
fn two_memories(pages: u32) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
            (component $inner
                (core module $m
                    (memory (export "memory") {pages})
                    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
                    (func (export "take") (param i32 i32)))
                (core instance $i (instantiate $m))
                (func (export "take") (param "text" string)
                    (canon lift (core func $i "take") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
            (component $outer
                (import "take" (func $take (param "text" string)))
                (core module $own (memory (export "memory") {pages}))
                (core instance $o (instantiate $own))
                (core func $take (canon lower (func $take) (memory (core memory $o "memory"))))
                (core module $m
                    (import "" "take" (func $take (param i32 i32)))
                    (func (export "run") (result i32) (call $take (i32.const 0) (i32.const 3)) (i32.const 0)))
                (core instance $i (instantiate $m (with "" (instance (export "take" (func $take))))))
                (func (export "run") (result (result)) (canon lift (core func $i "run"))))
            (instance $in (instantiate $inner))
            (instance $out (instantiate $outer (with "take" (func $in "take"))))
            (alias export $out "run" (func $run))
            (instance $cli (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $cli)))"#
    ))
    .unwrap()
}

#[test]
fn w2_5_parts_of_a_component_with_memories_of_their_own_are_joined() {
    assert_eq!(exit_of(&two_memories(1), GuestConfig::new()), Exit::Returned(0));
}

#[test]
fn w2_6_the_limit_on_memory_is_on_all_memories_of_a_component_together() {
    let mut config = GuestConfig::new();
    config.limits.memory_bytes = 10 * 65_536;
    assert_eq!(exit_of(&two_memories(5), config), Exit::Returned(0));
    let mut config = GuestConfig::new();
    config.limits.memory_bytes = 10 * 65_536;
    assert!(matches!(exit_of(&two_memories(6), config), Exit::Trapped(_)));
}
