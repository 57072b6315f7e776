//! The client in guests, all on this thread.

use super::plan;
use crate::meter::{Reading, WakeReading};
use crate::server;
use mainspring_host::{GuestConfig, GuestHandle, Host, HostConfig, PipeReader, Stdout, pipe};
use mainspring_reactor::Reactor;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
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
    let (readings, agains) = reactor
        .block_on(async {
            let mut readings = Vec::new();
            for (_, output) in &guests {
                let (word, said) = line(output).await;
                assert_eq!(word, "ready");
                readings.push(said);
            }
            let agains = agains(&guests);
            for (_, output) in &guests {
                let (words, said) = line(output).await;
                assert!(words.starts_with("done"), "{words}");
                readings.push(said);
            }
            (readings, agains)
        })
        .expect("the loop runs");
    let (start, end) = Reading::first_and_last(&readings).expect("there are guests");
    start.print_until(end, 0);
    print_calls(kind, agains, &guests);
}

/// The guests do nothing: what that costs.
fn idle(reactor: &mut Reactor, guests: &[(GuestHandle, PipeReader)], milliseconds: u64) {
    let wait = |reactor: &mut Reactor, milliseconds| {
        let sleep = reactor.handle().sleep(Duration::from_millis(milliseconds));
        reactor.block_on(sleep).expect("the loop runs").expect("time passes");
    };
    for (_, output) in guests {
        assert_eq!(reactor.block_on(line(output)).expect("the loop runs").0, "idle");
    }
    wait(reactor, 100);
    let (before, calls, start) = (guests[0].0.stats(), agains(guests), Reading::now());
    wait(reactor, milliseconds);
    // The thread wakes up once to stop waiting.
    start.print_until(Reading::now(), 1);
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

/// A line, and the reading of the moment in which the guest said it.
async fn line(output: &PipeReader) -> (String, Reading) {
    let (mut line, mut said) = (Vec::new(), None);
    while let (Some(byte), noticed) = byte(output).await
        && byte != b'\n'
    {
        said = said.or(noticed);
        line.push(byte);
    }
    (String::from_utf8_lossy(&line).into_owned(), said.unwrap_or_else(Reading::now))
}

/// A byte, and if it was not there yet, the reading of the moment in which it came.
async fn byte(output: &PipeReader) -> (Option<u8>, Option<Reading>) {
    let mut byte = [0];
    let mut noticed: Option<Arc<WakeReading>> = None;
    let count = {
        let mut read = pin!(output.read(&mut byte));
        poll_fn(|context| {
            let wake = noticed.get_or_insert_with(|| WakeReading::new(context.waker()));
            read.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(wake))))
        })
        .await
    };
    ((count == 1).then_some(byte[0]), noticed.and_then(|wake| wake.first()))
}
