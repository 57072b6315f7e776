//! Guests on the reactor.

use crate::modules;
use crate::server::{Load, measure_client};
use bench_support::process_cpu_ns;
use mainspring_host::{GuestConfig, GuestHandle, Host, HostConfig, PipeReader, Program, Stdout, pipe};
use mainspring_reactor::Reactor;
use std::time::Duration;

/// Guests that are started before any is measured.
const WARM_UP: u64 = 200;

fn host(guests_max: u32) -> Host {
    let mut config = HostConfig::new();
    config.guests_max = guests_max;
    // Ten thousand connections are half of what some machines allow, and the shipped bound is half.
    config.descriptors_max = u64::MAX;
    config.build().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    })
}

fn program(host: &Host, text: &str) -> Program {
    let module = wat::parse_str(text).expect("the text is a module");
    host.compile(&module).expect("the module compiles")
}

/// How long each of `count` steps takes, in microseconds of CPU.
fn cpu_us_of_each(count: u64, work: impl FnOnce()) -> f64 {
    let before = process_cpu_ns();
    work();
    (process_cpu_ns() - before) as f64 / count as f64 / 1e3
}

/// Guests that wait for ever: what they cost while they do.
pub(crate) fn park(count: u32, milliseconds: u64) {
    let mut reactor = Reactor::new().expect("a loop");
    let host = host(count + 1);
    let program = program(&host, &modules::parks());
    // The first one pays for what all share.
    let _first = start_all(&mut reactor, &host, &program, 1);
    let resident_before = resident_bytes();
    let guests = start_all(&mut reactor, &host, &program, count);
    let each = (resident_bytes() - resident_before) as f64 / f64::from(count);
    println!("memory_beside_heap KiB {:.2}", (each - modules::TOUCHED_BYTES as f64) / 1024.0);

    while !host.is_ticker_parked() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let wakeups = |guests: &[GuestHandle]| guests.iter().map(|guest| guest.stats().wakeups).sum::<u64>();
    let (wakeups_before, turns_before) = (wakeups(&guests), reactor.stats().turns);
    let before = process_cpu_ns();
    reactor.poll(Some(Duration::from_millis(milliseconds))).expect("the loop runs");
    let cpu_ms = (process_cpu_ns() - before) as f64 / 1e6;
    println!("cpu_while_parked ms {cpu_ms:.4}");
    // The turn that ends the wait is ours.
    let turns = reactor.stats().turns - turns_before - 1;
    println!("wake_ups count {}", turns + wakeups(&guests) - wakeups_before);
    assert!(guests.iter().all(|guest| guest.exit_now().is_none()), "a guest ended");
}

/// Starts guests and lets each run until it waits.
fn start_all(reactor: &mut Reactor, host: &Host, program: &Program, count: u32) -> Vec<GuestHandle> {
    let guests: Vec<GuestHandle> = (0..count)
        .map(|_| host.spawn(reactor, program, GuestConfig::new()).expect("there is room for it"))
        .collect();
    while guests.iter().any(|guest| guest.stats().polls == 0) {
        reactor.poll(Some(Duration::ZERO)).expect("the loop runs");
    }
    guests
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// Guests that return at once, one after the other: each finds the slot of the last one.
pub(crate) fn start_warm(count: u64) {
    let mut reactor = Reactor::new().expect("a loop");
    let host = host(16);
    let program = program(&host, &modules::returns());
    let mut run = |count: u64| {
        for _ in 0..count {
            let guest = host.spawn(&reactor, &program, GuestConfig::new()).expect("there is room for it");
            while guest.exit_now().is_none() {
                reactor.poll(Some(Duration::ZERO)).expect("the loop runs");
            }
        }
    };
    run(WARM_UP);
    println!("cpu_per_start us {:.3}", cpu_us_of_each(count, || run(count)));
}

/// Guests that stay: each needs a slot that was never used.
pub(crate) fn start_fresh(count: u64) {
    let mut reactor = Reactor::new().expect("a loop");
    let host = host((count + WARM_UP) as u32);
    let program = program(&host, &modules::parks());
    let _warm = start_all(&mut reactor, &host, &program, WARM_UP as u32);
    let mut guests = Vec::new();
    let each = cpu_us_of_each(count, || {
        for _ in 0..count {
            guests.push(host.spawn(&reactor, &program, GuestConfig::new()).expect("there is room for it"));
        }
        while guests.last().is_some_and(|guest| guest.stats().polls == 0) {
            reactor.poll(Some(Duration::ZERO)).expect("the loop runs");
        }
    });
    println!("cpu_per_start us {each:.3}");
}

/// The echo server as a guest.
pub(crate) fn echo(load: Load) {
    let mut reactor = Reactor::new().expect("a loop");
    let host = host(4);
    let program = host.compile(&modules::echo()).expect("the module compiles");
    let (writer, reader) = pipe(4096);
    let mut config = GuestConfig::new();
    config.arguments.push("echo".into());
    config.stdout = Stdout::Pipe(writer);
    config.network.allow_listen("127.0.0.1:*").expect("a rule");
    // Ten thousand connections are beyond the defaults.
    (config.limits.handles, config.limits.watches) = (1 << 16, 1 << 16);
    config.limits.memory_bytes = 1 << 30;
    let _guest = host.spawn(&reactor, &program, config).expect("there is room for it");
    let port = reactor.block_on(port(&reader)).expect("the loop runs");
    measure_client(port, load, reactor.remote());
    reactor.run().expect("the loop runs");
}

/// The port in the line that the guest prints.
async fn port(stdout: &PipeReader) -> u16 {
    let mut line = Vec::new();
    let mut byte = [0];
    while stdout.read(&mut byte).await == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&line).into_owned();
    text.rsplit(' ').next().and_then(|port| port.parse().ok()).expect("the guest prints its port")
}
