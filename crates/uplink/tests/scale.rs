//! How much many nodes cost one of them: their hellos, what they share, and where requests go.

use mainspring_kernel::{BootPlan, Config, Effect, Kernel, Manifest, Now, Turn};
use mainspring_uplink::{Boot, Command, Incoming, Uplink, UplinkSettings, place};
use serde_json::json;
use std::time::Instant;

/// Capabilities that each node shares.
const SHARES: usize = 4;

fn settings(node: &str, import: &[&str], nonce: u64) -> UplinkSettings {
    UplinkSettings {
        bus: "scale".into(),
        node: node.into(),
        import: import.iter().map(|&pattern| pattern.into()).collect(),
        events: Vec::new(),
        boot: Boot { at_ms: 1, nonce },
        has_journal: false,
        concurrency: 64,
        node_requests_max: 1000,
        late_ns: 1_000_000_000,
        line_bytes_max: 1 << 20,
    }
}

fn manifests(group: usize) -> Vec<Manifest> {
    let manifest = |number: usize| {
        let type_name = format!("Group{group}.Do{number}");
        let inbound =
            json!({ "properties": { "kind": { "const": "command" }, "type": { "const": type_name } } });
        let mut manifest = Manifest::new(format!("cap-{group}-{number}"), "Works.", inbound);
        manifest.share = true;
        manifest
    };
    (0..SHARES).map(manifest).collect()
}

fn kernel(now: Now) -> Kernel {
    let mut kernel = Kernel::new(Config::default(), 1);
    kernel.boot(BootPlan::default(), now);
    while kernel.turn(now) == Turn::More {}
    kernel.drain_effects(&mut Vec::<Effect>::new());
    kernel
}

/// One node among this many others.
fn run(count: usize) {
    let mut now = Now { mono_ns: 1_000_000_000, unix_ms: 1_700_000_000_000 };
    let mut own_kernel = kernel(now);
    let mut own = Uplink::new(settings("own", &["*"], 0));
    own.start(&mut own_kernel, now);
    own.connected(1 << 20, now);
    let mut others: Vec<(String, Uplink)> = (0..count)
        .map(|number| {
            let name = format!("node-{number}");
            let mut other = Uplink::new(settings(&name, &[], number as u64 + 1));
            let manifests = manifests(number % 16);
            other.set_capabilities(&manifests.iter().collect::<Vec<_>>(), &mut own_kernel, now);
            other.start(&mut own_kernel, now);
            other.connected(1 << 20, now);
            (name, other)
        })
        .collect();
    let (mut hellos, mut bytes, mut spent) = (0_u64, 0_u64, std::time::Duration::ZERO);
    for _ in 0..60 {
        now.mono_ns += 250_000_000;
        now.unix_ms += 250;
        let mut for_own = Vec::new();
        for (_, other) in &mut others {
            other.tick(&mut own_kernel, now);
            other.drain_commands(&mut for_own);
        }
        let began = Instant::now();
        for command in &for_own {
            let Command::Publish { subject, message, .. } = command else { continue };
            hellos += u64::from(subject.ends_with(".node"));
            bytes += (subject.len() + message.len()) as u64;
            let incoming = Incoming { subject, message };
            own.received(incoming, &mut own_kernel, now);
        }
        own.tick(&mut own_kernel, now);
        spent += began.elapsed();
        let mut from_own = Vec::new();
        own.drain_commands(&mut from_own);
        for command in from_own {
            let Command::Publish { subject, message, .. } = command else { continue };
            let Some(to) = subject.split(".to.").nth(1).and_then(|rest| rest.split('.').next()) else {
                continue;
            };
            let Some((_, other)) = others.iter_mut().find(|(name, _)| name == to) else { continue };
            let incoming = Incoming { subject: &subject, message: &message };
            other.received(incoming, &mut own_kernel, now);
        }
    }
    let told = own.report(now);
    assert_eq!(told["nodes"].as_array().map(Vec::len), Some(count));
    assert!(told["nodes"].as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "up")));
    let imports = told["imports"].as_array().expect("imports");
    assert_eq!(imports.len(), SHARES * 16.min(count));
    assert!(
        imports
            .iter()
            .all(|import| import["nodes"].as_array().is_some_and(|nodes| nodes.len() >= count / 16))
    );
    let names: Vec<String> = others.iter().map(|(name, _)| name.clone()).collect();
    let began = Instant::now();
    let keys = 1000;
    for key in 0..keys {
        assert!(place(&key.to_string(), names.iter().map(String::as_str)).is_some());
    }
    let place_us = began.elapsed().as_micros() as f64 / f64::from(keys);
    println!(
        "{count} nodes: {} us per hello with all that follows from it, {} bytes per hello, {place_us:.1} us to place a key",
        spent.as_micros() as u64 / hellos.max(1),
        bytes / hellos.max(1),
    );
}

#[test]
fn n8_4_one_node_knows_a_thousand_others() {
    run(1000);
}
