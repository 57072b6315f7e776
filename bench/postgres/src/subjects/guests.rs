//! The client in guests, all on this thread.

use super::plan;
use crate::meter::Meter;
use crate::server;
use mainspring_host::{GuestConfig, GuestHandle, Host, HostConfig, PipeReader, Stdout, pipe};
use mainspring_reactor::Reactor;
use std::path::PathBuf;
use std::time::Duration;

/// Which guest, on which host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A module on sys/loop.
    New,
    /// A component that wakes itself.
    Old,
    /// The same component, waiting by `poll-socket`.
    Parked,
    /// A component that wakes itself, on a host that blocks for so many milliseconds, or not at
    /// all.
    Plan(Option<i32>),
}

pub(crate) fn run(kind: Kind, work: &str, number: u64, count: usize) {
    let mut reactor = Reactor::new().expect("a loop");
    let guests = start(&reactor, kind, work, number, count);
    if work == "idle" {
        return idle(&mut reactor, &guests, number);
    }
    let (meter, agains) = reactor
        .block_on(async {
            for (_, output) in &guests {
                assert_eq!(line(output).await, "ready");
            }
            let (meter, agains) = (Meter::start(), agains(&guests));
            for (_, output) in &guests {
                assert!(line(output).await.starts_with("done"));
            }
            (meter, agains)
        })
        .expect("the loop runs");
    meter.print(0);
    print_calls(kind, agains, &guests);
}

/// The guests do nothing: what that costs.
fn idle(reactor: &mut Reactor, guests: &[(GuestHandle, PipeReader)], milliseconds: u64) {
    let wait = |reactor: &mut Reactor, milliseconds| {
        let sleep = reactor.handle().sleep(Duration::from_millis(milliseconds));
        reactor.block_on(sleep).expect("the loop runs").expect("time passes");
    };
    for (_, output) in guests {
        assert_eq!(reactor.block_on(line(output)).expect("the loop runs"), "idle");
    }
    wait(reactor, 100);
    let (before, calls, meter) = (guests[0].0.stats(), agains(guests), Meter::start());
    wait(reactor, milliseconds);
    // The thread wakes up once to stop waiting.
    meter.print(1);
    let after = guests[0].0.stats();
    println!("guest_cpu us {:.3}", (after.cpu_time - before.cpu_time).as_nanos() as f64 / 1e3);
    println!("guest_wake_ups count {}", after.wakeups - before.wakeups);
    println!("calls_that_would_block count {}", agains(guests) - calls);
}

/// The calls that would have blocked, whoever counts them.
fn agains(guests: &[(GuestHandle, PipeReader)]) -> u64 {
    guests.iter().map(|(guest, _)| guest.stats().agains).sum::<u64>() + plan::would_blocks()
}

fn print_calls(kind: Kind, before: u64, guests: &[(GuestHandle, PipeReader)]) {
    if kind != Kind::New {
        println!("calls_that_would_block count {}", agains(guests) - before);
    }
}

fn start(
    reactor: &Reactor,
    kind: Kind,
    work: &str,
    number: u64,
    count: usize,
) -> Vec<(GuestHandle, PipeReader)> {
    let mut config = HostConfig::new();
    config.guests_max = count as u32;
    if let Kind::Plan(_) = kind {
        config.link_component(plan::add_to_linker);
    }
    let host = config.build().expect("a host");
    let spawn = spawner(&host, kind);
    (0..count)
        .map(|_| {
            let (writer, reader) = pipe(4096);
            let mut config = GuestConfig::new();
            let park = (kind == Kind::Parked).then(|| "park".to_owned());
            let words = [server(), work.to_owned(), number.to_string()];
            config.arguments = std::iter::once("client".to_owned()).chain(park).chain(words).collect();
            config.stdout = Stdout::Pipe(writer);
            config.stderr = Stdout::Inherit;
            config.network.allow_connect("loopback").expect("a rule");
            if let Kind::Plan(wait_ms) = kind {
                config.extension(plan::Sockets::new(wait_ms));
            }
            (spawn(reactor, config), reader)
        })
        .collect()
}

/// Starts a guest.
type Spawn = Box<dyn Fn(&Reactor, GuestConfig) -> GuestHandle>;

fn spawner(host: &Host, kind: Kind) -> Spawn {
    let host = host.clone();
    if kind == Kind::New {
        let program = host.compile(&module("wasi-postgres.wasm")).expect("the module compiles");
        return Box::new(move |reactor, config| {
            host.spawn(reactor, &program, config).expect("there is room")
        });
    }
    let component = module("wasi-socket-postgres.component.wasm");
    let component = host.compile_component(&component).expect("the component compiles");
    Box::new(move |reactor, config| host.spawn_component(reactor, &component, config).expect("there is room"))
}

/// A guest that `cargo xtask guests` built.
fn module(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("MAINSPRING_GUESTS").map(PathBuf::from).unwrap_or_default();
    std::fs::read(folder.join(name)).unwrap_or_else(|error| {
        eprintln!("cannot read {name}: {error}; run `cargo xtask bench postgres`");
        std::process::exit(1);
    })
}

async fn line(output: &PipeReader) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while output.read(&mut byte).await == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).into_owned()
}
