//! Components that use async features of the component model, and those that do not.
#![cfg(feature = "wasi")]

use mainspring_host::wasmtime::Engine;
use mainspring_host::{CompileLimits, Exit, GuestConfig, Host, HostConfig, Limit};
use mainspring_reactor::Reactor;
use std::sync::OnceLock;
use std::time::Duration;

fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let mut config = HostConfig::default();
        config.guests_max = 16;
        config.build().unwrap()
    })
}

/// A component whose `run` is `body`, and which imports something of the async features if it is to.
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
